"""A memory, its load, its ledger and the real verifier in one process, under one clock that only moves when told to.

The store keeps its contract to the letter and uses every freedom it gives. Everything that decides a verdict is real:
intake, book, judgement, second look, reporter. What happens, and in which order, is drawn from one source of random
numbers, also in the middle of a read. Then one thing can be made wrong, and the verifier has to say what.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from soak.checker.contract import Contract, Duplicates, Expiry, Order, Reads
from soak.checker.kinds import Kind
from soak.checker.message import Message, Stored
from soak.checker.outcome import Outcome
from soak.checker.partial import NEAREST
from soak.checker.read import Rules
from soak.checker.text import MessageGenerator
from soak.faults.catalogue import ALL as FAULTS
from soak.ledger.reader import RunRecord, WorkerBatch
from soak.ledger.records import (
    Attempt,
    Batch,
    EndOfLoad,
    FaultPhase,
    ForgetIntent,
    ForgetOutcome,
    Lease,
    Observation,
    Open,
    SeenItem,
)
from soak.stores.protocol import ReadsEnds
from soak.verifier import examiner as examiner_module
from soak.verifier.evidence import EvidenceFolder
from soak.verifier.examiner import Examiner
from soak.verifier.intake import Intake
from soak.verifier.reporter import Reporter
from soak.verifier.state import State
from soak.verifier.tracked_session import TrackedSession
from tests.support.run_headers import header_of

MessageId = tuple[int, int]

SESSION, STORE, WORKER, HOST = "talk-chat", "redis-list", "w1", "host"
AUTHOR = MessageGenerator("r1", 7)
MILLISECOND, SECOND = 1_000, 1_000_000
SETTLE_SECONDS = 0.5
TTL_EPSILON_US = SECOND // 5
LEASE = 1_000
LOOKS_MAX = 20
"""More that are made at rest, while something is in doubt."""


@dataclass
class Row:
    """A message as it stands in the store."""

    place: MessageId
    applied: int
    item: Any = None
    """What is read in its place, if that is not the message."""


@dataclass
class Flight:
    """An append that was sent and not answered."""

    seq: int
    sent: int
    is_applied: bool = False


class Simulation:
    """One session of one store under one contract."""

    def __init__(
        self,
        source: random.Random,
        contract: Contract,
        *,
        writers: int = 2,
        clock_epsilon_us: int = 0,
        is_searched: bool = False,
    ) -> None:
        self.source = source
        self.contract = contract
        self.writers = writers
        self.now = 100 * SECOND
        self.rows: list[Row] = []
        self.expires = 0
        self.flights: dict[int, Flight] = {}
        self.sent = dict.fromkeys(range(writers), 0)
        self.late: list[MessageId] = []
        self.late_forgets = 0
        self.acked: dict[MessageId, tuple[int, int]] = {}
        """When each acknowledged message was sent and answered."""
        self.unknown: set[MessageId] = set()
        self.refused: set[MessageId] = set()
        self.forgetting: tuple[int, bool] | None = None
        """When a forget was sent that is not answered yet, and whether it has happened."""
        self.is_down = False
        self.fault: str | None = None
        self.faults = 0
        self.is_quiet = False
        """Nothing happens by itself any more."""
        self.hidden: set[MessageId] = set()
        """What reads do not show, for once."""
        self.is_searched = is_searched
        self.unindexed: set[MessageId] = set()
        """What searches do not show, for once."""
        self.only_far: set[MessageId] = set()
        """What only wide searches show: the index is approximate."""
        self.spoil_search: Callable[[list[Stored]], list[Stored]] = list
        """What is done to the answer of a search, for once."""
        self._past: list[tuple[int, tuple[Row, ...], int]] = [(0, (), 0)]
        """What stood in the store, and when it was to expire, since when."""
        self._shown_at = 0
        self._ledger: deque[WorkerBatch | RunRecord] = deque()
        self._batches = 0
        self._batch = Batch(
            opens=[Open(1, SESSION, STORE)], leases=[Lease(1, writer, LEASE) for writer in range(writers)]
        )
        self.rules = Rules(contract=contract, ttl_epsilon_us=TTL_EPSILON_US, clock_epsilon_us=clock_epsilon_us)
        self._start_verifier()

    # -- the verifier --

    def _start_verifier(self) -> None:
        header = header_of({STORE: self.contract}, AUTHOR.run, seed=7)
        self.state = State(header, {STORE: ("redis",)}, SECOND)
        self._intake = Intake(self.state, {STORE: self.rules}, HOST)
        self._folder = tempfile.TemporaryDirectory(prefix="soak-simulated-")
        reporter = Reporter(self.state, EvidenceFolder(Path(self._folder.name), 1), AUTHOR, set())
        reader: Any = _Reader(self)  # only what the verifier asks of a store
        self.examiner = Examiner(
            name=STORE, store=reader, targets=("redis",), rules=self.rules, author=AUTHOR, state=self.state,
            reporter=reporter, settle_seconds=SETTLE_SECONDS, hot_seconds=0.1, timeout_seconds=60.0,
            caught_up=self._caught_up,
        )  # fmt: skip
        self.deliver()

    def close(self) -> None:
        self._folder.cleanup()

    def write_batch(self) -> None:
        """Put what the load has to say into the ledger."""
        self._batches += 1
        self._ledger.append(WorkerBatch(f"{self._batches}-0", WORKER, HOST, 0, self._batches, self._batch))
        self._batch = Batch()

    def deliver(self, count: int | None = None) -> None:
        """Let the verifier take in what is in the ledger."""
        self.write_batch()
        for _ in range(len(self._ledger) if count is None else min(count, len(self._ledger))):
            self._intake.take(self._ledger.popleft(), self.now)

    async def _caught_up(self) -> bool:
        self.deliver()
        return True

    @property
    def watched(self) -> TrackedSession:
        return self.state.workers[WORKER].sessions[1]

    async def examine(self, *, whole: bool) -> None:
        if not whole and self.now % 2:
            examined = await self.examiner.examine_ends([self.watched])
            for odd in examined.odd:
                await self.examiner.explain_end(odd)
            for other in examined.others:
                await self.examiner.examine(other, whole=False)
        else:
            await self.examiner.examine(self.watched, whole=whole)
        staleness = self.contract.staleness_us or 0
        for window in self.state.faults.values():
            window.caught_up = window.ended  # its replica is never behind by more than it promises
            after = (window.ended or 0) + staleness
            if window.ended is not None and self.watched.last_whole > after and STORE not in window.swept:
                window.swept.append(STORE)

    def found(self) -> Counter[str]:
        return Counter({kind: count for kind, count in self.state.tally.stores[STORE].violations.items() if count})

    # -- the store --

    def _change(self) -> None:
        self._past.append((self.now, tuple(self.rows), self.expires))

    def _expire(self) -> None:
        if self.expires and self.now >= self.expires:
            self.rows, self.expires = [], 0
            self._change()

    def _store(self, place: MessageId) -> None:
        """Take a message, wherever the contract lets it stand."""
        self._expire()
        at = len(self.rows)
        if self.contract.order is Order.PER_WRITER:
            own = [index for index, row in enumerate(self.rows) if row.place[0] == place[0]]
            at = self.source.randint(own[-1] + 1 if own else 0, len(self.rows))
        self.rows.insert(at, Row(place, self.now))
        if self.contract.duplicates is Duplicates.AT_LEAST_ONCE and self.source.random() < 0.2:
            self.rows.append(Row(place, self.now))
        if self.contract.retained_messages is not None:
            del self.rows[: -self.contract.retained_messages]
        ttl = self.contract.ttl_seconds
        if ttl is not None and (self.contract.expiry is Expiry.SLIDING or not self.expires):
            self.expires = self.now + int(ttl * SECOND)
        self._change()

    def shown(self) -> list[Stored]:
        """Answer a read now, as fresh as was promised."""
        self._expire()
        rows: Sequence[Row] = self.rows
        if self.contract.staleness_us:
            oldest = max(self._shown_at, self.now - self.contract.staleness_us + MILLISECOND)
            self._shown_at = self.source.randint(min(oldest, self.now), self.now)
            rows = next(rows for at, rows, _ in reversed(self._past) if at <= self._shown_at)
        if self.contract.eviction_allowed and self.source.random() < 0.2 and self.rows:
            del self.rows[self.source.randrange(len(self.rows))]
        items = [row.item or AUTHOR.write(SESSION, *row.place) for row in rows if row.place not in self.hidden]
        if self.contract.order is Order.NONE:
            self.source.shuffle(items)
        return items

    def searched(self, text: str, limit: int) -> list[Stored]:
        """Answer a search now: what says the same comes first, and now and then the nearest are not the nearest."""
        items = [item for item in self.shown() if not isinstance(item, Message) or self._is_indexed(item, limit)]
        self.source.shuffle(items)
        if limit > NEAREST or self.source.random() < 0.8:
            items.sort(key=lambda item: not isinstance(item, Message) or item.content != text)
        return self.spoil_search(items[:limit])

    def _is_indexed(self, item: Message, limit: int) -> bool:
        place = (item.writer, item.seq)
        return place not in self.unindexed and (limit > NEAREST or place not in self.only_far)

    # -- the load --

    def tick(self, most_us: int = 20 * MILLISECOND) -> int:
        self.now += self.source.randint(1, most_us)
        return self.now

    def send(self, writer: int) -> None:
        if writer not in self.flights:
            self.sent[writer] += 1
            self.flights[writer] = Flight(self.sent[writer], self.tick())
            self.tick()

    def apply(self, writer: int) -> None:
        flight = self.flights.get(writer)
        if flight is not None and not flight.is_applied and not self.is_down:
            flight.is_applied = True
            self.tick()
            self._store((writer, flight.seq))

    def answer(self, writer: int, outcome: Outcome | None = None) -> None:
        flight = self.flights.pop(writer, None)
        if flight is None:
            return
        if outcome is None:
            outcome = Outcome.OK if flight.is_applied else self.source.choice([Outcome.FAILED, Outcome.UNKNOWN])
            if self.source.random() < 0.1 and flight.is_applied:
                outcome = Outcome.UNKNOWN
        place, ended = (writer, flight.seq), self.tick()
        if outcome is Outcome.OK:
            self.acked[place] = (flight.sent, ended)
        elif outcome is Outcome.UNKNOWN:
            self.unknown.add(place)
            if not flight.is_applied and self.source.random() < 0.5:
                self.late.append(place)
        else:
            self.refused.add(place)
        self._batch.attempts.append(Attempt(1, writer, flight.seq, int(outcome), flight.sent, ended))
        self.tick()

    def say(self, writer: int = 0) -> MessageId:
        """Append one message from its sending to its acknowledgement."""
        self.send(writer)
        self.apply(writer)
        seq = self.flights[writer].seq
        self.answer(writer, Outcome.OK)
        return writer, seq

    def surface(self) -> None:
        if self.late and not self.is_down:
            self.tick()
            self._store(self.late.pop(self.source.randrange(len(self.late))))

    def forget(self) -> None:
        """Take the next step of a forget: intend it, let it happen, answer it."""
        if self.forgetting is None:
            self.write_batch()
            self._batch.forget_intents.append(ForgetIntent(1, self.tick()))
            self.write_batch()
            self.forgetting = (self.tick(), False)
        elif not self.forgetting[1] and not self.is_down and self.source.random() < 0.8:
            self.forgetting = (self.forgetting[0], True)
            self._erase()
        else:
            is_done = self.forgetting[1]
            outcome = Outcome.OK if is_done else self.source.choice([Outcome.FAILED, Outcome.UNKNOWN])
            if is_done and self.source.random() < 0.2:
                outcome = Outcome.UNKNOWN
            self.late_forgets += int(outcome is Outcome.UNKNOWN and not is_done)
            self._answer_forget(outcome)
        self.tick()

    def _answer_forget(self, outcome: Outcome) -> None:
        assert self.forgetting is not None
        self._batch.forget_outcomes.append(ForgetOutcome(1, int(outcome), self.forgetting[0], self.tick()))
        self.forgetting = None

    def _erase(self) -> None:
        self.tick()
        self.rows, self.expires = [], 0
        self._change()

    def forget_late(self) -> None:
        if self.late_forgets and not self.is_down:
            self.late_forgets -= 1
            self._erase()

    def break_down(self, kind: str = "crash") -> None:
        """Begin a fault, or end it; a crash takes what the contract lets it take."""
        if self.fault is None:
            self.faults += 1
            self.fault = f"{kind}-{self.faults}"
            self._note_fault("start", kind)
            self.is_down = True
            if kind == "crash":
                self._lose_tail()
                for writer in list(self.flights):
                    self.flights[writer].is_applied = True  # or not: its connection is gone, and it comes no more
                    self.answer(writer, Outcome.UNKNOWN)
                if self.forgetting is not None:
                    self._answer_forget(Outcome.UNKNOWN)
        else:
            self._note_fault("end", self.fault.partition("-")[0])
            self.fault, self.is_down = None, False

    def _note_fault(self, phase: str, kind: str) -> None:
        self.write_batch()
        assert self.fault is not None
        record = FaultPhase(
            fault=self.fault,
            kind=kind,
            target="redis",
            phase=phase,
            at=self.tick(),
            excuses=FAULTS[kind].excuses,
            promotes=FAULTS[kind].promotes,
            serves=FAULTS[kind].serves,
            down=FAULTS[kind].down,
        )
        self._ledger.append(RunRecord(f"{self._batches}-{self.faults}", record))
        self.tick()

    def _lose_tail(self) -> None:
        allowed = self.contract.crash_loss_seconds
        if allowed is None:
            self.rows = [row for row in self.rows if self.source.random() < 0.5]
        elif allowed:
            # Everything that was done since then is undone, a forget just as well as an append.
            since = self.now - self.source.randint(0, int(allowed * SECOND))
            _, rows, self.expires = next(one for one in reversed(self._past) if one[0] <= since)
            self.rows = list(rows)
        # What is lost now never comes back, whatever happens later.
        self._past = [(0, tuple(self.rows), self.expires)]

    def take_part(self) -> None:
        """Let a participant read, and hand what it saw to the verifier, however good it looks."""
        if self.is_down:
            return
        acked, invoked = self._acked_in_order(), self.tick()
        last = self.source.choice([None, 3, 8])
        self._act()
        items = self.shown()
        self._act()
        self.observe(last, items if last is None else items[-last:], acked, invoked)

    def _acked_in_order(self) -> list[tuple[int, int, int, int]]:
        return [(*place, *times) for place, times in sorted(self.acked.items(), key=lambda one: one[1][1])]

    def observe(
        self,
        last: int | None,
        items: list[Stored],
        acked: list[tuple[int, int, int, int]] | None = None,
        invoked: int | None = None,
        asked: MessageId | None = None,
    ) -> None:
        """Tell the verifier what a participant saw."""
        known = self._acked_in_order() if acked is None else acked
        seen = [SeenItem(item.session, item.writer, item.seq) for item in items]  # type: ignore[union-attr]
        begun = self.tick() if invoked is None else invoked
        self._batch.observations.append(
            Observation(1, begun, self.tick(), last, seen, known, len(known), "simulated", asked)
        )

    # -- what happens --

    def _act(self) -> None:
        """Let something happen at the same time, perhaps."""
        if not self.is_quiet and self.source.random() < 0.5:
            self.step()

    def step(self) -> None:
        """Let one thing happen that may happen."""
        draw, writer = self.source.random(), self.source.randrange(self.writers)
        if draw < 0.25:
            self.send(writer)
        elif draw < 0.45:
            self.apply(writer)
        elif draw < 0.7:
            self.answer(writer)
        elif draw < 0.74:
            self.surface()
        elif draw < 0.8:
            self.deliver(self.source.choice([1, 2, 5]))
        elif draw < 0.84:
            self.tick(2 * SECOND)
        elif draw < 0.86 or self.forgetting is not None:
            self.forget()
        elif draw < 0.88:
            self.forget_late()
        elif draw < 0.91 or self.is_down:
            self.break_down(self.source.choice(["crash", "pause"]))
        else:
            self.take_part()

    async def live(self, steps: int) -> None:
        for _ in range(steps):
            if self.source.random() < 0.25:
                await self.examine(whole=self.source.random() < 0.5)
            else:
                self.step()

    async def come_to_rest(self) -> None:
        """End whatever is under way, and read until everything is settled."""
        self.is_quiet = True
        if self.is_down:
            self.break_down()
        while self.forgetting is not None:
            self.forget()
        for writer in list(self.flights):
            self.apply(writer)
            self.answer(writer)
        self.deliver()
        await self.look(4)
        for _ in range(LOOKS_MAX):
            # A store that may evict can do so right between the read that shows a message and the search for it.
            if self.watched.is_in_doubt:
                await self.look(1)

    async def look(self, times: int) -> None:
        """Read all, again and again, with the time to settle in between."""
        for _ in range(times):
            self.deliver()
            await self.examine(whole=True)
            staleness = self.contract.staleness_us or 0
            self.tick()
            self.now += int(SETTLE_SECONDS * SECOND) + staleness

    def end_session(self) -> None:
        self._batch.closes.append(1)
        self.deliver()

    def expect_silence(self) -> None:
        """Raise if anyone was accused, or anything acknowledged is neither verified nor explained."""
        assert not self.found(), self.found()
        watched = self.watched
        assert not watched.tainted
        assert self.state.tally.unverifiable == 0
        assert not watched.book.pending, watched.book.pending
        assert not watched.is_in_doubt, (watched.suspicions, watched.book.missed)


class _Reader(ReadsEnds):
    """The store as the verifier sees it: while it reads, time passes and things happen."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self.ends = self._read_ends
        if simulation.contract.staleness_us:
            self.primary_history = self._primary_history
        if simulation.is_searched:
            self.search = self._search

    async def history(self, _session: str, last: int | None = None) -> Sequence[Stored]:
        simulation = self._simulation
        simulation.tick()
        simulation._act()
        if simulation.is_down:
            raise ConnectionError("down")
        items = simulation.shown()
        simulation._act()
        simulation.tick()
        return items if last is None else items[-last:]

    async def _read_ends(self, asked: Sequence[tuple[str, int]]) -> Sequence[Sequence[Stored] | BaseException]:
        return [await self.history(session, last) for session, last in asked]

    async def _search(self, _session: str, text: str, limit: int) -> Sequence[Stored]:
        simulation = self._simulation
        simulation.tick()
        simulation._act()
        if simulation.is_down:
            raise ConnectionError("down")
        items = simulation.searched(text, limit)
        simulation._act()
        simulation.tick()
        return items

    async def _primary_history(self, _session: str) -> Sequence[Stored]:
        if self._simulation.is_down:
            raise ConnectionError("down")
        return [row.item or AUTHOR.write(SESSION, *row.place) for row in self._simulation.rows]


