from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from soak import quiet_hours

MINUTES = st.integers(0, 24 * 60 - 1)


def clock(minutes: int) -> str:
    return f"{minutes // 60:02}:{minutes % 60:02}"


@given(MINUTES, MINUTES, MINUTES, st.integers(0, 300))
def test_a_moment_is_quiet_if_any_minute_of_what_begins_then_is(begin: int, end: int, at: int, lasting: int) -> None:
    if begin == end:
        return
    hours = quiet_hours.parse(f"{clock(begin)}-{clock(end)}")
    quiet = {minute % (24 * 60) for minute in range(begin, end if end > begin else end + 24 * 60)}
    moment = dt.datetime.fromisoformat("2026-11-16") + dt.timedelta(minutes=at)
    # What ends in the very minute in which the quiet hours begin is still in them.
    expected = any((at + minute) % (24 * 60) in quiet for minute in range(lasting + 1))
    assert hours.covers(moment, lasting * 60.0) == expected


def test_midnight_may_be_written_as_24() -> None:
    assert quiet_hours.parse("22:00-24:00") == quiet_hours.parse("22:00-00:00")


@pytest.mark.parametrize(
    "text", ["22-06", "25:00-06:00", "22:60-06:00", "08:00-08:00", "00:00-24:00", "24:30-06:00", ""]
)
def test_what_is_no_span_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="write one like 22:00-06:00"):
        quiet_hours.parse(text)
