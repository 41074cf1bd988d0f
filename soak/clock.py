"""The clock of a run: microseconds of CLOCK_MONOTONIC, which never jumps and which processes of one boot share."""

from __future__ import annotations

import time
from pathlib import Path

BOOT_CHARACTERS = 13


def now_us() -> int:
    return time.monotonic_ns() // 1000


def clock_offset_us() -> int:
    """Return what turns the times of a run into those on a wall, in microseconds."""
    return time.time_ns() // 1000 - now_us()


def boot_identity() -> str:
    """Name this boot of this machine: two processes with the same one share a monotonic clock."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()[:BOOT_CHARACTERS]
    except OSError:
        return "unknown"
