"""Carrying out faults: those of the schedule and those asked for by hand, one of a kind of server at a time.

Each runs in a task of its own, and nothing cancels that task: to end a fault early its waiting is cut short, and it is
healed as always. So whatever happens to the daemon short of a kill, no server stays broken.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import time
from collections import deque
from collections.abc import Callable

from soak import log
from soak.api.status import InjectedFault, NextFault
from soak.checker.faults import in_brackets
from soak.clock import now_us
from soak.errors import ServerUnreachableError, SoakError, UsageError
from soak.faults.catalogue import ALL
from soak.faults.fault import Fault, FaultUnavailableError
from soak.faults.schedule import Busy, Limits, Planned, Schedule, is_allowed
from soak.faults.window import HealFailedError, Injected, during, record_of
from soak.ledger.run import RunJournal
from soak.quiet_hours import is_quiet
from soak.servers.kinds import group_name
from soak.servers.servers import Servers
from soak.tasks import end_tasks

LOAD_END_SECONDS_MAX = 15.0
"""A load notices that a worker of it is gone, and ends, some seconds later."""
RECENT_MAX = 50
LATE_SECONDS_MAX = 60.0
"""A fault that is later than this, because earlier faults took long to heal, is skipped and counted."""
ANNOUNCED_SECONDS = 10.0
"""How long before it happens a scheduled fault is announced."""
FINISH_SECONDS_MAX = 120.0
"""How long healing may take at the end; a server that takes longer is stopped as it is."""
_TURN_SECONDS = 0.05

_log = log.get_logger("soak.conductor")


class Conductor:
    """Breaks servers as planned or as asked, and heals them."""

    def __init__(
        self,
        bed: Servers,
        journal: RunJournal,
        limits: Limits,
        *,
        recovery_max_seconds: float | None,
        say: Callable[[str], None],
        on_problem: Callable[[str], None],
        abort: Callable[[str], None],
    ) -> None:
        """`on_problem` makes the run inconclusive, `abort` ends it."""
        self.recent: deque[InjectedFault] = deque(maxlen=RECENT_MAX)
        self._bed = bed
        self._journal = journal
        self._limits = limits
        self._recovery_max = recovery_max_seconds
        self._say = say
        self._on_problem = on_problem
        self._abort = abort
        self._active: list[InjectedFault] = []
        self._load_ended = ("", 0.0)
        """The last fault that ended a process of the load, and until when that may still be noticed."""
        self._busy: list[Busy] = []
        """Begin and end of the latest fault on each server, by CLOCK_MONOTONIC; while it lasts the end is infinity."""
        self._tasks: set[asyncio.Task[Injected]] = set()
        self._finishing = asyncio.Event()
        self._next: Planned | None = None
        self._began = 0.0
        self._schedule: Schedule | None = None
        self._begun = 0
        self._late = 0
        """Of the schedule: those that began, and those whose turn came too late or not at all."""

    @property
    def active(self) -> list[str]:
        return sorted(f"{story.name} of {story.target}" for story in self._active)

    def claim_load_end(self) -> str:
        """Return the fault that has ended a process of the load, once for each fault; empty: none has."""
        (name, until), self._load_ended = self._load_ended, ("", 0.0)
        return name if time.monotonic() < until else ""

    @property
    def upcoming(self) -> NextFault | None:
        if self._next is None or self._finishing.is_set():
            return None
        planned = self._next
        return NextFault(
            name=planned.fault,
            target=planned.target,
            hold_seconds=planned.hold_seconds,
            parameters=ALL[planned.fault].having(planned.parameters).values,
            in_seconds=self._began + planned.offset_seconds - time.monotonic(),
        )

    @property
    def skipped(self) -> int:
        """Scheduled faults that did not fit: earlier ones and the time between them left no room."""
        return self._late + (self._schedule.passed_over if self._schedule is not None else 0)

    @property
    def scheduled(self) -> int:
        """Faults of the schedule that began or did not fit."""
        return self._begun + self.skipped

    # The schedule -------------------------------------------------------------------------------------------

    async def follow(self, schedule: Schedule, since_seconds: float) -> None:
        """Carry out the plan until its end or until asked to finish; the run began so many seconds ago."""
        self._began = time.monotonic() - since_seconds
        self._schedule = schedule
        for planned in schedule.actions():
            self._next = planned
            due = self._began + planned.offset_seconds
            await self._until_time(due - ANNOUNCED_SECONDS)
            if (seconds := due - time.monotonic()) > 0 and not self._finishing.is_set():
                self._say(f"next fault: {planned.fault} of {planned.target} in {seconds:.0f}s")
            await self._until_time(due)
            await self._until(lambda target=planned.target: self._may_begin(target))  # type: ignore[misc]
            if self._finishing.is_set():
                break
            fault = ALL[planned.fault].having(planned.parameters)
            if not self._is_timely(planned) or not await self._breaks_something(fault, planned.target):
                continue
            # One by hand may have begun meanwhile.
            await self._until(lambda target=planned.target: self._may_begin(target))  # type: ignore[misc]
            if self._finishing.is_set():
                break
            self._begin(fault, planned.target, planned.hold_seconds, "schedule")
            self._begun += 1
        self._next = None

    async def _until_time(self, seconds: float) -> None:
        await self._until(lambda: time.monotonic() >= seconds)

    async def _until(self, holds: Callable[[], bool]) -> None:
        while not holds() and not self._finishing.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._finishing.wait(), _TURN_SECONDS)

    def _may_begin(self, target: str) -> bool:
        return is_allowed(time.monotonic(), self._busy, target, self._limits)

    def _is_timely(self, planned: Planned) -> bool:
        late = time.monotonic() - self._began - planned.offset_seconds
        if late > LATE_SECONDS_MAX:
            self._late += 1
            self._say(f"fault skipped: {planned.fault} of {planned.target}; earlier ones took too long to heal")
            return False
        # It may have waited for its turn until the quiet hours had begun.
        return not is_quiet(self._limits.quiet_hours, dt.datetime.now(), planned.hold_seconds)  # noqa: DTZ005  the local clock

    async def _breaks_something(self, fault: Fault, target: str) -> bool:
        if fault.unavailable(self._bed, target) is not None:
            return True  # it fails, and that is told
        try:
            reason = await fault.breaks_nothing(self._bed, target)
        except ServerUnreachableError:
            return True
        if reason is not None:
            self._late += 1
            self._say(f"fault skipped: {fault.name} of {target}; {reason}")
        return reason is None

    # By hand ------------------------------------------------------------------------------------------------

    async def by_hand(self, fault: Fault, target: str, hold_seconds: float) -> Injected:
        """Carry out one fault at once and return when it is healed; raises `UsageError` if it cannot begin now."""
        if self._finishing.is_set():
            raise UsageError("the soak is draining; no more faults are injected")
        if reason := fault.unavailable(self._bed, target) or await fault.breaks_nothing(self._bed, target):
            raise FaultUnavailableError(f"{fault.name} cannot be injected: {reason}")
        if (under_way := next((one for one in self._active if _meets(one.target, target)), None)) is not None:
            raise UsageError(f"{under_way.name} of {under_way.target} is active; wait until it has ended")
        # The client may disconnect; the fault goes on to its end.
        return await asyncio.shield(self._begin(fault, target, hold_seconds, "hand"))

    # One fault ----------------------------------------------------------------------------------------------

    def _begin(self, fault: Fault, target: str, hold_seconds: float, by: str) -> asyncio.Task[Injected]:
        story = InjectedFault(
            name=fault.name,
            target=target,
            by=by,
            began_wall_seconds=time.time(),
            hold_seconds=hold_seconds,
            parameters=fault.values,
        )
        self._active.append(story)
        self.recent.append(story)
        began = Busy(time.monotonic(), float("inf"), target)
        self._busy = [*(one for one in self._busy if one.target != target), began]
        task = asyncio.create_task(self._carry_out(fault, story), name=f"{fault.name} of {target}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(_taken_note_of)
        return task

    async def _carry_out(self, fault: Fault, story: InjectedFault) -> Injected:
        how = in_brackets(story.parameters)
        self._say(f"fault: {story.name} of {story.target}{how} for {story.hold_seconds:g}s, by {story.by}")
        watching = asyncio.create_task(self._watch(fault, story))
        began = time.monotonic()
        if fault.ends_load:
            self._load_ended = (f"{story.name} of {story.target}", began + story.hold_seconds + LOAD_END_SECONDS_MAX)
        try:
            injected = await during(fault, self._bed, story.target, self._journal, story.hold_seconds, self._finishing)
        except Exception as error:
            await self._fail(fault, story, error)
            raise
        else:
            story.fault = injected.fault
            story.state = "healed"
            return injected
        finally:
            await end_tasks([watching])
            story.lasted_seconds = time.monotonic() - began
            self._active.remove(story)
            over = Busy(began, time.monotonic(), story.target)
            self._busy = [*(one for one in self._busy if one.target != story.target), over]
            self._say(f"fault: {story.name} of {story.target} {story.state} after {story.lasted_seconds:.1f}s")

    async def _watch(self, fault: Fault, story: InjectedFault) -> None:
        """End the run if the server is not back in time. That is no violation: nobody knows what it holds."""
        if self._recovery_max is None:
            return
        extra = self._bed.nodes[story.target].replacement_seconds
        await asyncio.sleep(story.hold_seconds + extra + self._recovery_max)
        problem = f"{story.target} did not recover from {story.name} within {extra + self._recovery_max:g}s "
        problem += f"(faults.recovery_max, and {extra:g}s for a failover)" if extra else "(faults.recovery_max)"
        self._on_problem(problem)
        await self._remember(fault, story, problem)
        self._abort(problem)

    async def _fail(self, fault: Fault, story: InjectedFault, error: Exception) -> None:
        story.state = "failed"
        reason = str(error) or type(error).__name__
        what = (
            reason
            if isinstance(error, HealFailedError)
            else f"{fault.name} of {story.target} could not be injected: {reason}"
        )
        story.reason = what
        _log.error("fault_failed", fault=fault.name, target=story.target, exc_info=error)
        self._say(what)
        await self._remember(fault, story, what)
        if isinstance(error, HealFailedError):
            self._abort(what)

    async def _remember(self, fault: Fault, story: InjectedFault, what: str) -> None:
        """Write the failure to the ledger, so that it still counts when the run is resumed."""
        record = record_of(fault, story.target, "failed", now_us(), telemetry={"reason": what}, prefix="failed-")
        try:
            await self._journal.fault(record)
        except SoakError:
            self._on_problem(what)

    # The end ------------------------------------------------------------------------------------------------

    async def finish(self) -> None:
        """Begin nothing more, cut short what is under way, and return when it is healed."""
        if self._schedule is not None and not self._finishing.is_set():
            self._late += self._schedule.overdue(time.monotonic() - self._began)
        self._finishing.set()
        if self._tasks:
            self._say(f"healing: {', '.join(self.active)}")
            _, left = await asyncio.wait(self._tasks, timeout=FINISH_SECONDS_MAX)
            for task in left:
                self._on_problem(f"{task.get_name()} was not healed within {FINISH_SECONDS_MAX:g}s")


def _meets(one: str, other: str) -> bool:
    return group_name(one) == group_name(other)


def _taken_note_of(task: asyncio.Task[Injected]) -> None:
    # What went wrong is reported where it happened; asyncio must not report it again.
    if not task.cancelled():
        task.exception()
