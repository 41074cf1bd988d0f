"""The values of a judgement: what was read, what it is held against, and what is found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from soak.model.book import SessionBook
from soak.model.contract import Contract
from soak.model.intervals import Intervals
from soak.model.kinds import Kind
from soak.model.message import Message, Stored

Place = tuple[int, int]
"""A message of the session in hand: (writer, seq)."""


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
    place: Place | None
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
    fresh: list[Place]
    """New names in the order they stand, behind the verified part; all names if `replaces`."""
    replaces: bool
    """The verified part is not what it was: the order has to be taken anew."""
    awaited: list[Place]
    """Messages whose outcome has not arrived: the first of them and what follows wait for the next read."""
    spoiled: set[Place]
    """There, but not as written, or with something unreadable in their place: accounted for, and not verified."""

    @property
    def is_clean(self) -> bool:
        return not self.findings and not self.absent


def name_of(book: SessionBook, place: Place) -> str:
    return f"{book.session}/{place[0]}/{place[1]}"


def names_of(items: Sequence[Stored]) -> list[Place | None]:
    return [(item.writer, item.seq) if type(item) is Message else None for item in items]
