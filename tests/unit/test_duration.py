from __future__ import annotations

import pytest

from soak.duration import format_seconds, format_seconds_exactly, parse_seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("250ms", 0.25),
        ("90s", 90.0),
        ("20m", 1200.0),
        ("8h", 28_800.0),
        ("3d", 259_200.0),
        ("1h30m", 5400.0),
        ("1.5s", 1.5),
        (" 2S ", 2.0),
        ("12", 12.0),
        (12, 12.0),
        (0.5, 0.5),
        ("0", 0.0),
    ],
)
def test_a_duration_is_read_as_people_write_it(text: str | float, seconds: float) -> None:
    assert parse_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "5x", "s", "1h 30", "10 s 5", "--5s", "1e400", "nan", True])
def test_what_is_no_duration_is_refused_with_a_line_that_says_what_to_write(text: str) -> None:
    with pytest.raises(ValueError, match="write one like 90s, 8h or 3d"):
        parse_seconds(text)


@pytest.mark.parametrize("text", ["-5s", "-1", -3, -0.5])
def test_a_negative_duration_is_called_negative(text: str | float) -> None:
    with pytest.raises(ValueError, match="is negative"):
        parse_seconds(text)


@pytest.mark.parametrize("seconds", [0.02, 0.25, 1.0, 5.0, 59.0, 60.0, 90.0, 3600.0, 5400.0, 86_400.0, 259_200.0])
def test_what_is_written_is_read_back_as_the_same_duration(seconds: float) -> None:
    assert parse_seconds(format_seconds(seconds)) == pytest.approx(seconds)


@pytest.mark.parametrize("seconds", [0.0004, 90.5, 0.0, 1.0, 5400.0, 0.1 + 0.2, 1e-7, 1234.5678])
def test_a_duration_that_is_written_exactly_is_read_back_the_same(seconds: float) -> None:
    assert parse_seconds(format_seconds_exactly(seconds)) == seconds
