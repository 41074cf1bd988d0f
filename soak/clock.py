"""The clock of every time that is compared with another: it never jumps, and all processes of a machine share it."""

from __future__ import annotations

import time


def now_us() -> int:
    """Return CLOCK_MONOTONIC in microseconds."""
    return time.monotonic_ns() // 1000
