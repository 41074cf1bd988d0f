"""A random run on a simulated store that keeps its contract: who wrote, forgot, broke and read what, and when."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random
from typing import NamedTuple

from tests.reference.failover import Failover, draw_failover
from tests.reference.history import (
    MILLISECOND,
    SECOND,
    VERIFIER,
    Attempt,
    Contract,
    Element,
    Excuse,
    Expiry,
    Fault,
    Forget,
    History,
    MessageId,
    Micros,
    Order,
    Outcome,
    Read,
    Source,
)
from tests.reference.store import Op, Store, element

CONTRACTS: dict[str, Contract] = {
    "strict": Contract(),
    "crash_tail": Contract(crash_loss=SECOND, power_loss=SECOND, failover_loss=SECOND),
    "cache": Contract(crash_loss=None, power_loss=None, failover_loss=None),
    "bounded": Contract(staleness=SECOND // 2),
    "bounded_strict": Contract(staleness=SECOND // 2, strict_replica=True),
    "eventual": Contract(staleness=None),
    "per_writer": Contract(order=Order.PER_WRITER),
    "unordered": Contract(order=Order.NONE),
    "at_least_once": Contract(at_least_once=True),
    "ttl_sliding": Contract(ttl=2 * SECOND, expiry=Expiry.SLIDING),
    "ttl_absolute": Contract(ttl=2 * SECOND, expiry=Expiry.ABSOLUTE),
    "retained": Contract(retained=4),
    "eviction": Contract(eviction=True),
}

RUN: Micros = 3 * SECOND
"""How long faults and forgets may begin; writers may go on a little longer."""
READ_EVERY_MIN, READ_EVERY_MAX = 50 * MILLISECOND, 500 * MILLISECOND
FINAL_READS = 4
FORGETTER = -1
"""The client that forgets sessions."""


@dataclass(slots=True)
class Slot:
    """One read to come: when it is taken, and which position of the log it sees."""

    session: int
    reader: int
    source: Source
    invoked: Micros
    taken: Micros
    returned: Micros
    position: Micros
    last: int | None = None
    raises: bool = False
    olds: tuple[Failover, ...] = ()
    """The failovers whose old primary answers it."""


@dataclass(slots=True)
class Simulation:
    """Everything random about a run; flaws are planted into it before it becomes a history."""

    random: Random
    contract: Contract
    settle: Micros
    sessions: tuple[int, ...]
    uses_replica: bool
    faults: list[Fault] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)
    forgets: list[Forget] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)
    slots: list[Slot] = field(default_factory=list)
    lease_block: int = 10
    failovers: list[Failover] = field(default_factory=list)

    def correct_store(self) -> Store:
        return Store(self.contract, self.ops, self.contract.ttl)

    def standing(self, store: Store, slot: Slot) -> list[Op]:
        """Return the writes that a read finds in a store."""
        return store.read(slot.session, slot.position, slot.taken, slot.olds)

    def items(self, store: Store, slot: Slot) -> tuple[Element, ...] | None:
        """Return what a read gets from a store."""
        if slot.raises:
            return None
        standing = self.standing(store, slot)
        if self.contract.order is Order.NONE:
            Random(slot.taken).shuffle(standing)
        return tuple(element(op, slot.taken) for op in (standing[-slot.last :] if slot.last else standing))

    def history(self, store: Store | None = None) -> History:
        """Return the run as a history, of the store as it should be or of another."""
        store = store or self.correct_store()
        reads = [
            Read(s.session, s.reader, s.source, s.invoked, s.returned, self.items(store, s), s.last) for s in self.slots
        ]
        return History(
            contract=self.contract,
            settle=self.settle,
            attempts=tuple(sorted(self.attempts, key=lambda attempt: attempt.sent)),
            forgets=tuple(self.forgets),
            reads=tuple(reads),
            faults=tuple(self.faults),
            lease_block=self.lease_block,
            sessions=self.sessions,
        )


def draw_contract(random: Random, base: str) -> Contract:
    """Return a contract of the table, sometimes with a clause of another."""
    contract = CONTRACTS[base]
    if contract.ttl is not None:
        contract = replace(contract, ttl=random.randint(SECOND, 3 * SECOND))
    if contract.retained is not None:
        contract = replace(contract, retained=random.randint(2, 6))
    extra = random.random()
    if extra < 0.1:
        contract = replace(contract, crash_loss=SECOND // 2, failover_loss=SECOND // 4)
    elif extra < 0.15 and contract.retained is None:
        contract = replace(contract, retained=random.randint(2, 8))
    elif extra < 0.2 and contract.order is Order.REALTIME:
        contract = replace(contract, order=Order.PER_WRITER)
    elif extra < 0.23 and contract.ttl is None:
        contract = replace(contract, ttl=2 * SECOND, expiry=random.choice(tuple(Expiry)))
    return contract


def simulate(
    random: Random, contract: Contract, *, sessions_min: int = 1, must_break: bool = False, fails_over: bool = False
) -> Simulation:
    """Run writers, forgets, faults and readers against a store that keeps the contract."""
    sessions = tuple(range(1, random.randint(sessions_min, 2) + 1))
    uses_replica = contract.staleness != 0 and random.random() < 0.8
    run = Simulation(random, contract, random.randint(200, 700) * MILLISECOND, sessions, uses_replica)
    run.lease_block = random.choice((1, 5, 10))
    _break(run, must_break=must_break, fails_over=fails_over)
    for session in sessions:
        for writer in range(1, random.randint(1, 3) + 1):
            _write(run, session, writer)
        _forget(run, session)
    run.ops.sort(key=lambda op: op.at)
    _lose_tails(run)
    for session in sessions:
        _read(run, session)
    run.slots.sort(key=lambda slot: slot.invoked)
    return run


# ---------------------------------------------------------------------------------------------------------------------
# Faults


def _break(run: Simulation, *, must_break: bool, fails_over: bool) -> None:
    random = run.random
    count = random.choice((0, 0, 1, 1, 2))
    at = 0
    for number in range(max(count, int(must_break or fails_over))):
        at = random.randint(at + 300 * MILLISECOND, at + RUN // 2)
        if fails_over and (number == 0 or random.random() < 0.5):
            failover = draw_failover(random, run.contract, at, uses_replica=run.uses_replica)
            run.failovers.append(failover)
            run.faults.append(failover.fault)
            at = failover.fault.ended
            continue
        injected = at + random.choice((0, random.randint(0, 150 * MILLISECOND)))
        ended = injected + random.randint(30 * MILLISECOND, 500 * MILLISECOND)
        excuse = random.choice(tuple(Excuse)[2:] if must_break else tuple(Excuse))
        on_replica = run.uses_replica and not must_break and random.random() < 0.4
        caught_up = ended + random.randint(0, 800 * MILLISECOND) if run.uses_replica else None
        target = Source.REPLICA if on_replica else Source.PRIMARY
        run.faults.append(Fault(excuse, at, injected, ended, target, caught_up))
        at = ended


def is_outage(fault: Fault, source: Source) -> bool:
    return fault.target is source and fault.excuse is not Excuse.NOTHING and not fault.leaves_old


def _outage(run: Simulation, start: Micros, end: Micros, source: Source) -> tuple[Micros, Micros] | None:
    """Return since when and until when the server does not answer, if that touches this time."""
    outages = [(fault.injected, fault.ended) for fault in run.faults if is_outage(fault, source)]
    if source is Source.PRIMARY:
        outages += [failover.outage for failover in run.failovers if failover.outage is not None]
    return next(((gone, back) for gone, back in sorted(outages) if gone <= end and start < back), None)


def _lose_tails(run: Simulation) -> None:
    """Each crash takes what the contract lets it take: a contiguous tail, or whatever a cache forgets."""
    random = run.random
    for fault in run.faults:
        loss = run.contract.loss(fault.excuse)
        if fault.leaves_old or loss == 0 or fault.target is Source.REPLICA or random.random() < 0.2:
            continue  # of a failover the old primary has it, and the new one has not
        before = [op for op in run.ops if op.at <= fault.injected < op.lost_at]
        if loss is None:
            share = random.choice((1.0, random.random()))
            lost = [op for op in before if random.random() < share]
        else:
            cut = fault.injected - int(loss * random.random())
            lost = [op for op in before if op.at > cut]
        for op in lost:
            op.lost_at = fault.injected


# ---------------------------------------------------------------------------------------------------------------------
# Writes


def _latency(random: Random) -> Micros:
    return random.randint(1, 40) * MILLISECOND if random.random() < 0.8 else random.randint(40, 400) * MILLISECOND


class Applied(NamedTuple):
    """What became of an operation: when it ended, how, and when it was applied, if ever, and where."""

    ended: Micros
    outcome: Outcome
    at: Micros | None
    abandoned: Failover | None = None


def _apply_on(run: Simulation, client: tuple[int, int], sent: Micros) -> Applied:
    """Let an operation be applied by the primary that its client is connected to."""
    ended, outcome, applied = _apply(run, sent)
    old = None if applied is None else _abandoned(run, client, applied)
    if old is None:
        return Applied(ended, outcome, applied)
    if not old.acknowledges:
        return Applied(ended, Outcome.UNKNOWN, None)  # the old one waits for a replica, in vain
    return Applied(ended, outcome if ended <= old.fault.ended else Outcome.UNKNOWN, applied, old)


def _abandoned(run: Simulation, client: tuple[int, int], at: Micros) -> Failover | None:
    return next((one for one in run.failovers if one.is_abandoned(client, at, run.random)), None)


def _apply(run: Simulation, sent: Micros) -> tuple[Micros, Outcome, Micros | None]:
    """Return when an operation ended, how, and when it was applied, if ever."""
    random = run.random
    ended = sent + _latency(random)
    applied = random.randint(sent, ended)
    down = _outage(run, sent, ended, Source.PRIMARY)
    if down is not None:
        return _apply_around(run, sent, applied, down)
    chance = random.random()
    if chance < 0.04:
        return ended, Outcome.FAILED, None
    if chance < 0.14:
        return ended, Outcome.UNKNOWN, random.choice((None, applied, _late(run, ended)))
    return ended, Outcome.OK, applied


def _apply_around(
    run: Simulation, sent: Micros, applied: Micros, down: tuple[Micros, Micros]
) -> tuple[Micros, Outcome, Micros | None]:
    """Let the server go away in between: refused, no reply, or held back until it was there again."""
    random, (gone, back) = run.random, down
    if sent < gone and applied <= gone:
        return gone + random.randint(1, 100 * MILLISECOND), Outcome.UNKNOWN, applied
    chance = random.random()
    ended = max(sent, gone) + _latency(random)
    if chance < 0.3:
        return ended, Outcome.FAILED, None
    if chance < 0.7:
        return ended, Outcome.UNKNOWN, random.choice((None, _late(run, max(ended, back))))
    applied = back + random.randint(1, 30 * MILLISECOND)
    if _outage(run, applied, applied, Source.PRIMARY):
        return ended, Outcome.UNKNOWN, None
    return applied + random.randint(1, 30 * MILLISECOND), Outcome.OK, applied


def _late(run: Simulation, after: Micros) -> Micros | None:
    """Return a late moment at which an unknown write is applied after all."""
    at = after + run.random.randint(1, 2 * SECOND)
    down = _outage(run, at, at, Source.PRIMARY)
    return None if down else at


def _delivery(random: Random, ended: Micros) -> Micros | None:
    chance = random.random()
    if chance < 0.04:
        return None
    if chance < 0.2:
        return ended + random.randint(100, 1500) * MILLISECOND
    return ended + random.randint(1, 60) * MILLISECOND


def _write(run: Simulation, session: int, writer: int) -> None:
    random = run.random
    at = random.randint(0, 300 * MILLISECOND)
    lead = random.randint(-200, 200) * MILLISECOND if run.contract.order is Order.PER_WRITER else 0
    for seq in range(1, random.randint(2, 8) + 1):
        message = MessageId(session, writer, seq)
        ended, outcome, applied, abandoned = _apply_on(run, (session, writer), at)
        run.attempts.append(Attempt(message, at, ended, outcome, _delivery(random, ended)))
        if applied is not None:
            run.ops.append(Op(applied, session, message, applied + lead + SECOND, abandoned=abandoned))
            if run.contract.at_least_once and random.random() < 0.3 and outcome is Outcome.OK:
                again = random.randint(applied, ended)
                retried = Op(again, session, message, again + lead + SECOND)
                retried.abandoned = _abandoned(run, (session, writer), again)
                run.ops.append(retried)
        at = ended + random.choice((1, random.randint(1, 80 * MILLISECOND), random.randint(1, 500 * MILLISECOND)))


def _forget(run: Simulation, session: int) -> None:
    random = run.random
    at = random.randint(200 * MILLISECOND, RUN)
    for _ in range(random.choice((0, 0, 0, 1, 1, 2))):
        ended, outcome, applied, abandoned = _apply_on(run, (session, FORGETTER), at)
        run.forgets.append(Forget(session, at, ended, outcome, _delivery(random, ended)))
        if applied is not None:
            run.ops.append(Op(applied, session, None, abandoned=abandoned))
        at = ended + random.randint(1, RUN // 2)


# ---------------------------------------------------------------------------------------------------------------------
# Reads


def _read(run: Simulation, session: int) -> None:
    random = run.random
    done = _done(run)
    replica = _Replica(run)
    at = random.randint(0, READ_EVERY_MAX)
    while at < done:
        source = Source.REPLICA if run.uses_replica and random.random() < 0.7 else Source.PRIMARY
        at = _slot(run, replica, session, VERIFIER, source, at)
        at += random.randint(READ_EVERY_MIN, READ_EVERY_MAX)
    at = max(at, done + 1)
    for _ in range(FINAL_READS):
        if run.uses_replica:
            at = _slot(run, replica, session, VERIFIER, Source.REPLICA, at) + 1
        at = _slot(run, replica, session, VERIFIER, Source.PRIMARY, at)
        at += run.settle + random.randint(1, 100 * MILLISECOND)
    _participants(run, session)


def _participants(run: Simulation, session: int) -> None:
    """Participants read the last N before they write."""
    random = run.random
    replica = _Replica(run)
    last = random.randint(2, 5)
    writes = [attempt for attempt in run.attempts if attempt.id.session == session]
    for attempt in sorted(writes, key=lambda attempt: attempt.sent):
        if random.random() < 0.3:
            source = Source.REPLICA if run.uses_replica else Source.PRIMARY
            at = max(0, attempt.sent - random.randint(0, 20 * MILLISECOND))
            _slot(run, replica, session, attempt.id.writer, source, at, last)


def _done(run: Simulation) -> Micros:
    """Return when everything has ended that will, and every outcome has arrived that does."""
    times = [0]
    operations: list[Attempt | Forget] = [*run.attempts, *run.forgets]
    for each in operations:
        times += [each.ended or 0, each.delivered_at or 0]
    times += [max(fault.ended, fault.caught_up or 0) + run.settle for fault in run.faults]
    end = max(times)
    return end + (run.contract.ttl or 0) if run.random.random() < 0.8 else end


def _slot(
    run: Simulation,
    replica: _Replica,
    session: int,
    reader: int,
    source: Source,
    at: Micros,
    last: int | None = None,
) -> Micros:
    """Add a read; return when it is over."""
    random = run.random
    returned = at + random.randint(1, 20 * MILLISECOND)
    raises = _outage(run, at, returned, source) is not None
    taken = random.randint(at, returned)
    position = replica.position(taken) if source is Source.REPLICA and not raises else taken
    if not raises or last is None:
        olds = _olds(run, (session, reader), taken) if source is Source.PRIMARY else ()
        run.slots.append(Slot(session, reader, source, at, taken, returned, position, last, raises, olds))
    return returned


def _olds(run: Simulation, client: tuple[int, int], taken: Micros) -> tuple[Failover, ...]:
    """Return the failovers of which the old primary answers a client; under a strict contract only the new one does."""
    strict = run.contract.strict_replica
    return tuple(
        one
        for one in run.failovers
        if taken < (one.promoted if strict else max(one.promoted, one.switches_at(client, run.random)))
    )


class _Replica:
    """Which position of the log the replica has reached: never older than before, but for faults."""

    def __init__(self, run: Simulation) -> None:
        self._run = run
        bound = run.contract.staleness
        self._lag_max = int(0.9 * bound) if bound is not None else 1500 * MILLISECOND
        self._reached = 0

    def position(self, now: Micros) -> Micros:
        random = self._run.random
        if not self._run.contract.strict_replica:
            for fault in self._run.faults:
                if fault.started <= now < (fault.caught_up or fault.ended):
                    older = max(0, fault.started - random.randint(0, SECOND))
                    self._reached = max(self._reached, older)
                    return older
        self._reached = max(self._reached, now - random.randint(0, self._lag_max))
        return self._reached
