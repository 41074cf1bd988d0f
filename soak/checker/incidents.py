"""What is known only of a session to which something out of the ordinary happened.

What is not confirmed yet: messages that a read or a search lacked, and sessions whose reads raise. And which violations
have been reported, so that none is counted twice, and which of them are over.
"""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

import msgspec

from soak.checker.intervals import Intervals
from soak.checker.kinds import Kind
from soak.checker.outcome import Attempt
from soak.checker.read import SavedRead


class Suspicion(msgspec.Struct, kw_only=True):
    """What one read lacked although it had been acknowledged, or shown, before."""

    invoked: int
    """When the first read that lacked it was invoked."""
    returned: int
    last_seen: int = 0
    """When the last read before it was invoked: it had shown what is in `seen`."""
    items: int
    """How many items that read returned."""
    absent: dict[int, list[int]]
    """Bounds of the missing runs by writer."""
    seen: dict[int, list[int]]
    """Those of them that an earlier read had shown."""
    shown: SavedRead | None = None
    """What that read returned."""
    before: bytes = b""
    """What the read before it had shown, in its order, packed as in the book."""
    is_before_whole: bool = False
    """One full read had shown all of that."""
    last_lacked: int = 0
    """When the last read that lacked it was invoked; 0: there was only the first."""
    seen_in_shadow: bool = False
    """What had shown it was a read of a replica in the shadow of a fault, which may have been of long before."""
    seen_since: int = 0
    """And not of before this: until then, a primary that was being replaced had been the only one."""
    by_other: bool = False
    """Another reader had shown it: under a staleness bound, nobody is held to what others have seen."""
    by_primary: bool = False
    """The primary had shown it, which is behind nothing."""
    is_shadowed: bool = False
    """It was a read of a replica in the shadow of a fault: how fresh that is nobody promises."""
    is_lacked_by_primary: bool = False
    """The primary lacked all of it, too, which is behind nothing: whoever shows it later, it was missing."""
    witnessed: list[tuple[int, int, int]] = []
    """What others saw of it, which had survived the faults before that: (writer, seq, of when that was at least)."""

    @property
    def is_over(self) -> bool:
        return not any(self.absent.values())


class Missed(msgspec.Struct, frozen=True, kw_only=True):
    """A message that a wide search for its own words lacked, although a whole read before it had shown it."""

    place: tuple[int, int]
    invoked: int
    """When that search was invoked."""
    returned: int
    limit: int
    acknowledged: int = 0
    """When the message was acknowledged; 0: nobody knows any more."""
    answer: SavedRead

    def suspicion(self) -> Suspicion:
        """Return the same as a suspicion, the form of every absence."""
        writer, seq = self.place
        absent = {writer: [seq, seq]}
        return Suspicion(invoked=self.invoked, returned=self.returned, items=self.answer.count, absent=absent, seen={})


class Failing(msgspec.Struct, frozen=True, kw_only=True):
    """Reads of one session that raise, while those of others are answered."""

    first: int
    """When the first of them was invoked."""
    last: int
    count: int
    error: str
    """Type and text of the last exception."""


NAMES_MAX = 1_000
"""Foreign or nameless findings remembered per session, at most."""


class Counted(msgspec.Struct, array_like=True):
    """Which violations of one session have been counted, so that none is counted twice."""

    places: dict[Kind, dict[int, Intervals]] = {}
    names: set[str] = set()
    healed: dict[Kind, dict[int, Intervals]] = {}
    """Those that were over later."""
    names_healed: set[str] = set()

    def add_place(self, kind: Kind, writer: int, seq: int) -> bool:
        """Count a message once; returns whether it is new."""
        seqs = self.places.setdefault(kind, {}).setdefault(writer, Intervals())
        if seq in seqs:
            return False
        seqs.add(seq)
        return True

    def open_places(self, kind: Kind) -> dict[int, Intervals]:
        """Return the messages counted as this kind that are not over yet."""
        over = self.healed.get(kind, {})
        return {number: seqs.minus(over.get(number, Intervals())) for number, seqs in self.places.get(kind, {}).items()}

    def heal(self, kind: Kind, writer: int, seqs: Intervals) -> None:
        self.healed.setdefault(kind, {}).setdefault(writer, Intervals()).update(seqs)

    def reopen(self, kind: Kind, writer: int, seq: int) -> bool:
        """Note that one that was over is there again; returns False if it never was over."""
        healed = self.healed.get(kind, {}).get(writer)
        if healed is None or seq not in healed:
            return False
        self.healed[kind][writer] = healed.minus(Intervals([seq, seq]))
        return True

    def add(self, kind: Kind, writer: int | None, seq: int | None, name: str) -> bool:
        """Count a violation once, by the place of its message or else by its name; returns whether it is new."""
        return self.add_name(kind, name) if writer is None or seq is None else self.add_place(kind, writer, seq)

    def add_name(self, kind: Kind, name: str) -> bool:
        key = f"{kind.value}:{name}"
        if key in self.names or len(self.names) >= NAMES_MAX:
            return False
        self.names.add(key)
        return True

    def is_open_name(self, kind: Kind, name: str) -> bool:
        key = f"{kind.value}:{name}"
        return key in self.names and key not in self.names_healed

    def heal_name(self, kind: Kind, name: str) -> None:
        self.names_healed.add(f"{kind.value}:{name}")

    def reopen_name(self, kind: Kind, name: str) -> bool:
        """Note that one that was over is there again; returns False if it never was over."""
        key = f"{kind.value}:{name}"
        if key not in self.names_healed:
            return False
        self.names_healed.discard(key)
        return True


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
    shown_late: list[tuple[Attempt, int, int, bool]] | None = None
    """What one read lacked and the next showed, although it had been acknowledged before the first; the outcome came
    after both. With when the first one was invoked, and returned, and whether one before it had shown it."""
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
    is_blind: bool = False
    """What the last read showed without an outcome is not remembered: it may have been of before a forget, or of an
    earlier life."""
    is_order_open: bool = False
    """An acknowledgement came for what was verified without one: whether it stands in order is judged again."""
    explained: int = 0
    """Messages that are missing because something unreadable stands in their place: one row explains one, once."""
    unexplained: int = 0
    """Unreadable rows of the last read that explain no missing message yet."""
    searched: int = 0
    """How many searches for messages of it have been chosen, so that in time each has its turn."""
    fronts: list[tuple[int, int, int, int, int, int]] | None = None
    """Unknown writes that no read has shown yet: (writer, seq, when it was sent), and of the last message that had been
    acknowledged by then (writer, seq, when). Times are forgotten, and such a write may appear at any time."""
    glanced: list[tuple[int, int]] | None = None
    """What the last read showed of which nothing but the order is remembered, because `is_blind`."""
    answered: list[tuple[int, int, int]] | None = None
    """What the primary showed when it was asked last, and nobody had acknowledged: (writer, seq, when it was asked)."""


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
