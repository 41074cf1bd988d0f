"""What is known only of a session to which something out of the ordinary happened."""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

import msgspec

from soak.checker.attempt import Attempt
from soak.checker.counted import Counted
from soak.checker.suspicion import Failing, Missed, Suspicion

Value = TypeVar("Value")


class Incidents(msgspec.Struct, eq=False, gc=False, array_like=True):
    """What is known only of a session to which something out of the ordinary happened."""

    suspicions: list[Suspicion] | None = None
    """What reads lacked, waiting to be confirmed."""
    missed: list[Missed] | None = None
    """What a search for its own words did not show, waiting for another look."""
    dirty: list[tuple[int, int, int]] | None = None
    """Shown by a read, and refused as it turned out: (writer, seq, when). To be reported by the next judgement."""
    overlooked: list[Attempt] | None = None
    """Acknowledged before the last read was invoked, and not shown by it; the outcome came only afterwards."""
    shown_late: list[tuple[Attempt, int, int]] | None = None
    """What one read lacked and the next showed, although it had been acknowledged before the first; the outcome came
    after both. With when the first one was invoked, and returned."""
    revived: list[tuple[int, int]] | None = None
    """What a read showed that was invoked after it had been forgotten; the outcome of the forget came afterwards."""
    veiled: list[tuple[int, int, int]] | None = None
    """Shown by an earlier read, and missing since a forget was sent whose outcome is still to come: (writer, seq, when
    the last read that showed it was invoked)."""
    glimpsed: list[tuple[int, int, int]] | None = None
    """Shown by a read before the outcome came, and gone from a later one: (writer, seq, when it was seen)."""
    failing: Failing | None = None
    """Reads of this session that raise, one after the other."""
    counted: Counted | None = None
    """Which violations were reported already."""
    explained: int = 0
    """Messages that are missing because something unreadable stands in their place: one row explains one, once."""
    unexplained: int = 0
    """Unreadable rows of the last read that explain no missing message yet."""
    searched: int = 0
    """How many searches for messages of it have been chosen, so that in time each has its turn."""


class _HasIncidents(Protocol):
    incidents: Incidents | None


class Noted(Generic[Value]):
    """An attribute that is kept with the incidents of a book, and costs nothing where there are none."""

    def __init__(self, nothing: Value) -> None:
        self._nothing = nothing

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, book: _HasIncidents, owner: type) -> Value:
        value: Value = self._nothing if book.incidents is None else getattr(book.incidents, self._name)
        return value

    def __set__(self, book: _HasIncidents, value: Value) -> None:
        if book.incidents is None:
            if value == self._nothing:
                return
            book.incidents = Incidents()
        setattr(book.incidents, self._name, value)
