"""Taking ledger records into the books.

A gap in a worker's batches means that an intent, an outcome or a forget may have been missed: nothing can be claimed
about that worker's open sessions any more. They are tainted, counted as unverifiable, and let go; sessions it opens
later are whole again. What was written is never inferred from the store: that would hide the loss we look for.

The same holds for the open sessions of a host whose clock is not known well enough to compare its times with those of
others; these are counted apart, as undecided.

A record that is damaged so that nobody can tell whose it was may have been anyone's: it may even have been the
beginning of a fault that excuses what it took. It taints every open session.
"""

from __future__ import annotations

import sys
import time
from functools import partial

import msgspec
import structlog

from soak.checker.expected_session import NO_ATTEMPTS, ExpectedSession
from soak.checker.faults import FaultWindow
from soak.checker.outcome import Attempt, ForgetEnded, Outcome
from soak.checker.read import Rules
from soak.checker.session import SessionChecker, StoreJudging
from soak.checker.text import MessageGenerator
from soak.clock import now_us
from soak.ledger.reader import Damaged, Entry, RunRecord, WorkerBatch
from soak.ledger.records import BROWSER_WORKER_PREFIX, LATENCY_SLOT_US, Batch, EndOfLoad, FaultPhase, Observation
from soak.verifier.clocks import Clocks, Placing, Stamp, stamp_of
from soak.verifier.drift import note_end
from soak.verifier.latencies import spans_of
from soak.verifier.latencies import take as take_latency
from soak.verifier.state import State, Worker
from soak.verifier.tracked_session import Taint, TrackedSession

_log = structlog.get_logger()

ALIVE_US = 3_000_000
"""A worker writes at least every second; one that was silent for longer had nothing more to say."""
FAILURES_REMEMBERED_MAX = 1_000

_OK, _FAILED = int(Outcome.OK), int(Outcome.FAILED)
_NOBODY = MessageGenerator("", 0)
"""Intake reads nothing, so it compares nothing with what was written."""


