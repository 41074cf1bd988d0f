"""Fault windows that nobody planned: a server that died by itself, or went down with an earlier daemon."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from soak.checker.faults import Excuse
from soak.clock import now_us
from soak.errors import SoakError
from soak.faults.fault import Fault
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
        self._open: dict[str, FaultPhase] = {}
        self._queue: asyncio.Queue[FaultPhase] = asyncio.Queue(QUEUE_MAX)

    @property
    def active(self) -> list[str]:
        return sorted(f"{phase.kind} of {phase.target}" for phase in self._open.values())

    def died(self, event: LifecycleEvent) -> None:
        """Open a window: a server is gone though nobody asked it to. One that is gone already cannot die again."""
        if event.kind in self._open:
            return
        phase = _unplanned(f"crash-{event.kind}-{event.at_us}", "crash", event.kind, "start", event.at_us)
        self._open[event.kind] = phase
        self._write(phase)

    def came_back(self, event: LifecycleEvent) -> None:
        opened = self._open.pop(event.kind, None)
        if opened is not None:
            self._write(_unplanned(opened.fault, opened.kind, opened.target, "end", event.at_us))

    def restarted_with_daemon(self, servers: Iterable[str], last_alive_us: int | None) -> None:
        """Note that the servers went down with the daemon before us, some time after its last sign of life."""
        now = now_us()
        began = now if last_alive_us is None else last_alive_us
        for server in servers:
            name = f"restart-{server}-{began}"
            self._write(_unplanned(name, "restart", server, "start", began))
            self._write(_unplanned(name, "restart", server, "end", now))

    def healed_since(self, fault: Fault, target: str) -> None:
        """Note that a fault of a server that lived on, begun by the daemon before us, is over by now."""
        now = now_us()
        for phase in ("start", "end"):
            # Of no length, and later than that one: its end is the end of whatever began before it.
            self._write(
                FaultPhase(
                    fault=f"healed-{fault.kind}-{target}-{now}",
                    kind=fault.kind,
                    target=target,
                    phase=phase,
                    at=now,
                    excuses=fault.excuses,
                    serves=fault.serves,
                    down=fault.down,
                )
            )

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


def _unplanned(fault: str, kind: str, target: str, phase: str, at: int) -> FaultPhase:
    # Also one that went down with its daemon: it may have been killed, for all we know.
    return FaultPhase(fault=fault, kind=kind, target=target, phase=phase, at=at, planned=False, excuses=Excuse.CRASH)
