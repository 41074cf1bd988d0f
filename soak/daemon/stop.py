"""The end of a soak: signals and other requests to stop, reasons to end early, and the drain."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, NamedTuple, TypeVar

from soak.api.status import SoakStatus
from soak.clock import now_us
from soak.daemon.children import Child
from soak.daemon.unplanned_faults import UnplannedFaults, until_written
from soak.errors import ExitCode
from soak.ledger.records import EndOfLoad
from soak.ledger.run import RunJournal
from soak.settings import FaultSettings, SoakSettings

T = TypeVar("T")

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class LeftError(Exception):
    """A second request to stop: the work in progress is dropped."""


class StopRequest:
    """Remembers that the soak is to stop, why, and how urgently."""

    def __init__(self, on_event: Callable[[str], None] = lambda _text: None) -> None:
        self.requested = asyncio.Event()
        self.urgent = asyncio.Event()
        self.reason = ""
        self._on_event = on_event

    def ask(self, reason: str) -> None:
        """Ask to drain; the first reason is kept."""
        if not self.requested.is_set():
            self.reason = reason
            self.requested.set()

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Take Ctrl-C, SIGTERM and the end of the terminal for as long as the soak runs."""
        loop = asyncio.get_running_loop()
        # Under nohup the end of the terminal is ignored, and stays so.
        taken = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
        for number in taken:
            loop.add_signal_handler(number, self._signalled, number)
        try:
            yield
        finally:
            for number in taken:
                loop.remove_signal_handler(number)

    def _signalled(self, number: signal.Signals) -> None:
        if self.requested.is_set():
            self.urgent.set()
            return
        self.ask(signal.Signals(number).name)
        self._on_event("Stopping: draining and verifying. Press Ctrl-C again to quit immediately.")

    async def unless_asked(self, work: Coroutine[Any, Any, T]) -> T:
        """Do something that a first request already ends, such as starting."""
        return await self._unless(self.requested, work)

    async def unless_urgent(self, work: Coroutine[Any, Any, T]) -> T:
        """Do something that only a second request ends, such as draining."""
        return await self._unless(self.urgent, work)

    async def _unless(self, event: asyncio.Event, work: Coroutine[Any, Any, T]) -> T:
        task = asyncio.ensure_future(work)
        waiting = asyncio.ensure_future(event.wait())
        try:
            await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            raise LeftError
        finally:
            for pending in (waiting, task):
                if not pending.done():
                    pending.cancel()
                    with contextlib.suppress(asyncio.CancelledError, Exception):
                        await pending


class Abort(NamedTuple):
    """Why to end, and whether that alone makes the run inconclusive."""

    reason: str
    is_problem: bool
    failure: ExitCode = ExitCode.INCONCLUSIVE


def reason_to_abort(snapshot: SoakStatus, settings: FaultSettings) -> Abort | None:
    """Return why the soak should end now, if it should.

    Violations speak for themselves. A store that does not answer after a fault is no violation: what it remembers is
    not known, and a contract says nothing about when it must answer. Such a run is inconclusive. A store whose every
    call ends in the same programming error has to be mended first, like one that cannot be opened.
    """
    if snapshot.verifier is None:
        return None
    for line in snapshot.verifier.broken_stores:
        return Abort(line, is_problem=True, failure=ExitCode.USAGE)
    violations = snapshot.totals.violations
    most = settings.abort_after_violations
    if most is not None and violations >= most:
        return Abort(f"{violations} violations were found (faults.abort_after_violations = {most})", is_problem=False)
    longest = settings.recovery_max
    for one in snapshot.verifier.recovering:
        since = one.healed_seconds
        if longest is not None and one.planned and one.is_failing and since is not None and since > longest:
            what = " and ".join(f"{operation}s" for operation in one.awaits)
            reason = f"{one.store} answers no {what} {since:.0f}s after {one.kind} of {one.server} was healed"
            return Abort(f"{reason} (faults.recovery_max = {longest:g}s)", is_problem=True)
    return None


LOAD_STOP_MARGIN_SECONDS = 25.0
"""Beyond the participants' own time: for the last outcomes and the farewell to reach the ledger."""
VERIFIER_MARGIN_SECONDS = 30.0
END_OF_LOAD_SECONDS_MAX = 30.0


async def end_load(load: Child, settings: SoakSettings) -> None:
    """Let the participants finish; operations in flight after that count as unknown."""
    await load.stop(settings.load.drain + LOAD_STOP_MARGIN_SECONDS)


async def write_end_of_load(journal: RunJournal, faults: UnplannedFaults, reason: str) -> str | None:
    """Close the ledger behind every fault window; returns what went wrong, if something did."""
    end = EndOfLoad(at=now_us(), reason=reason)
    try:
        async with asyncio.timeout(END_OF_LOAD_SECONDS_MAX):
            await faults.flush()
            await until_written(lambda: journal.end_of_load(end))
    except TimeoutError:
        return "the end of the load could not be written: the ledger does not answer"
    return None


async def await_verdict(verifier: Child, settings: SoakSettings, say: Callable[[str], None]) -> str | None:
    """Wait for the verdict; a verifier that dies meanwhile is restarted and continues."""
    say("load ended; verifying everything again")
    try:
        async with asyncio.timeout(settings.verifier.drain + VERIFIER_MARGIN_SECONDS):
            await verifier.ended.wait()
    except TimeoutError:
        return "the final sweep did not end in time; raise verifier.drain"
    return None
