"""Times of the clock as crontab writes them: minute, hour, day of the month, month, day of the week.

Fields hold `*`, numbers, ranges (`1-5`), steps (`*/15`, `10-50/20`), lists (`1,15,30`) and names (`jan`, `mon-fri`).
Sunday is 0 and 7. Where both days are restricted, either of them is enough, as cron has always done it.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

DAYS_AHEAD_MAX = 8 * 366 + 1
"""The 29th of February may be eight years away, and nothing is further."""

_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
_SHORT = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
}


@dataclass(frozen=True)
class _Field:
    name: str
    lowest: int
    highest: int
    names: tuple[str, ...] = ()
    """Names of its values, the lowest first."""


_FIELDS = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of the month", 1, 31),
    _Field("month", 1, 12, tuple(_MONTHS)),
    _Field("day of the week", 0, 7, tuple(_DAYS)),
)


@dataclass(frozen=True)
class Cron:
    """The minutes that an expression means."""

    minutes: frozenset[int]
    hours: frozenset[int]
    month_days: frozenset[int]
    months: frozenset[int]
    week_days: frozenset[int]
    """Sunday is 0."""
    any_day: bool
    """At most one of the two days is restricted, so both have to fit."""

    def matches(self, moment: dt.datetime) -> bool:
        return self._fits_day(moment.date()) and moment.hour in self.hours and moment.minute in self.minutes

    def next_after(self, moment: dt.datetime) -> dt.datetime:
        """Return the first minute that it means after this moment of the same clock; raises `ValueError` if none."""
        moment = moment.replace(second=0, microsecond=0) + dt.timedelta(minutes=1)
        day = moment.date()
        for _ in range(DAYS_AHEAD_MAX):
            if self._fits_day(day):
                earliest = (moment.hour, moment.minute) if day == moment.date() else (0, 0)
                found = next((time for time in self._times() if time >= earliest), None)
                if found is not None:
                    return dt.datetime.combine(day, dt.time(*found), moment.tzinfo)
            day += dt.timedelta(days=1)
        raise ValueError("never happens: no month of the list has such a day")

    def _times(self) -> list[tuple[int, int]]:
        return [(hour, minute) for hour in sorted(self.hours) for minute in sorted(self.minutes)]

    def _fits_day(self, day: dt.date) -> bool:
        if day.month not in self.months:
            return False
        in_month, in_week = day.day in self.month_days, day.isoweekday() % 7 in self.week_days
        return (in_month and in_week) if self.any_day else (in_month or in_week)


def parse(text: str) -> Cron:
    """Read an expression; raises `ValueError` that names the field and what may stand there."""
    words = _SHORT.get(text.strip().lower(), text).split()
    if len(words) != len(_FIELDS):
        raise ValueError(
            f"{text!r} has {len(words)} fields; write five: minute, hour, day of the month, month, day of the week"
        )
    minutes, hours, month_days, months, week_days = (
        _values(word.lower(), field) for word, field in zip(words, _FIELDS, strict=True)
    )
    cron = Cron(
        minutes=minutes,
        hours=hours,
        month_days=month_days,
        months=months,
        week_days=frozenset(day % 7 for day in week_days),
        any_day=words[2].startswith("*") or words[4].startswith("*"),
    )
    cron.next_after(dt.datetime(2000, 1, 1))  # noqa: DTZ001  any clock will do to see that it ever happens
    return cron


def _values(word: str, field: _Field) -> frozenset[int]:
    found: set[int] = set()
    for part in word.split(","):
        span, slash, step = part.partition("/")
        if slash and not (step.isascii() and step.isdigit() and int(step)):
            raise ValueError(f"{part!r} is no {field.name}: the step after / is a number from 1")
        low, high = _bounds(span, field, is_open=bool(slash))
        if low > high:
            raise ValueError(f"{part!r} is no {field.name}: its range runs backwards; write it as two, with a comma")
        found.update(range(low, high + 1, int(step) if slash else 1))
    return frozenset(found)


def _bounds(span: str, field: _Field, *, is_open: bool) -> tuple[int, int]:
    if span == "*":
        # Seven is Sunday again, and would make `*/2` fall on it twice.
        return field.lowest, 6 if field.names and field.names[0] == "sun" else field.highest
    first, dash, last = span.partition("-")
    low = _number(first, field)
    if dash:
        return low, _number(last, field)
    return low, field.highest if is_open else low


def _number(text: str, field: _Field) -> int:
    if text in field.names:
        return field.lowest + field.names.index(text)
    number = int(text) if text.isascii() and text.isdigit() else -1
    if not field.lowest <= number <= field.highest:
        names = f" or {field.names[0]} to {field.names[-1]}" if field.names else ""
        raise ValueError(f"{text!r} is no {field.name}; it is {field.lowest} to {field.highest}{names}")
    return number
