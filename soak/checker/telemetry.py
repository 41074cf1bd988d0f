"""What a server says of itself at one moment: its effective configuration, and its own counters."""

from __future__ import annotations

import msgspec

FOLDER_MARK = "data_folder"
"""Of a server that is started here: a mark of the folder with its data, another one when that was made anew."""


class ServerSample(msgspec.Struct, frozen=True, kw_only=True):
    """One sample of one server. It corroborates a cause; it never excuses a loss."""

    server: str
    """By its kind: `redis`, `postgres`."""
    at: int
    """Microseconds of CLOCK_MONOTONIC."""
    configuration: dict[str, str] = {}
    telemetry: dict[str, str] = {}
