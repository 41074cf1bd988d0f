"""Healing until it is healed: a server that has just been broken may not listen at the first try."""

from __future__ import annotations

import asyncio
import time

from soak.errors import ServerUnreachableError, SoakError
from soak.faults.fault import Fault
from soak.faults.notes import Notes
from soak.servers.bed import Testbed

HEAL_TRIES_MAX = 3
SERVING_SECONDS_MAX = 60.0
_AGAIN_SECONDS = 0.5
_POLL_SECONDS = 0.05


async def heal_surely(fault: Fault, bed: Testbed, target: str) -> None:
    """Heal, at most so many times, and strike the fault out of the notes; raises what the last try raised."""
    for attempt in range(1, HEAL_TRIES_MAX + 1):
        try:
            await fault.heal(bed, target)
        except SoakError:
            if attempt == HEAL_TRIES_MAX:
                raise
            await asyncio.sleep(_AGAIN_SECONDS)
        else:
            break
    Notes(bed.servers[target]).end(fault.name)


async def until_serving(bed: Testbed, target: str, seconds: float = SERVING_SECONDS_MAX) -> None:
    """Wait until a server answers that may have died of a fault, and is brought back by its supervisor or here."""
    deadline = time.monotonic() + seconds
    while True:
        await bed.servers[target].start_again()  # nothing where somebody watches over it
        try:
            await bed.telemetry(target)
        except ServerUnreachableError:
            if time.monotonic() >= deadline:
                raise
            await asyncio.sleep(_POLL_SECONDS)
        else:
            return
