"""Fault windows that nobody planned: a server that died by itself, or went down with an earlier daemon."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

import msgspec

from soak.checker.telemetry import CRASH, FAILOVER, Unplanned
from soak.clock import now_us
from soak.errors import SoakError
from soak.faults.fault import Fault
from soak.faults.window import record_of
from soak.ledger.records import FaultPhase
from soak.ledger.run import RunJournal
from soak.servers.server import LifecycleEvent

QUEUE_MAX = 1_000
_RETRY_SECONDS = 0.5


class UnplannedFaults:
    """Writes the windows into the ledger, in order, and keeps trying while the ledger is away."""

    def __init__(self, on_event: Callable[[str], None]) -> None:
        self.dropped = 0
        self._on_event = on_event
        self._open: dict[tuple[str, Unplanned], FaultPhase] = {}
        self._queue: asyncio.Queue[FaultPhase] = asyncio.Queue(QUEUE_MAX)

    @property
    def active(self) -> list[str]:
        return sorted(f"{phase.kind} of {phase.target}" for phase in self._open.values())

    def died(self, event: LifecycleEvent) -> None:
        """Open a window: a server is gone, or replaced, though nobody asked for it. What is gone cannot die again.

        A node that takes over is more than the death that made it: the contract says for each what may be lost.
        """
        what = FAILOVER if event.replaces else CRASH
        if (event.kind, what) in self._open:
            return
        name = f"{what.kind}-{event.kind}-{event.at_us}"
        phase = _unplanned(name, what.kind, event.kind, "start", event.at_us, what)
        phase = msgspec.structs.replace(phase, telemetry=event.telemetry)
        self._open[event.kind, what] = phase
        self._write(phase)

    def came_back(self, event: LifecycleEvent) -> None:
        """Close the windows of a server. While its group is changing its primary, only the group can say it is back."""
        if (event.kind, FAILOVER) in self._open and not event.replaces:
            return
        for what in (CRASH, FAILOVER):
            opened = self._open.pop((event.kind, what), None)
            if opened is not None:
                self._write(msgspec.structs.replace(opened, phase="end", at=event.at_us, telemetry=event.telemetry))

    def restarted_with_daemon(self, servers: Iterable[str], last_alive_us: int | None) -> None:
        """Note that the servers went down with the daemon before us, some time after its last sign of life."""
        now = now_us()
        began = now if last_alive_us is None else last_alive_us
        for server in servers:
            name = f"restart-{server}-{began}"
            # It may have been killed, for all we know.
            self._write(_unplanned(name, "restart", server, "start", began, CRASH))
            self._write(_unplanned(name, "restart", server, "end", now, CRASH))

    def healed_since(self, fault: Fault, target: str) -> None:
        """Note that a fault of a server that lived on, begun by the daemon before us, is over by now."""
        now = now_us()
        for phase in ("start", "end"):
            # Of no length, and later than that one: its end is the end of whatever began before it.
            self._write(record_of(fault, target, phase, now, prefix="healed-"))

    async def write_to(self, journal: RunJournal) -> None:
        """Write what comes, until cancelled."""
        while True:
            phase = await self._queue.get()
            await until_written(lambda phase=phase: journal.fault(phase))  # type: ignore[misc]
            self._queue.task_done()

    async def flush(self) -> None:
        """Wait until all windows are in the ledger."""
        await self._queue.join()

    def _write(self, phase: FaultPhase) -> None:
        try:
            self._queue.put_nowait(phase)
        except asyncio.QueueFull:
            self.dropped += 1
            self._on_event(f"the ledger is away too long: a fault window of {phase.target} is not recorded")


async def until_written(write: Callable[[], Awaitable[None]]) -> None:
    """Write into the ledger, as often as it takes."""
    while True:
        try:
            return await write()
        except SoakError:
            await asyncio.sleep(_RETRY_SECONDS)


def _unplanned(fault: str, kind: str, target: str, phase: str, at: int, what: Unplanned) -> FaultPhase:
    return FaultPhase(
        fault=fault,
        kind=kind,
        target=target,
        phase=phase,
        at=at,
        planned=False,
        excuses=what.excuses,
        promotes=what.promotes,
    )
