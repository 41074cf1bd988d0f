"""All that the verifier knows, apart from what is on disk."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from soak.checker.faults import CATCH_UP_US, FaultHistory, FaultWindow
from soak.checker.incidents import Counted
from soak.checker.telemetry import ServerSample
from soak.clock import now_us, timeline
from soak.ledger.reader import START
from soak.ledger.records import EndOfLoad, Observation, RunHeader
from soak.verifier.clocks import Clocks
from soak.verifier.recording import Recorder
from soak.verifier.recovery import CatchingUp, Recoveries, RecoveryTimes
from soak.verifier.tally import StoreTally, Tally
from soak.verifier.tracked_session import Rings, TrackedSession

if TYPE_CHECKING:
    from soak.verifier.sharing import Sharing

OBSERVATIONS_PER_SESSION_MAX = 32
SESSIONS_OBSERVED_MAX = 10_000
WORKERS_REMEMBERED_MAX = 1_000
TROUBLES_REMEMBERED_MAX = 256
SERVER_EVENTS_KEPT = 200
TIMER_SLOT_US = 50_000
VISITS_AT_ONCE_MAX = 1_000


class Worker:
    """One load process, as far as its batches tell."""

    __slots__ = ("farewell", "host", "is_uncertain", "last_heard", "last_number", "last_session", "sessions")

    def __init__(self, host: str) -> None:
        self.host = host
        self.last_number = 0
        self.last_session = 0
        self.last_heard = 0
        self.farewell = False
        self.is_uncertain = False
        """Whether it is not known well enough when its last batch was written."""
        self.sessions: dict[int, TrackedSession] = {}


class StoreQueues:
    """The sessions of one store, in the orders in which they wait to be read."""

    __slots__ = (
        *("timers", "timers_at", "hot", "kept", "live", "observations", "old", "reading", "suspicious", "sweep"),
        "troubles",
    )

    def __init__(self) -> None:
        self.hot: dict[TrackedSession, None] = {}
        """Sessions with acknowledgements to verify, the longest waiting first."""
        self.reading: dict[TrackedSession, None] = {}
        """Taken out of the line to be read."""
        self.suspicious: dict[TrackedSession, None] = {}
        """Sessions that lack something and wait for a second look."""
        self.timers: dict[int, list[TrackedSession]] = {}
        """When each session is read whole next (in its rounds, for a second look, at an age), by slots of time."""
        self.timers_at = 0
        """The slot that is opened next."""
        self.begin_timers()
        self.sweep: deque[TrackedSession] = deque()
        """Sessions still to be read since a fault ended."""
        self.observations: dict[TrackedSession, list[Observation]] = {}
        """Odd reads that participants reported, to be judged by a whole read of the session."""
        self.live = 0
        self.old: dict[TrackedSession, None] = {}
        """Closed sessions past their first recall age; if there are too many, some are dropped."""
        self.kept: dict[TrackedSession, None] = {}
        """Those of them that were drawn to be kept to the last age."""
        self.troubles: deque[int] = deque(maxlen=TROUBLES_REMEMBERED_MAX)
        """Times of recent failed operations of this store, in microseconds."""

    def begin_timers(self) -> None:
        """Let the timers begin now."""
        self.timers_at = now_us() // TIMER_SLOT_US

    def oldest_unverified(self) -> int | None:
        """Return when the oldest acknowledgement that is not verified yet came in."""
        # The line is roughly in the order in which they began to wait, so looking at its head is enough.
        first = next((tracked for tracked in self.hot if not tracked.canary), None)
        heads = (*self.reading, *self.suspicious, *([] if first is None else [first]))
        ages = (tracked.book.oldest_pending for tracked in heads if not tracked.canary)
        waiting = [oldest for oldest in ages if oldest is not None]
        return min(waiting, default=None)

    def count_suspicious(self) -> int:
        return sum(1 for tracked in self.suspicious if not tracked.canary)

    def observe(self, tracked: TrackedSession, observation: Observation) -> bool:
        """Note what a participant saw; returns False if too many observations wait already."""
        noted = self.observations.get(tracked)
        if noted is None:
            if len(self.observations) >= SESSIONS_OBSERVED_MAX:
                return False
            self.observations[tracked] = [observation]
        elif len(noted) < OBSERVATIONS_PER_SESSION_MAX:
            noted.append(observation)
        else:
            return False
        return True

    def schedule_read(self, tracked: TrackedSession, due: int) -> None:
        """Put a visit into the timers, unless an earlier one is there."""
        slot = max(due // TIMER_SLOT_US + 1, self.timers_at)
        if tracked.visit_slot and tracked.visit_slot <= slot:
            return
        tracked.visit_slot = slot
        self.timers.setdefault(slot, []).append(tracked)

    def cancel_visit(self, tracked: TrackedSession) -> None:
        """Take a visit out of the timers: it may be days ahead, and would hold on to the session until then."""
        planned = self.timers.get(tracked.visit_slot)
        if planned is not None and tracked in planned:
            planned.remove(tracked)
            if not planned:
                del self.timers[tracked.visit_slot]
        tracked.visit_slot = 0

    def due_visits(self, now: int) -> list[TrackedSession]:
        """Take the visits whose time has come."""
        today = now // TIMER_SLOT_US
        due: list[TrackedSession] = []
        while self.timers_at <= today and len(due) < VISITS_AT_ONCE_MAX:
            for tracked in self.timers.pop(self.timers_at, ()):
                # A session whose visit was moved forward stands in its old slot too.
                if tracked.visit_slot == self.timers_at and not tracked.retired:
                    tracked.visit_slot = 0
                    due.append(tracked)
            self.timers_at += 1
        return due


class State:
    """The expected state of the run."""

    def __init__(
        self,
        header: RunHeader,
        targets: dict[str, tuple[str, ...]],
        coverage_us: int,
        catch_up_us: int = CATCH_UP_US,
    ) -> None:
        self.header = header
        self.targets = targets
        """The servers that each store depends on."""
        self.coverage_us = coverage_us
        self.tally = Tally(stores={name: StoreTally() for name in header.stores})
        self.lanes = {name: StoreQueues() for name in header.stores}
        self.position = START
        """The last ledger record taken in."""
        self.ledger_life = ""
        """Which life of which server the ledger was in, when it was last known that nothing of it was lost unread."""
        self.ledger_read_us = 0
        """When everything that was in the ledger was last taken in."""
        self.failures: dict[str, None] = {}
        """Failed faults that are on record: such a record may come twice."""
        self.workers: dict[str, Worker] = {}
        self.faults = FaultHistory(targets, catch_up_us=catch_up_us)
        self.catching_up = CatchingUp(self.faults)
        self.samples: dict[str, deque[ServerSample]] = {}
        """What each server said of itself lately."""
        self.answering: set[str] = set()
        """The servers that answered when they were last asked."""
        self.recoveries = Recoveries(self)
        self.recovery_times = RecoveryTimes(self)
        self.canary = Rings()
        """What was reported about the verifier's own spoiled sessions; they are in the lanes, and nowhere else."""
        self.recorder: Recorder | None = None
        """Keeps the whole history of a few sessions."""
        self.clocks = Clocks(timeline())
        """How the clocks of the run's hosts differ."""
        self.sharing: Sharing | None = None
        """What is known of the other verifiers of the run; None: there is one."""
        self.end: EndOfLoad | None = None
        self.listening_since = 0
        """Since when the ledger has been followed without a break."""
        self.journalled: dict[tuple[str, str], Counted] = {}
        """Violations on disk in sessions that the checkpoint did not know yet, by store and session."""

    def mark_swept(self, window: FaultWindow, store: str) -> None:
        """Note that every session of a store was read since a fault; where others verify, too, they must say so."""
        if self.sharing is None:
            window.swept.append(store)
        else:
            self.sharing.mark_read_through(window, store)

    def is_read_through(self, window: FaultWindow, store: str) -> bool:
        """Whether it was, as far as this verifier is concerned."""
        return self.sharing is not None and self.sharing.is_read_through(window, store)

    @property
    def adds_up(self) -> bool:
        """Whether this is the first of several verifiers, which counts for all."""
        return self.sharing is not None and self.sharing.shard.is_first

    def tracked(self) -> list[TrackedSession]:
        return [tracked for worker in self.workers.values() for tracked in worker.sessions.values()]

    def oldest_unverified(self) -> dict[str, int]:
        """Return by store when the oldest acknowledgement that is not verified yet came in."""
        oldest: dict[str, int] = {}
        for tracked in self.tracked():
            pending = tracked.book.pending
            if pending and not tracked.canary:
                since, store = pending[0].ended, tracked.book.store
                oldest[store] = min(since, oldest.get(store, since))
        return oldest

    def count_unread(self) -> int:
        """Count the acknowledged messages that were taken in and not read yet."""
        return sum(len(tracked.book.pending) for tracked in self.tracked())

    def watch(self, tracked: TrackedSession, now: int) -> None:
        """Take a session into care."""
        lane = self.lanes[tracked.book.store]
        lane.live += not tracked.canary
        lane.schedule_read(tracked, now + self.coverage_us)

    def let_go(self, tracked: TrackedSession) -> None:
        """Let a session go for good."""
        if tracked.retired:
            return
        tracked.retired = True
        lane = self.lanes[tracked.book.store]
        lane.live -= not tracked.canary
        lane.hot.pop(tracked, None)
        lane.reading.pop(tracked, None)
        lane.old.pop(tracked, None)
        lane.kept.pop(tracked, None)
        lane.cancel_visit(tracked)
        lane.suspicious.pop(tracked, None)
        lane.observations.pop(tracked, None)
        worker = self.workers.get(tracked.worker)
        if worker is not None:
            worker.sessions.pop(tracked.number, None)
        if len(self.workers) > WORKERS_REMEMBERED_MAX:
            # A worker that said goodbye is remembered for a while: its last batch may come twice.
            gone = [name for name, one in self.workers.items() if one.farewell and not one.sessions]
            for name in gone[: len(gone) // 2]:
                del self.workers[name]
