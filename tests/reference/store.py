"""A simulated store: a log of appends and forgets, and what a read at some moment shows of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.reference.failover import Failover
from tests.reference.history import Contract, Element, Expiry, Item, MessageId, Micros, Unreadable

NEVER: Micros = 10**18


@dataclass(slots=True)
class Op:
    """One write as it stands in the log."""

    at: Micros
    session: int
    message: MessageId | None
    """None: a forget."""
    rank: float = 0
    """Where it stands among others; the time at which it was applied, in a correct store with order."""
    lost_at: Micros = NEVER
    abandoned: Failover | None = None
    """The failover in which only the old primary had it."""
    altered_at: Micros = NEVER
    unreadable_at: Micros = NEVER
    hidden: tuple[Micros, Micros] = (NEVER, NEVER)
    moved: tuple[Micros, float] = (NEVER, 0)
    """From when on it stands somewhere else, and where."""

    def __post_init__(self) -> None:
        self.rank = self.rank or self.at

    def place(self, now: Micros) -> float:
        return self.moved[1] if self.moved[0] <= now else self.rank


@dataclass(slots=True)
class Store:
    """The log, kept in the order in which it was applied."""

    contract: Contract
    ops: list[Op] = field(default_factory=list)
    ttl: Micros | None = None

    def read(self, session: int, position: Micros, now: Micros, olds: Sequence[Failover] = ()) -> list[Op]:
        """Return what stands in a session at a position of the log (a replica's is behind), asked for now.

        `olds` are the failovers whose old primary answers.
        """
        standing: list[Op] = []
        born = last = 0
        ttl, retained = self.ttl, self.contract.retained
        is_sliding = self.contract.expiry is Expiry.SLIDING
        for op in self.ops:
            if op.session != session or op.at > position or op.lost_at <= position or not _is_on_branch(op, olds):
                continue
            if ttl is not None and standing and (last if is_sliding else born) + ttl <= op.at:
                standing = []
            if op.message is None:
                standing = []
                continue
            if not standing:
                born = op.at
            last = op.at
            standing.append(op)
            if retained is not None:
                del standing[:-retained]
        if ttl is not None and standing and (last if is_sliding else born) + ttl <= position:
            return []
        if any(op.hidden[0] <= now < op.hidden[1] for op in standing):
            standing = [op for op in standing if not op.hidden[0] <= now < op.hidden[1]]
        return sorted(standing, key=lambda op: op.place(now))


def _is_on_branch(op: Op, olds: Sequence[Failover]) -> bool:
    """Whether the node that answers has it: an old primary has nothing that came after the cut but its own."""
    if op.abandoned is not None:
        return op.abandoned in olds
    return not any(op.at > old.cut for old in olds)


def element(op: Op, now: Micros) -> Element:
    """Return how a read shows one write."""
    assert op.message is not None
    if op.unreadable_at <= now:
        return Unreadable(f"bytes of {op.message}")
    return Item(op.message, op.altered_at > now)