CONTRACTS = {
    "strict": Contract(),
    "crash 1 s": Contract(crash_loss_seconds=1.0),
    "cache": Contract(crash_loss_seconds=None, power_loss_seconds=None),
    "per writer": Contract(order=Order.PER_WRITER),
    "no order": Contract(order=Order.NONE),
    "at least once": Contract(duplicates=Duplicates.AT_LEAST_ONCE),
    "sliding": Contract(ttl_seconds=2.0, expiry=Expiry.SLIDING),
    "absolute": Contract(ttl_seconds=3.0, expiry=Expiry.ABSOLUTE),
    "sliding and crash": Contract(ttl_seconds=2.0, crash_loss_seconds=1.0),
    "last 6 and crash": Contract(retained_messages=6, crash_loss_seconds=1.0),
    "stale": Contract(reads=Reads.BOUNDED_STALENESS, staleness_seconds=0.5),
    "stale and sliding": Contract(reads=Reads.BOUNDED_STALENESS, staleness_seconds=0.5, ttl_seconds=2.0),
    "stale and crash": Contract(reads=Reads.BOUNDED_STALENESS, staleness_seconds=0.5, crash_loss_seconds=1.0),
    "last 6": Contract(retained_messages=6),
    "last 6 at least once": Contract(retained_messages=6, duplicates=Duplicates.AT_LEAST_ONCE),
    "eviction": Contract(eviction_allowed=True),
}


def simulate(
    source: random.Random,
    contract: Contract,
    then: Callable[[Simulation], Any] | None = None,
    *,
    steps: int = 60,
    writers: int = 2,
    is_searched: bool = False,
) -> Simulation:
    """Live for a while, come to rest, and then do one thing more."""

    async def run(simulation: Simulation) -> None:
        await simulation.live(steps)
        await simulation.come_to_rest()
        if then is not None:
            await then(simulation)

    simulation = Simulation(source, contract, writers=writers, is_searched=is_searched)
    with mock.patch.object(examiner_module, "now_us", side_effect=lambda: simulation.now):
        try:
            asyncio.run(run(simulation))
        finally:
            simulation.close()
    return simulation


__all__ = ["AUTHOR", "CONTRACTS", "SECOND", "EndOfLoad", "Kind", "Row", "Simulation", "simulate"]
