"""A sign of life every second, so that the next daemon knows until when this one lived."""

from __future__ import annotations

import asyncio
import contextlib
import time
from pathlib import Path

import msgspec

from soak.clock import boot_identity, now_us
from soak.proc.files import DamagedFileError, read_sealed, write_sealed

INTERVAL_SECONDS = 1.0


class Heartbeat(msgspec.Struct, frozen=True, kw_only=True):
    """When the daemon was last known alive."""

    run: str
    boot: str
    """CLOCK_MONOTONIC begins anew with each boot: two times of different boots cannot be compared."""
    at_us: int
    active_seconds: float
    """How long the run has been active, all its daemons taken together."""


def read(path: Path) -> Heartbeat | None:
    """Return the last sign of life; None if there is none, or it is damaged."""
    try:
        return read_sealed(path, Heartbeat)
    except DamagedFileError:
        return None


async def beat(path: Path, run: str, active_before_seconds: float) -> None:
    """Write the sign of life until cancelled."""
    began = time.monotonic()
    boot = boot_identity()
    while True:
        active = active_before_seconds + time.monotonic() - began
        sign = Heartbeat(run=run, boot=boot, at_us=now_us(), active_seconds=active)
        with contextlib.suppress(OSError):
            # Not synced to disk: it has to survive our death, not the machine's.
            write_sealed(path, sign, is_synced=False)
        await asyncio.sleep(INTERVAL_SECONDS)
