"""Moments as people write and read them: an ISO time, or how long ago."""

from __future__ import annotations

import datetime as dt
import time

from soak.duration import parse_seconds
from soak.errors import UsageError


def parse_moment(text: str, flag: str) -> float:
    """Return the wall seconds that `2h` (ago) or `2026-01-31T12:00` means."""
    try:
        return time.time() - parse_seconds(text)
    except ValueError:
        pass
    try:
        return dt.datetime.fromisoformat(text).timestamp()
    except ValueError:
        raise UsageError(
            f"{flag} {text!r} is no moment; write how long ago, like 30m, or a time like 2026-01-31T12:00"
        ) from None


def clock(wall_seconds: float) -> str:
    """Write a moment with its date, in the time of this machine."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(wall_seconds))


def clock_ms(wall_seconds: float) -> str:
    """Write the time of day to the millisecond, in the time of this machine."""
    whole = int(wall_seconds // 1)
    return f"{time.strftime('%H:%M:%S', time.localtime(whole))}.{int((wall_seconds - whole) * 1000):03d}"
