"""The values of a judgement: what was read, what it is held against, and what is found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from soak.checker.contract import Contract
from soak.checker.expected_session import ExpectedSession
from soak.checker.intervals import Intervals
from soak.checker.kinds import Kind
from soak.checker.message import Message, Stored

MessageId = tuple[int, int]
"""A message of the session in hand: (writer, seq)."""


Run = tuple[int, int, int]
"""Messages of one writer that stand one behind the other: (writer, first seq, last seq)."""


class Read(msgspec.Struct, frozen=True, kw_only=True):
    """One read of a whole session: what was known when it was invoked, and what came back."""

    invoked: int
    returned: int
    acked: dict[int, Intervals]
    items: Sequence[Stored]


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """What the judgement goes by besides the book."""

    contract: Contract
    ttl_epsilon_us: int = 1_000_000
    clock_epsilon_us: int = 0
    """Widens every "before" when the times come from more than one host."""


class Finding(NamedTuple):
    """Something wrong with one message, told in one line."""

    kind: Kind
    message: str
    """Which message, by its whole name, or a mark of its bytes if it has none."""
    place: MessageId | None
    """The same as (writer, seq), when it is a message of this session."""
    detail: str
    at: int
    """Where it stands in the read, from 0."""


class Judgement(NamedTuple):
    """What a read says: what is wrong, what is missing, and what stands."""

    findings: list[Finding]
    absent: dict[int, Intervals]
    """Acknowledged before the read, not in it, and not excused."""
    excused: dict[int, Intervals]
    """Absent, and rightly so by the contract's retention or a forget."""
    fresh: list[Run]
    """New names in the order they stand, behind the verified part; all names if `replaces`."""
    replaces: bool
    """The verified part is not what it was: the order has to be taken anew."""
    unsettled: list[MessageId]
    """Behind the verified part, from the first message whose outcome has not arrived on, in order."""
    spoiled: set[MessageId]
    """There, but not as written, or with something unreadable in their place: accounted for, and not verified."""
    is_undecided: bool = False
    """What is missing may be missing by right, for all that is known yet: nothing is concluded from that."""
    digest: bytes = b""
    """Of all items, if it was made on the way."""

    @property
    def is_clean(self) -> bool:
        return not self.findings and not self.absent


def name_of(book: ExpectedSession, place: MessageId) -> str:
    return f"{book.session}/{place[0]}/{place[1]}"


def names_of(items: Sequence[Stored]) -> list[MessageId | None]:
    return [(item.writer, item.seq) if type(item) is Message else None for item in items]
