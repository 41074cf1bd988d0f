"""Decides which session is read when.

New acknowledgements soon, every live session within a bound, closed ones at growing ages, everything after a fault; and
all of it within a budget, so that verifying never becomes the load.

A closed session is let go after its last recall age, or once it has been seen gone after its time to live. When there
are too many of them, most are let go after their first age; a share, drawn by name, is kept to the end.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import deque
from collections.abc import Coroutine
from typing import Any

from xxhash import xxh3_64_intdigest

from soak.checker.faults import FaultWindow
from soak.checker.partial import NEAREST
from soak.checker.retention import expiry_of, must_have_expired
from soak.checker.session import FAILURES_MIN
from soak.clock import now_us
from soak.duration import format_seconds
from soak.settings import VerifierSettings
from soak.stores.protocol import MemoryStore
from soak.tasks import raise_if_cancelled
from soak.verifier.examiner import Examiner, OddEnd
from soak.verifier.state import State, StoreQueues
from soak.verifier.tracked_session import TrackedSession

TICK_SECONDS_MAX = 0.25
TICK_SECONDS_MIN = 0.05
TICK_SHARE = 0.1
"""Of the shortest interval. Reads are planned in bursts: sent together they share their way to the server and back."""
READ_COST_MESSAGES = 100
"""What a read costs besides its messages, in messages."""

DRAIN_TICK_SECONDS = 0.02
BUDGET_BURST_SECONDS = 0.5
DRAIN_BUDGET_FACTOR = 5
PAUSE_SECONDS_FIRST = 0.2
PAUSE_SECONDS_MAX = 2.0
REVISIT_US = 1_000_000
REVISIT_US_MIN = 50_000
UNREADABLE_US = 5_000_000
"""How often a session is tried again whose reads raise while others are answered."""
STORE_FAILURES_MIN = 3
"""So many sessions in a row without an answer, and the whole store is given a pause."""
INQUIRIES_PER_TICK_MAX = 16
WORKER_SILENCE_US = 120_000_000
"""A worker not heard of for so long is taken as dead: its sessions are closed."""

EXPIRY_LEAD_US = 500_000
"""A session that is about to expire is read this long before, and the settle time: a second look must still count."""

DRAWS = 2**64
HALVINGS_MAX = 64

FAULT_WAIT_US_MAX = 10_000_000
"""How much longer than the settle time the last sweep waits for the one after a fault: a replica may stay behind."""

QUEUE_MAX = 1_000
ENDS_TOGETHER_MAX = 64
ERASE_MAX = 10_000


class Budget:
    """A bucket that fills with so many messages a second and holds a fraction of a second's worth."""

    def __init__(self, per_second: float) -> None:
        self.per_second = per_second
        self._left = per_second * BUDGET_BURST_SECONDS
        self._filled = time.monotonic()

    def spend(self, messages: int) -> bool:
        now = time.monotonic()
        self._left = min(self._left + (now - self._filled) * self.per_second, self.per_second * BUDGET_BURST_SECONDS)
        self._filled = now
        if self._left <= 0:
            return False
        # One large read may overdraw it; what follows waits until that is paid off.
        self._left -= messages + READ_COST_MESSAGES
        return True


