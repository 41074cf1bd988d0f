"""The clock of a run: microseconds of CLOCK_MONOTONIC, which never jumps and which processes of one boot share.

Times of two boots, or of two hosts, cannot be compared as they are. Each goes with the name of its timeline: a boot of
a machine, and the time namespace where a container has one of its own. A verifier that takes up what it saved in
another boot goes on in that timeline (`continue_timeline`), so that nothing that was saved has to be converted.
"""

from __future__ import annotations

import time
from pathlib import Path

BOOT_CHARACTERS = 13
_BOOT_FILE = Path("/proc/sys/kernel/random/boot_id")
_NAMESPACE_FILE = Path("/proc/self/timens_offsets")


class _Continued:
    """The timeline of an earlier boot that this process goes on in."""

    name = ""
    ahead_us = 0


def now_us() -> int:
    return time.monotonic_ns() // 1000 + _Continued.ahead_us


def clock_offset_us() -> int:
    """Return what turns the times of a run into those on a wall, in microseconds."""
    return time.time_ns() // 1000 - now_us()


def suspended_us() -> int:
    """Return a number that grows by the time for which this machine is suspended: CLOCK_MONOTONIC stops, then."""
    return (time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.monotonic_ns()) // 1000


def boot_identity() -> str:
    """Name this boot of this machine: two processes with the same one share a monotonic clock."""
    try:
        boot = _BOOT_FILE.read_text(encoding="ascii").strip()[:BOOT_CHARACTERS]
    except OSError:
        return "unknown"
    return boot + _namespace_offset()


def timeline() -> str:
    """Name the clock that `now_us` is of."""
    return _Continued.name or boot_identity()


def continue_timeline(name: str, ahead_us: int) -> None:
    """Let `now_us` of this process go on in the timeline of an earlier boot, so much ahead of its own clock."""
    _Continued.name, _Continued.ahead_us = name, ahead_us


def _namespace_offset() -> str:
    """Return by how much a time namespace shifts the clock; empty where there is none, or where it does not."""
    try:
        lines = _NAMESPACE_FILE.read_text(encoding="ascii").splitlines()
    except OSError:
        return ""  # a kernel without them
    for line in lines:
        clock, seconds, nanoseconds = line.split()
        if clock in {"monotonic", "1"} and (seconds, nanoseconds) != ("0", "0"):
            return f"{int(seconds):+d}.{int(nanoseconds):09d}"
    return ""
