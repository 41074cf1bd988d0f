"""A sign of life every second, so that the next daemon knows until when this one lived."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import msgspec

INTERVAL_SECONDS = 1.0


class Heartbeat(msgspec.Struct, frozen=True, kw_only=True):
    """When the daemon was last known alive."""

    run: str
    boot: str
    """CLOCK_MONOTONIC begins anew with each boot: two times of different boots cannot be compared."""
    at_us: int
    active_seconds: float
    """How long the run has been active, all its daemons taken together."""


def now_us() -> int:
    return time.monotonic_ns() // 1000


def boot_identity() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return "unknown"


def read(path: Path) -> Heartbeat | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Heartbeat)
    except (OSError, msgspec.MsgspecError):
        return None


async def beat(path: Path, run: str, active_before_seconds: float) -> None:
    """Write the sign of life until cancelled."""
    began = time.monotonic()
    boot = boot_identity()
    while True:
        active = active_before_seconds + time.monotonic() - began
        sign = Heartbeat(run=run, boot=boot, at_us=now_us(), active_seconds=active)
        _replace(path, msgspec.json.encode(sign))
        await asyncio.sleep(INTERVAL_SECONDS)


def _replace(path: Path, content: bytes) -> None:
    # Not synced to disk: it has to survive our death, not the machine's.
    temporary = path.with_name(path.name + ".new")
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    except OSError:
        return
