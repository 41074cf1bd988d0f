"""One fault from its beginning to its end, with both in the ledger; and the end of those that a killed soak left."""

from __future__ import annotations

import asyncio
import contextlib
import time

import msgspec

from soak.clock import now_us
from soak.errors import ServerUnreachableError, SoakError, UsageError
from soak.faults.catalogue import ALL, current_name
from soak.faults.fault import Fault, FaultUnavailableError
from soak.faults.healing import Note, Notes, heal_surely
from soak.ledger.records import FaultPhase
from soak.ledger.run import RunJournal
from soak.servers.servers import Servers
from soak.tasks import raise_if_cancelled

LEDGER_SECONDS_MAX = 60.0
_AGAIN_SECONDS = 0.5


class Injected(msgspec.Struct, frozen=True, kw_only=True):
    """A fault that has been and is over. Times are microseconds of CLOCK_MONOTONIC."""

    fault: str
    """Identity of its window in the ledger."""
    name: str
    target: str
    parameters: dict[str, str] = {}
    started: int
    ended: int


class HealFailedError(ServerUnreachableError):
    """A fault happened, and its server could not be brought back from it."""


async def during(
    fault: Fault,
    servers: Servers,
    target: str,
    journal: RunJournal,
    hold_seconds: float,
    cut_short: asyncio.Event | None = None,
) -> Injected:
    """Let a fault happen, wait, and heal it; it is healed whatever happens in between, also when cancelled.

    An event may cut the waiting short, which a cancellation could not do without cutting the healing short, too. The
    ledger has the window's start before anything happens and its end after all is well again. Where healing
    fails there is no end: what is read from such a server proves nothing.
    """
    reason = fault.unavailable(servers, target) or await fault.breaks_nothing(servers, target)
    if reason is not None:
        raise FaultUnavailableError(f"{fault.name} cannot be injected: {reason}")
    telemetry = await _telemetry(servers, target)
    started = now_us()
    start = record_of(fault, target, "start", started, telemetry=telemetry)
    await _write(journal, start)
    Notes(servers.nodes[target]).begin(fault.name)  # should we be killed, the next start heals it
    try:
        await fault.inject(servers, target)
        in_effect = now_us()
        await _write(journal, msgspec.structs.replace(start, phase="injected", at=in_effect, telemetry={}))
        raise_if_cancelled()  # the ledger's client may have swallowed one
        await _hold(hold_seconds, cut_short)
    finally:
        try:
            await heal_surely(fault, servers, target)
        except SoakError as error:
            raise HealFailedError(f"{fault.name} of {target} could not be healed: {error}") from error
        ended = now_us()
        end = msgspec.structs.replace(start, phase="end", at=ended, telemetry=await _telemetry(servers, target))
        await _write(journal, end)
    return Injected(
        fault=start.fault, name=fault.name, target=target, parameters=fault.values, started=started, ended=ended
    )


def record_of(
    fault: Fault, target: str, phase: str, at: int, *, telemetry: dict[str, str] | None = None, prefix: str = ""
) -> FaultPhase:
    """Return what the ledger is told of a fault at that time; the prefix tells it from one that has begun then."""
    return FaultPhase(
        fault=f"{prefix}{fault.kind}-{target}-{at}",
        kind=fault.kind,
        target=target,
        phase=phase,
        at=at,
        excuses=fault.excuses,
        promotes=fault.promotes,
        serves=fault.serves,
        down=fault.down,
        telemetry=telemetry or {},
        parameters=fault.values,
    )


async def _hold(seconds: float, cut_short: asyncio.Event | None) -> None:
    if cut_short is None:
        await asyncio.sleep(seconds)
        return
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await cut_short.wait()


async def _telemetry(servers: Servers, target: str) -> dict[str, str]:
    # A server that does not answer just now is no reason not to break or heal it.
    try:
        return await servers.telemetry(target)
    except ServerUnreachableError:
        return {}


async def _write(journal: RunJournal, phase: FaultPhase) -> None:
    deadline = time.monotonic() + LEDGER_SECONDS_MAX
    while True:
        try:
            return await journal.fault(phase)
        except SoakError:
            if time.monotonic() >= deadline:
                raise
            await asyncio.sleep(_AGAIN_SECONDS)


async def heal_leftovers(servers: Servers) -> list[Note]:
    """Heal every fault that is noted as begun and not healed; call it once after the servers have started.

    Returns what it healed. Raises `SoakError` where one cannot be healed, and leaves the note of that one.
    """
    healed = []
    for target, server in servers.nodes.items():
        # The last first: one fault may stand in the way of healing an earlier one, as connections that are taken do.
        for note in reversed(Notes(server).all()):
            fault = ALL.get(current_name(note.fault))
            if fault is None:
                raise UsageError(
                    f"{target} was left with the fault {note.fault}, which this soak does not know; "
                    "start the soak that injected it, or choose another data folder"
                )
            await heal_surely(fault, servers, target)
            healed.append(note)
    return healed