class Sweeper:
    """Sends the examiner of one store from session to session."""

    def __init__(
        self, examiner: Examiner, state: State, settings: VerifierSettings, *, stores: int, written: MemoryStore
    ) -> None:
        self.examiner = examiner
        self.written = written
        """The same store where something is to be removed: the examiner's account may only be allowed to read."""
        self._canary_examiner = examiner.for_canaries()
        self._state = state
        self._lane: StoreQueues = state.lanes[examiner.name]
        self._settings = settings
        soonest = min(settings.hot_interval, settings.settle)
        self._tick_seconds = min(TICK_SECONDS_MAX, max(TICK_SECONDS_MIN, soonest * TICK_SHARE))
        self._budget = Budget(settings.messages_per_second / stores)
        self._hot_us = int(settings.hot_interval * 1e6)
        self._coverage_us = int(settings.coverage * 1e6)
        self._settle_us = int(settings.settle * 1e6)
        self._ages_us = sorted(int(age * 1e6) for age in settings.recall_ages)
        self._age_names = [format_seconds(age / 1e6) for age in self._ages_us]
        self._kept_share = settings.kept_share
        self._tally = state.tally.stores[examiner.name]
        self._tally.recalls = {**dict.fromkeys(self._age_names, 0), **self._tally.recalls}
        self._queue: asyncio.Queue[tuple[TrackedSession, bool | OddEnd]] = asyncio.Queue(maxsize=QUEUE_MAX)
        """What is to be read: all of it, what it wants, or all of it because its end was odd."""
        self._ends: deque[TrackedSession] = deque()
        """Sessions whose ends are to be read, several together."""
        self._are_ends_due = asyncio.Event()
        self._ends_together_max = min(ENDS_TOGETHER_MAX, settings.concurrency // 2) if examiner.reads_ends else 0
        """Of the sessions that are read at the same time."""
        self._paused_until = 0.0
        self._pause = PAUSE_SECONDS_FIRST
        self._failing: set[int] = set()
        """Sessions that gave no answer since one did."""
        self.last_read_wall_seconds = 0.0
        self.sessions_left = 0
        """Of the last sweep: sessions that are still to be read once more."""
        self.to_erase: deque[str] = deque()
        """Retired sessions to be removed from the store, once a checkpoint has let go of them."""

    def parts(self) -> list[Coroutine[Any, Any, None]]:
        """Return what has to run at the same time: one that plans, many that read."""
        readers = self._settings.concurrency - self._ends_together_max
        ends = [self._read_ends_forever()] if self._ends_together_max else []
        return [self._plan_forever(), *ends, *(self._read_forever() for _ in range(readers))]

    # -- planning --

    async def _plan_forever(self) -> None:
        while True:
            self._plan(now_us())
            await asyncio.sleep(self._tick_seconds)

    def _plan(self, now: int) -> None:
        if time.monotonic() < self._paused_until:
            return
        self._plan_visits(now)
        self._plan_after_faults()
        self._plan_hot(now)
        self._plan_inquiries()

    def _put(self, tracked: TrackedSession, *, whole: bool) -> bool:
        if tracked.busy or tracked.queued or tracked.retired or tracked.tainted:
            return True
        size = len(tracked.book.pending)
        if whole:
            size = tracked.book.length + self.examiner.searches_per_read * (NEAREST + READ_COST_MESSAGES)
        if self._queue.full() or not self._budget.spend(size):
            return False
        tracked.queued = True
        self._queue.put_nowait((tracked, whole))
        return True

    def _put_end(self, tracked: TrackedSession) -> bool:
        """Let the end of a session be read together with those of others, where that is what it needs."""
        if not self._ends_together_max or tracked.canary or not self.examiner.wants_end(tracked):
            return self._put(tracked, whole=False)
        if tracked.busy or tracked.queued or tracked.retired or tracked.tainted:
            return True
        if len(self._ends) >= QUEUE_MAX or not self._budget.spend(len(tracked.book.pending)):
            return False
        tracked.queued = True
        self._ends.append(tracked)
        self._are_ends_due.set()
        return True

    def _plan_visits(self, now: int) -> None:
        for tracked in self._lane.due_visits(now):
            if not tracked.is_closed and self._is_orphan(tracked, now):
                tracked.closed_at = now
            if tracked.tainted:
                self._wait_for_tainted(tracked, now)
                continue
            if tracked.busy or not self._put(tracked, whole=True):
                self._lane.schedule_read(tracked, now + 1)

    def _wait_for_tainted(self, tracked: TrackedSession, now: int) -> None:
        """Let a session that nothing can be said about go once its load has done with it; until then leave it alone."""
        if tracked.is_closed:
            self._state.let_go(tracked)
        else:
            self._lane.schedule_read(tracked, now + self._coverage_us)

    def _plan_inquiries(self) -> None:
        for tracked in list(itertools.islice(self._lane.observations, INQUIRIES_PER_TICK_MAX)):
            if not self._put(tracked, whole=True):
                return

    def _plan_hot(self, now: int) -> None:
        hot = self._lane.hot
        due = now - self._hot_us
        while hot:
            tracked = next(iter(hot))
            oldest = tracked.book.oldest_pending
            if (oldest is not None and oldest > due) or tracked.not_before > now:
                return
            if not self._put_end(tracked):
                return
            # The examiner puts it back if anything is still to be verified by then.
            del hot[tracked]
            self._lane.reading[tracked] = None

    def _is_orphan(self, tracked: TrackedSession, now: int) -> bool:
        worker = self._state.workers.get(tracked.worker)
        if worker is None:
            return False
        # While nobody listened, nobody can have been heard.
        return now - max(worker.last_heard, self._state.listening_since) > WORKER_SILENCE_US

    def _plan_after_faults(self) -> None:
        """Read everything once after a fault; only then is it clear what it took."""
        name, state = self.examiner.name, self._state
        windows = [
            one for one in self._unswept() if not state.is_read_through(one, name) and not self._is_in_shadow(one)
        ]
        if not windows:
            return
        if not self._lane.sweep:
            unread = {tracked for window in windows for tracked in self._untouched_since(window)}
            if not unread:
                self._mark_swept(windows)
                return
            self._lane.sweep.extend(unread)
        latest = max(self._settled_after(window) for window in windows)
        if now_us() <= latest:
            return
        sweep = self._lane.sweep
        while sweep and (sweep[0].last_whole > latest or self._put(sweep[0], whole=True)):
            sweep.popleft()

    def _unswept(self) -> list[FaultWindow]:
        """Return the faults that are over, and after which this store has not been read through."""
        return [
            window
            for window in self._state.faults.values()
            if window.target in self.examiner.targets
            and self.examiner.name not in window.swept
            and window.ended is not None
        ]

    def _untouched_since(self, window: FaultWindow) -> list[TrackedSession]:
        """Return the sessions that were there when a fault ended and have not been read whole since.

        A read that may be behind has to come so much later. One session that cannot be read holds up nobody.
        """
        return [
            tracked
            for tracked in self._unread_since(self._settled_after(window))
            if tracked.number <= window.known.get(tracked.worker, 0)
            and not self.examiner.checker(tracked).is_unreadable
        ]

    def _settled_after(self, window: FaultWindow) -> int:
        """Return after when a read shows what a fault has left."""
        staleness = self.examiner.rules.contract.staleness_us
        after = (window.ended or 0) + (self._settle_us if staleness is None else staleness)
        return after if window.caught_up is None else max(after, window.caught_up)

    def _unread_since(self, ended: int) -> list[TrackedSession]:
        return [
            tracked
            for tracked in self._state.tracked()
            if tracked.book.store == self.examiner.name and tracked.last_whole <= ended and not tracked.tainted
        ]

    def _is_in_shadow(self, window: FaultWindow) -> bool:
        """Whether reads of a replica may still be behind because of this fault: then they show nothing of it."""
        return self.examiner.judging.reads_replica and window in self._state.faults.not_caught_up(
            self.examiner.targets, now_us()
        )

    def _mark_swept(self, windows: list[FaultWindow]) -> None:
        for window in windows:
            self._state.mark_swept(window, self.examiner.name)

    # -- reading --

    async def _read_forever(self) -> None:
        while True:
            tracked, wanted = await self._queue.get()
            tracked.queued = False
            examiner = self._canary_examiner if tracked.canary else self.examiner
            if isinstance(wanted, OddEnd):
                answered = await examiner.explain_end(wanted)
            else:
                answered = await examiner.examine(tracked, whole=wanted)
            raise_if_cancelled()
            self._after(tracked, answered=answered)

    async def _read_ends_forever(self) -> None:
        while True:
            await self._are_ends_due.wait()
            together = [self._ends.popleft() for _ in range(min(len(self._ends), self._ends_together_max))]
            if not self._ends:
                self._are_ends_due.clear()
            for tracked in together:
                tracked.queued = False
            examined = await self.examiner.examine_ends(together)
            raise_if_cancelled()
            for tracked in examined.answered:
                self._after(tracked, answered=True)
            for tracked in examined.unanswered:
                self._after(tracked, answered=False)
            # These may have to wait, for a slow store or for the ledger: they hold up no other end.
            for odd in examined.odd:
                await self._queue.put((odd.tracked, odd))
            for tracked in examined.others:
                tracked.queued = True
                await self._queue.put((tracked, False))

    def _after(self, tracked: TrackedSession, *, answered: bool) -> None:
        if not answered:
            self._after_failure(tracked)
            return
        self._pause = PAUSE_SECONDS_FIRST
        self._failing.clear()
        if not tracked.canary:
            self.last_read_wall_seconds = time.time()
        if tracked.retired:
            return
        if tracked.is_closed:
            self._after_close(tracked)
        else:
            due = [tracked.last_whole + self._coverage_us, *self._expiry_visit(tracked)]
            # One that is spoken in all the time moves its end along: it need not be read whole for each move.
            self._lane.schedule_read(tracked, max(min(due), tracked.last_whole + self._hot_us))

    def _after_failure(self, tracked: TrackedSession) -> None:
        """Read this session again later; and all others, too, if it is not this one that is wrong."""
        is_unreadable = self.examiner.checker(tracked).is_unreadable
        pause_us = UNREADABLE_US if is_unreadable else int(self._settings.settle * 1e6 / FAILURES_MIN)
        self._lane.schedule_read(tracked, now_us() + max(REVISIT_US_MIN, pause_us))
        if not is_unreadable and (other := self.examiner.answered_beside(tracked)) is not None:
            # Whether others are answered while this one is not tells which of them is wrong.
            self._put(other, whole=True)
        if len(self._failing) < STORE_FAILURES_MIN:
            self._failing.add(tracked.number)
        if not is_unreadable and len(self._failing) >= min(STORE_FAILURES_MIN, self._lane.live):
            self._paused_until = time.monotonic() + self._pause
            self._pause = min(self._pause * 2, PAUSE_SECONDS_MAX)

    # -- old sessions --

    def _after_close(self, tracked: TrackedSession) -> None:
        if tracked.is_in_doubt or tracked.book.pending or tracked.last_whole < tracked.closed_at:
            self._lane.schedule_read(tracked, now_us() + REVISIT_US)
            return
        self._count_recalls(tracked)
        due = self._expiry_visit(tracked)
        if tracked.recalls < len(self._ages_us):
            due.append(tracked.closed_at + self._ages_us[tracked.recalls])
        is_past_first = tracked.recalls > 0 or not self._ages_us
        if not due or self._has_expired(tracked) or (is_past_first and not self._keep(tracked)):
            self._retire(tracked)
        else:
            self._lane.schedule_read(tracked, min(due))

    def _count_recalls(self, tracked: TrackedSession) -> None:
        age_us = tracked.last_whole - tracked.closed_at
        while tracked.recalls < len(self._ages_us) and age_us >= self._ages_us[tracked.recalls]:
            self._tally.recalls[self._age_names[tracked.recalls]] += 1
            tracked.recalls += 1
        self._tally.oldest_recall_seconds = max(self._tally.oldest_recall_seconds, age_us / 1e6)

    def _expiry_visit(self, tracked: TrackedSession) -> list[int]:
        """Return when to read a session next for its time to live: late before its end, and right after it."""
        expiry = expiry_of(tracked.book, self.examiner.rules)
        if expiry is None:
            return []
        before = expiry[0] - self._settle_us - EXPIRY_LEAD_US
        if tracked.last_whole < before:
            return [before]
        if tracked.is_closed and tracked.last_whole <= expiry[1]:
            return [expiry[1]]
        return []

    def _has_expired(self, tracked: TrackedSession) -> bool:
        """Whether its time to live is over and it was seen gone since."""
        is_over = must_have_expired(tracked.book, tracked.last_whole, self.examiner.rules)
        return is_over and not tracked.book.length and not tracked.counted

    def _keep(self, tracked: TrackedSession) -> bool:
        """Keep an old session for its later ages if there is room; those drawn for it take the place of others."""
        lane, most = self._lane, self._settings.closed_sessions_max
        (lane.kept if self._is_drawn(tracked) else lane.old)[tracked] = None
        for _ in range(HALVINGS_MAX):
            if len(lane.old) + len(lane.kept) <= most:
                break
            # The newest go first: the others are closer to their next age.
            other = next((one for one in reversed(lane.old) if self._is_idle(one)), None)
            if other is None:
                self._keep_fewer()
            elif other is tracked:
                return False
            else:
                self._retire(other)
        return not tracked.retired

    def _is_drawn(self, tracked: TrackedSession) -> bool:
        return xxh3_64_intdigest(tracked.book.session.encode("utf-8", "surrogatepass")) < self._kept_share * DRAWS

    def _keep_fewer(self) -> None:
        """Halve the share that is kept to the end: over days even a small one becomes many."""
        self._kept_share /= 2
        for other in list(self._lane.kept):
            if not self._is_drawn(other):
                del self._lane.kept[other]
                self._lane.old[other] = None

    def _is_idle(self, tracked: TrackedSession) -> bool:
        return not (tracked.busy or tracked.is_in_doubt or tracked in self._lane.observations)

    def _retire(self, tracked: TrackedSession) -> None:
        self._state.let_go(tracked)
        self._tally.sessions_retired += 1
        # What is wrong stays where it is, for whoever wants to look at it. What does not fit in any more stays, too:
        # in place of one that a checkpoint has let go of, one would be erased that it has not.
        if tracked.counted is None and len(self.to_erase) < ERASE_MAX:
            self.to_erase.append(tracked.book.session)

    async def erase_retired(self, count: int) -> None:
        """Remove so many retired sessions, so that weeks of soaking do not fill the store."""
        for _ in range(min(count, len(self.to_erase))):
            session = self.to_erase.popleft()
            try:
                async with asyncio.timeout(self._settings.hot_interval * 5):
                    await self.written.forget(session)
            except Exception:  # noqa: BLE001  it is only tidying up; clean_up at the end takes the rest
                # A store that is down must not hold up the next checkpoint, once for each session.
                return

    # -- the end --

    async def sweep_all(self, deadline: float) -> int:
        """Read every session once more, then what is still suspected; returns how many gave no answer.

        After a fault it waits until that is settled: only then do reads show what the fault took.
        """
        self._budget.per_second *= DRAIN_BUDGET_FACTOR
        since = now_us()
        while time.monotonic() < deadline:
            left = self._left_to_read(since)
            self.sessions_left = len(left)
            is_done = not left and not self._lane.observations and not self._awaits_fault(since)
            if is_done and not any(map(self._is_open, self._state.tracked())):
                return 0
            for tracked in left:
                if not self._put(tracked, whole=True):
                    break
            await asyncio.sleep(DRAIN_TICK_SECONDS)
        return len(self._left_to_read(since))

    def _awaits_fault(self, since: int) -> bool:
        return bool(self._unswept()) and now_us() < since + self._settle_us + FAULT_WAIT_US_MAX

    def _left_to_read(self, since: int) -> list[TrackedSession]:
        return [
            one for one in self._unread_since(since) if not one.retired and not self.examiner.checker(one).is_unreadable
        ]

    def _is_open(self, tracked: TrackedSession) -> bool:
        """Whether a session of this store waits for a read; one that cannot be read would wait for ever."""
        if tracked.book.store != self.examiner.name or tracked.tainted:
            return False
        is_waiting = tracked.busy or tracked.queued or tracked.is_in_doubt or bool(tracked.book.pending)
        return is_waiting and not self.examiner.checker(tracked).is_unreadable
