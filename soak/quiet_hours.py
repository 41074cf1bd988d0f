"""Hours of the day in which nothing is broken on purpose, as people write them: 22:00-06:00."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from dataclasses import dataclass

_SPAN = re.compile(r"(\d{1,2}):(\d{2})-(\d{1,2}):(\d{2})")
_DAY_SECONDS = 86_400.0


@dataclass(frozen=True)
class QuietHours:
    """From one time of the day to another, over midnight if the second is the smaller one."""

    from_seconds: float
    """Since midnight; this moment is quiet."""
    to_seconds: float
    """Since midnight; this moment no longer is."""

    def covers(self, moment: dt.datetime, lasting_seconds: float = 0.0) -> bool:
        """Whether any part of what begins at this moment and lasts so long falls into it."""
        since_midnight = moment.hour * 3600 + moment.minute * 60 + moment.second + moment.microsecond / 1e6
        # Seen from the beginning of the quiet hours, which makes midnight a time like any other.
        since_quiet = (since_midnight - self.from_seconds) % _DAY_SECONDS
        length = (self.to_seconds - self.from_seconds) % _DAY_SECONDS
        return since_quiet < length or since_quiet + lasting_seconds >= _DAY_SECONDS


def parse(text: str) -> QuietHours:
    """Read a span; raises `ValueError` with a line that says what to write."""
    found = _SPAN.fullmatch(text.strip())
    numbers = [int(part) for part in found.groups()] if found else []
    if not numbers or numbers[0] > 23 or numbers[2] > 24 or numbers[1] > 59 or numbers[3] > 59:
        raise ValueError(f"{text!r} is no span of the day; write one like 22:00-06:00")
    begin, end = numbers[0] * 3600 + numbers[1] * 60, numbers[2] * 3600 + numbers[3] * 60
    if end > _DAY_SECONDS or begin == end % _DAY_SECONDS:
        raise ValueError(f"{text!r} is the whole day or more; write one like 22:00-06:00")
    return QuietHours(float(begin), end % _DAY_SECONDS)


def is_quiet(spans: Sequence[QuietHours], moment: dt.datetime, lasting_seconds: float = 0.0) -> bool:
    return any(span.covers(moment, lasting_seconds) for span in spans)
