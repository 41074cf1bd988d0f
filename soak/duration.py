"""Durations as people write them: 250ms, 90s, 20m, 8h, 3d, 1h30m."""

from __future__ import annotations

import math
import re

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")


def parse_seconds(text: str | float) -> float:
    """Return the seconds that a duration means; raises `ValueError` with a line that says what to write."""
    if isinstance(text, int | float) and not isinstance(text, bool):
        return _not_negative(float(text), str(text))
    stripped = str(text).strip().lower()
    try:
        return _not_negative(float(stripped), stripped)
    except ValueError as error:
        if str(error).startswith("duration"):
            raise
    if stripped.startswith("-"):
        raise ValueError(f"duration {stripped!r} is negative; write one like 90s, 8h or 3d")
    position = 0
    seconds = 0.0
    while position < len(stripped):
        part = _PART.match(stripped, position)
        if part is None:
            break
        seconds += float(part[1]) * _UNITS[part[2]]
        position = part.end()
    if not stripped or position != len(stripped):
        raise ValueError(f"duration {text!r} is not understood; write one like 90s, 8h or 3d")
    return seconds


def _not_negative(seconds: float, text: str) -> float:
    if not math.isfinite(seconds):
        raise ValueError(f"duration {text!r} is not finite; write one like 90s, 8h or 3d")
    if seconds < 0:
        raise ValueError(f"duration {text!r} is negative; write one like 90s, 8h or 3d")
    return seconds


def format_seconds(seconds: float) -> str:
    """Write a duration the way `parse_seconds` reads it, in the largest units that fit."""
    if seconds < 1:
        return f"{seconds * 1000:.0f}ms"
    if seconds < 60:
        return f"{seconds:.3g}s"
    rest = round(seconds)
    parts = []
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts[:2])


def format_seconds_exactly(seconds: float) -> str:
    """Write a duration so that `parse_seconds` returns the same number."""
    short = format_seconds(seconds)
    if parse_seconds(short) == seconds:
        return short
    return repr(seconds) if "e" in repr(seconds) else f"{seconds!r}s"


def format_latency(seconds: float | None) -> str:
    """Write how long an operation took, in three digits; `-` where nothing was measured."""
    if seconds is None:
        return "-"
    if seconds < 0.000_999_5:
        return f"{seconds * 1e6:.3g}µs"
    return f"{seconds * 1000:.3g}ms" if seconds < 0.999_5 else format_seconds(seconds)
