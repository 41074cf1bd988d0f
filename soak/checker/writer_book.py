"""What is expected of one writer's messages: sets of sequence numbers, by what became of each."""

from __future__ import annotations

import msgspec

from soak.checker.intervals import Intervals

NOTHING = Intervals()
"""Stands for an empty set that was never needed; it is only ever read."""


class WriterBook(msgspec.Struct, gc=False, array_like=True):
    """What is expected of one writer's messages."""

    leased: int
    acked: Intervals
    standing: Intervals
    failed: Intervals
    unknown: Intervals
    excused: Intervals
    gone: Intervals
    """Acknowledged as forgotten: it must not be seen again."""

    @classmethod
    def new(cls) -> WriterBook:
        return cls(0, Intervals(), Intervals(), NOTHING, NOTHING, NOTHING, NOTHING)

    def is_in_flight(self, seq: int) -> bool:
        return seq not in self.acked and seq not in self.unknown and seq not in self.failed

    def may_stand(self, seq: int) -> bool:
        """Whether its outcome is known, and no refusal."""
        return seq in self.acked or seq in self.unknown

    def bears_order(self, seq: int) -> bool:
        """Whether it was acknowledged before the same writer's next message was sent."""
        return seq in self.acked and seq not in self.unknown

    def excuse(self, seqs: Intervals) -> None:
        self.excused = united(self.excused, seqs)


def united(one: Intervals, other: Intervals) -> Intervals:
    """Return the union; the first set is changed in place unless it is the shared empty one."""
    if not other:
        return one
    if one is NOTHING:
        return other.copy()
    one.update(other)
    return one
