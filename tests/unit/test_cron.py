from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from soak import cron

BOUNDS = ((0, 59), (0, 23), (1, 28), (1, 12), (0, 6))
LOOKED_AHEAD_MINUTES = 60 * 24 * 40
MOMENTS = st.datetimes(dt.datetime.fromisoformat("2020-01-01"), dt.datetime.fromisoformat("2035-01-01"))


def field(low: int, high: int) -> st.SearchStrategy[tuple[str, frozenset[int]]]:
    """Draw a field as it is written, with the values it means, made by other means than the parser's."""
    number = st.integers(low, high)
    one = number.map(lambda value: (str(value), frozenset({value})))
    span = (
        st.tuples(number, number).map(sorted).map(lambda ends: (f"{ends[0]}-{ends[1]}", _from_to(ends[0], ends[1], 1)))
    )
    step = st.tuples(number, number, st.integers(1, 9)).map(
        lambda drawn: (
            f"{min(drawn[:2])}-{max(drawn[:2])}/{drawn[2]}",
            _from_to(min(drawn[:2]), max(drawn[:2]), drawn[2]),
        )
    )
    listed = st.lists(st.one_of(one, span, step), min_size=1, max_size=3).map(
        lambda parts: (",".join(text for text, _ in parts), frozenset().union(*(values for _, values in parts)))
    )
    every = st.integers(1, 9).map(lambda by: (f"*/{by}", _from_to(low, high if high != 28 else 31, by)))
    return st.one_of(st.just(("*", _from_to(low, high if high != 28 else 31, 1))), every, listed)


def _from_to(low: int, high: int, step: int) -> frozenset[int]:
    return frozenset(value for value in range(low, high + 1) if (value - low) % step == 0)


FIELDS = st.tuples(*(field(low, high) for low, high in BOUNDS))


@given(FIELDS, MOMENTS)
@settings(deadline=None, max_examples=40)
def test_the_next_time_is_the_first_minute_that_matches(
    fields: tuple[tuple[str, frozenset[int]], ...], moment: dt.datetime
) -> None:
    expression = cron.parse(" ".join(text for text, _ in fields))
    minutes, hours, month_days, months, week_days = (values for _, values in fields)
    either = not fields[2][0].startswith("*") and not fields[4][0].startswith("*")

    def means(minute: dt.datetime) -> bool:
        days = (minute.day in month_days, (minute.weekday() + 1) % 7 in week_days)
        fits = any(days) if either else all(days)
        return fits and minute.minute in minutes and minute.hour in hours and minute.month in months

    found = expression.next_after(moment)
    assert found > moment
    assert means(found)
    minute = moment.replace(second=0, microsecond=0) + dt.timedelta(minutes=1)
    for _ in range(LOOKED_AHEAD_MINUTES):
        if minute >= found:
            break
        assert not means(minute), f"{minute} was passed over for {found}"
        # Whole hours that cannot match are passed over, or this would take minutes itself.
        minute += dt.timedelta(minutes=1 if minute.hour in hours else 60 - minute.minute)


@pytest.mark.parametrize(
    ("text", "after", "found"),
    [
        ("0 */2 * * *", "2026-11-16 22:29", "2026-11-17 00:00"),
        ("*/20 9-17 * * mon-fri", "2026-11-13 17:40", "2026-11-16 09:00"),
        ("30 4 1,15 * 5", "2026-11-16 00:00", "2026-11-20 04:30"),
        ("0 0 29 2 *", "2096-03-01 00:00", "2104-02-29 00:00"),
        ("0 12 * jan,JUL sun", "2026-11-16 00:00", "2027-01-03 12:00"),
        ("15 10 * * 7", "2026-11-16 00:00", "2026-11-22 10:15"),
        ("10/25 * * * *", "2026-11-16 00:11", "2026-11-16 00:35"),
        ("@daily", "2026-11-16 00:00", "2026-11-17 00:00"),
        ("59 23 31 12 *", "2026-12-31 23:59", "2027-12-31 23:59"),
    ],
)
def test_an_expression_means_what_crontab_says(text: str, after: str, found: str) -> None:
    assert cron.parse(text).next_after(dt.datetime.fromisoformat(after)) == dt.datetime.fromisoformat(found)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("* * * *", "has 4 fields"),
        ("60 * * * *", "'60' is no minute; it is 0 to 59"),
        ("* 24 * * *", "is no hour"),
        ("* * 0 * *", "is no day of the month; it is 1 to 31"),
        ("* * * foo *", "is no month; it is 1 to 12 or jan to dec"),
        ("* * * * 8", "is no day of the week"),
        ("*/0 * * * *", "the step after / is a number from 1"),
        ("*/x * * * *", "the step after / is a number from 1"),
        ("50-10 * * * *", "runs backwards"),
        (", * * * *", "is no minute"),
        ("-5 * * * *", "is no minute"),
        ("0 0 31 2 *", "never happens"),
        ("٣ * * * *", "is no minute"),
    ],
)
def test_what_is_no_expression_is_refused_with_the_field_and_what_may_stand_there(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        cron.parse(text)
