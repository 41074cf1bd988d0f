"""The clock of a run: microseconds of CLOCK_MONOTONIC, which never jumps and which processes of one boot share."""

from __future__ import annotations

import time


def now_us() -> int:
    return time.monotonic_ns() // 1000


def clock_offset_us() -> int:
    """Return what turns the times of a run into those on a wall, in microseconds."""
    return time.time_ns() // 1000 - now_us()