class Intake:
    """Feeds the state from the ledger."""

    def __init__(self, state: State, rules: dict[str, Rules], host: str, clocks: Clocks | None = None) -> None:
        """Take what stores are judged by, and the timeline of this host."""
        self._state = state
        self._judging = {
            store: StoreJudging(
                rules=rule, author=_NOBODY, faults=state.faults, targets=state.targets[store], settle_us=0
            )
            for store, rule in rules.items()
        }
        self._expiring = {store for store, rule in rules.items() if rule.contract.ttl_seconds is not None}
        self._clocks = clocks or Clocks(host)
        self._clocks.on_jump = self._doubt_host
        self._begun_on: dict[str, str] = {}
        """By fault that is not over: the boot of the host that said when it began."""

    def take(self, entry: Entry, now: int) -> None:
        self._state.tally.records_taken += 1
        if isinstance(entry, WorkerBatch):
            self._take_batch(entry, now)
        elif isinstance(entry, RunRecord):
            self._take_run_record(entry)
        else:
            self._take_damaged(entry, now)
        self._state.position = entry.at

    def vanished(self, added: int | None, *, is_set_back: bool) -> int:
        """Account for records that were written and are gone unread; returns how many those are.

        `added` is how many the ledger says were ever written, of which all that are still there have been taken in.
        """
        tally = self._state.tally
        missing = 0 if added is None else added - tally.records_taken - tally.records_skipped
        if is_set_back and added is not None:
            # Its server came back without its last records: what it says from here on counts anew.
            missing = max(1, missing)
            tally.records_taken, tally.records_skipped = added, 0
        if missing <= 0:
            return 0
        if not is_set_back:
            tally.records_skipped += missing
        tally.batches_missing += missing
        self._taint_all()
        return missing

    def outlive_ledger(self, since: int, added: int | None, taken: int) -> int:
        """Account for what another life of the ledger is without; returns how many workers may have written it.

        Who is still heard of a while later shows by the numbers of the batches what is missing. Who is not may have
        written something that nobody has read; what was read of it meanwhile may be older. `added` records were ever
        written as this life counts, and `taken` after these.
        """
        state = self._state
        if added is not None:
            state.tally.records_taken, state.tally.records_skipped = added + taken, 0
        silent = [
            worker
            for worker in state.workers.values()
            if not worker.farewell
            and worker.sessions
            and state.ledger_read_us - ALIVE_US < worker.last_heard < since + ALIVE_US
        ]
        for worker in silent:
            state.tally.batches_missing += 1
            for tracked in worker.sessions.values():
                self._taint(tracked)
        return len(silent)

    # -- batches --

    def _take_batch(self, entry: WorkerBatch, now: int) -> None:
        state = self._state
        worker = state.workers.get(entry.worker)
        if worker is None:
            worker = state.workers[entry.worker] = Worker(entry.boot)
        if entry.number <= worker.last_number:
            state.tally.batches_repeated += 1
            return
        missing = entry.number - worker.last_number - 1
        if missing:
            self._open_gap(worker, missing)
        worker.last_number = entry.number
        worker.last_heard = now
        state.tally.batches += 1
        batch = entry.batch
        if self._clocks.is_foreign(entry.boot):
            batch = self._placed(worker, entry)
        if entry.worker.startswith(BROWSER_WORKER_PREFIX):
            state.tally.browser_acknowledged += sum(attempt.outcome == _OK for attempt in batch.attempts)
        self._take_records(entry.worker, worker, batch, now)

    def widen(self, epsilon_us: int) -> None:
        """Compare times across hosts less exactly from now on."""
        for judging in self._judging.values():
            judging.widen(epsilon_us)

    def _placed(self, worker: Worker, entry: WorkerBatch) -> Batch:
        """Return what another host wrote, in times of this one; what cannot be placed is undecided."""
        stamp = stamp_of(entry)
        shift, placing = (0, Placing.UNCERTAIN) if stamp is None else self._clocks.place(stamp, _span_us(entry.batch))
        if placing is Placing.UNCERTAIN:
            self._doubt_worker(worker)
            if entry.batch.opens:
                self._clocks.note_undecided(entry.boot)
        worker.is_uncertain = placing is Placing.UNCERTAIN
        return _shifted(entry.batch, shift)

    def _doubt_host(self, boot: str) -> None:
        """Decide nothing by times of a host that were placed by another difference of the clocks than it has now."""
        for worker in self._state.workers.values():
            if worker.host == boot:
                self._doubt_worker(worker)
        # Of a fault taken up from a checkpoint nobody knows any more whose clock told when it began.
        active = (window.fault for window in self._state.faults.values() if window.is_active)
        if any(self._begun_on.get(fault, boot) == boot for fault in active):
            self._doubt_all_times(boot)

    def _doubt_all_times(self, boot: str) -> None:
        """Decide nothing about open sessions: when a fault happened is not known, so neither is what it may take."""
        self._taint_all(is_undecided=True)
        self._clocks.note_undecided(boot)

    def _doubt_worker(self, worker: Worker) -> None:
        if worker.sessions:
            self._clocks.note_undecided(worker.host)
        for tracked in worker.sessions.values():
            self._taint(tracked, is_undecided=True)

    def _take_records(self, name: str, worker: Worker, batch: Batch, now: int) -> None:
        tally = self._state.tally
        self._take_intents(name, worker, batch, now)
        attempts = batch.attempts
        for outcome in batch.forget_outcomes:
            # In the order in which they ended: what a later append means depends on whether the forget is over.
            self._take_attempts(worker, [attempt for attempt in attempts if attempt.ended <= outcome.ended])
            attempts = [attempt for attempt in attempts if attempt.ended > outcome.ended]
            self._end_forget(worker, outcome.session, Outcome(outcome.outcome), outcome.sent, outcome.ended)
        if attempts:
            self._take_attempts(worker, attempts)
        if self._state.recovery_times.is_following and not worker.is_uncertain:
            self._state.recovery_times.take(worker.sessions, batch)
        for number in batch.closes:
            self._close(worker, number, now, is_certain=True)
        for observation in batch.observations:
            self._observe(worker, observation)
        for latency in () if worker.is_uncertain else batch.latencies:
            store = tally.stores.get(latency.store)
            if store is not None:
                store.add_latency(latency)
                take_latency(store.times, latency, partial(spans_of, self._state, latency.store))
        tally.observations_suppressed += batch.suppressed_observations
        tally.store_errors.merge(error for error in batch.errors if error.store in tally.stores)
        if batch.farewell:
            worker.farewell = True
            for number in list(worker.sessions):
                self._close(worker, number, now, is_certain=False)

    def _take_intents(self, name: str, worker: Worker, batch: Batch, now: int) -> None:
        state = self._state
        for opened in batch.opens:
            store = state.tally.stores.get(opened.store)
            if store is None:
                continue
            store.sessions_opened += 1
            # Many sessions share few names of stores and workers: each is kept in memory once.
            book = ExpectedSession(opened.session, sys.intern(opened.store))
            tracked = TrackedSession(book, sys.intern(name), opened.number)
            tracked.book.counted = state.journalled.pop((opened.store, opened.session), None)
            worker.sessions[opened.number] = tracked
            worker.last_session = opened.number
            state.watch(tracked, now)
            if worker.is_uncertain:
                self._taint(tracked, is_undecided=True)
        for lease in batch.leases:
            session = worker.sessions.get(lease.session)
            if session is not None:
                session.book.lease(lease.writer, lease.upto)
        for intent in batch.forget_intents:
            session = worker.sessions.get(intent.session)
            if session is not None:
                session.book.intend_forget(intent.sent)

    def _take_attempts(self, worker: Worker, attempts: list[Attempt]) -> None:
        sessions = worker.sessions
        lanes = self._state.lanes
        stores = self._state.tally.stores
        expiring = self._expiring
        store = ""
        counts: dict[str, int] = {}
        acknowledged = 0
        latest = 0
        for attempt in attempts:
            tracked = sessions.get(attempt.session)
            if tracked is None or tracked.tainted:
                self._count_unverifiable(tracked)
                continue
            book = tracked.book
            if book.store != store:
                if acknowledged:
                    counts["ok"] += acknowledged
                    stores[store].acknowledged_wall_seconds = _wall_seconds(latest)
                    acknowledged = 0
                store = book.store
                counts = stores[store].attempts
            if attempt.outcome != _OK:
                self._take_unacknowledged(book, attempt)
                continue
            acknowledged += 1
            latest = attempt.ended
            # What `SessionChecker.attempted` does, for every message: only sessions that expire need more than this.
            is_open = self._checker(book).attempted(attempt) if store in expiring else book.acknowledge(attempt)
            if not is_open:
                self._already_seen(tracked, attempt)
            elif not tracked.hot:
                tracked.hot = True
                lanes[store].hot[tracked] = None
        if acknowledged:
            counts["ok"] += acknowledged
            stores[store].acknowledged_wall_seconds = _wall_seconds(latest)

    def _take_unacknowledged(self, book: ExpectedSession, attempt: Attempt) -> None:
        counts = self._state.tally.stores[book.store].attempts
        self._state.lanes[book.store].troubles.append(attempt.ended)
        counts["failed" if attempt.outcome == _FAILED else "unknown"] += 1
        self._checker(book).attempted(attempt)

    def _count_unverifiable(self, tracked: TrackedSession | None) -> None:
        if tracked is None:
            self._state.tally.batches_missing += 1
        elif tracked.tainted is Taint.UNDECIDED:
            self._state.tally.stores[tracked.book.store].undecided += 1
        else:
            self._state.tally.stores[tracked.book.store].unverifiable += 1

    def _already_seen(self, tracked: TrackedSession, attempt: Attempt) -> None:
        """Count an acknowledgement of what a read has shown already, or of what is no longer expected."""
        tally = self._state.tally.stores[tracked.book.store]
        if attempt.seq in tracked.book.writers[attempt.writer].standing:
            tally.verified += 1
        else:
            tally.released += 1

    def _checker(self, book: ExpectedSession) -> SessionChecker:
        return SessionChecker(self._judging[book.store], book)

    def _end_forget(self, worker: Worker, number: int, outcome: Outcome, sent: int, ended: int) -> None:
        tracked = worker.sessions.get(number)
        if tracked is None:
            return
        tally = self._state.tally.stores[tracked.book.store]
        tally.forgets[outcome.name.lower()] += 1
        waiting = len(tracked.book.pending)
        self._checker(tracked.book).apply(ForgetEnded(outcome, sent, ended))
        tally.released += waiting - len(tracked.book.pending)

    def _close(self, worker: Worker, number: int, now: int, *, is_certain: bool) -> None:
        """Note that a session has ended; it is certain that nothing of it is under way only if its worker says so."""
        tracked = worker.sessions.get(number)
        if tracked is None or tracked.is_closed:
            return
        tracked.closed_at = now
        tracked.book.closed = is_certain
        self._state.lanes[tracked.book.store].schedule_read(tracked, now)

    def _observe(self, worker: Worker, observation: Observation) -> None:
        tracked = worker.sessions.get(observation.session)
        if tracked is None or tracked.tainted:
            return
        self._state.tally.stores[tracked.book.store].observations += 1
        if not self._state.lanes[tracked.book.store].observe(tracked, observation):
            self._state.tally.observations_suppressed += 1

    # -- gaps --

    def _open_gap(self, worker: Worker, missing: int) -> None:
        self._state.tally.batches_missing += missing
        self._state.tally.records_skipped += missing
        for tracked in worker.sessions.values():
            self._taint(tracked)

    def _taint_all(self, *, is_undecided: bool = False) -> None:
        for tracked in self._state.tracked():
            self._taint(tracked, is_undecided=is_undecided)

    def doubt_expiring(self, targets: frozenset[str]) -> None:
        """Decide nothing about open sessions that expire by a clock which was set."""
        for tracked in self._state.tracked():
            store = tracked.book.store
            if store in self._expiring and targets.intersection(self._state.targets[store]):
                self._taint(tracked, is_undecided=True)

    def _taint(self, tracked: TrackedSession, *, is_undecided: bool = False) -> None:
        if tracked.tainted:
            return
        tracked.tainted = Taint.UNDECIDED if is_undecided else Taint.GAP
        tracked.book.suspicions = tracked.book.missed = None
        tracked.book.failing = tracked.book.dirty = tracked.book.overlooked = None
        tally = self._state.tally.stores[tracked.book.store]
        if is_undecided:
            tally.undecided += len(tracked.book.pending)
        else:
            tally.unverifiable += len(tracked.book.pending)
        tracked.book.pending = NO_ATTEMPTS
        lane = self._state.lanes[tracked.book.store]
        for line in (lane.hot, lane.suspicious, lane.observations):
            line.pop(tracked, None)

    def _take_damaged(self, entry: Damaged, now: int) -> None:
        self._state.tally.batches_missing += 1
        _log.error(
            "ledger_record_damaged", what="what it may speak of is unverifiable", at=entry.at, error=entry.reason
        )
        if entry.is_foreign:
            return
        worker = self._state.workers.get(entry.worker or "")
        if worker is not None and entry.number == worker.last_number + 1:
            # It is what was expected next: only its contents are in doubt, not whose it is.
            worker.last_number += 1
            for tracked in worker.sessions.values():
                self._taint(tracked)
        else:
            self._taint_all()
        if entry.is_end and self._state.end is None:
            self._state.end = EndOfLoad(at=now, reason="the record that says why is damaged")

    # -- the run as a whole --

    def _take_run_record(self, entry: RunRecord) -> None:
        record = entry.record
        stamp = stamp_of(entry)
        if stamp is not None and self._clocks.is_foreign(stamp.boot):
            record = self._placed_record(record, stamp)
        if isinstance(record, EndOfLoad):
            self._state.end = record
        elif not self._is_repeated(record):
            self._take_fault(record)

    def _placed_record(self, record: FaultPhase | EndOfLoad, stamp: Stamp) -> FaultPhase | EndOfLoad:
        shift, placing = self._clocks.place(stamp)
        if placing is not Placing.CERTAIN and isinstance(record, FaultPhase):
            self._doubt_all_times(stamp.boot)
        return msgspec.structs.replace(record, at=record.at + shift)

    def _is_repeated(self, record: FaultPhase) -> bool:
        """Whether it is on record already: a restart that another verifier had noticed, or what was written again."""
        if record.phase == "failed":
            return f"{record.fault}/{record.telemetry.get('reason', '')}" in self._state.failures
        known = self._state.faults.get(record.fault)
        if known is None:
            return False
        done = {"start": True, "injected": known.injected is not None, "end": known.ended is not None}
        return done.get(record.phase, False)

    def _take_fault(self, record: FaultPhase) -> None:
        faults = self._state.faults
        if record.phase == "failed":
            failures = self._state.failures
            failures[f"{record.fault}/{record.telemetry.get('reason', '')}"] = None
            if len(failures) > FAILURES_REMEMBERED_MAX:
                del failures[next(iter(failures))]
            self._state.recovery_times.failed(record)
        elif record.phase == "injected":
            self._state.recovery_times.injected(record)
        elif record.phase == "start":
            window = FaultWindow(
                fault=record.fault,
                kind=record.kind,
                target=record.target,
                excuses=record.excuses,
                promotes=record.promotes,
                serves=record.serves,
                down=record.down,
                started=record.at,
                planned=record.planned,
                keeps_data=record.target not in self._state.header.resting,
                parameters=record.parameters,
                telemetry=record.telemetry,
            )
            if faults.get(record.fault) is not None:
                return  # it is on record already
            faults.begin(window)
            self._begun_on[record.fault] = record.boot
            self._doubt_all(window)
            self._state.recovery_times.began(window)
        elif faults.get(record.fault) is None:
            # Its beginning was lost, and with it what it may excuse.
            self._state.tally.batches_missing += 1
            self._taint_all()
        else:
            known = {name: worker.last_session for name, worker in self._state.workers.items()}
            for ended in faults.end(record.fault, record.at, record.telemetry, known):
                self._begun_on.pop(ended.fault, None)
                self._doubt_all(ended)
                self._state.recovery_times.ended(ended)
            note_end(self._state, faults.windows[record.fault])

    def _doubt_all(self, window: FaultWindow) -> None:
        for tracked in self._state.tracked():
            if window.target in self._state.targets[tracked.book.store]:
                self._checker(tracked.book).doubt(window)


def _span_us(batch: Batch) -> int:
    """Return the time from the first to the last moment that a batch tells of."""
    ended = max((attempt.ended for attempt in batch.attempts), default=0)
    return ended - min((attempt.sent for attempt in batch.attempts), default=ended)


def _shifted(batch: Batch, shift: int) -> Batch:
    """Translate the times of another host into this one's."""
    replace = msgspec.structs.replace
    batch.attempts = [replace(a, sent=a.sent + shift, ended=a.ended + shift) for a in batch.attempts]
    batch.forget_intents = [replace(f, sent=f.sent + shift) for f in batch.forget_intents]
    batch.forget_outcomes = [replace(f, sent=f.sent + shift, ended=f.ended + shift) for f in batch.forget_outcomes]
    batch.observations = [
        replace(
            o,
            invoked=o.invoked + shift,
            returned=o.returned + shift,
            acked=[(writer, seq, sent + shift, ended + shift) for writer, seq, sent, ended in o.acked],
        )
        for o in batch.observations
    ]
    for latency in batch.latencies:
        latency.slot += shift // LATENCY_SLOT_US
    return batch


def _wall_seconds(at: int) -> float:
    return time.time() - (now_us() - at) / 1e6
