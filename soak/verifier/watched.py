"""A session under watch: its book, and where it stands in the verifier's rounds."""

from __future__ import annotations

import msgspec

from soak.model.absence import Suspicion
from soak.model.book import SessionBook
from soak.model.intervals import Intervals
from soak.model.kinds import Kind
from soak.model.search import Missed

NAMES_MAX = 1_000
"""Foreign or nameless findings remembered per session, at most."""


class Counted(msgspec.Struct, array_like=True):
    """Which violations of one session have been counted, so that none is counted twice."""

    places: dict[Kind, dict[int, Intervals]] = {}
    names: set[str] = set()
    healed: dict[Kind, dict[int, Intervals]] = {}
    """Those that were over later."""

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


class Watched(msgspec.Struct, eq=False, gc=False, array_like=True):
    """One session in the verifier's care. It holds no reference back to what holds it, so it needs no collector."""

    book: SessionBook
    worker: str
    number: int
    last_whole: int = 0
    """When the last whole read that was judged had been invoked; 0: there was none yet."""
    closed_at: int = 0
    recalls: int = 0
    """How many of the recall ages it has been read at since it closed."""
    hot: bool = False
    not_before: int = 0
    """It was just looked at: it is not looked at again before this."""
    busy: bool = False
    tainted: bool = False
    """The ledger has a gap that touches it: nothing can be claimed about it any more."""
    retired: bool = False
    visit_slot: int = 0
    """Where its next visit stands in the lane's diary; 0: none is planned."""
    suspicions: list[Suspicion] | None = None
    counted: Counted | None = None
    canary: bool = False
    """A session of the verifier's own, spoiled on purpose: what is wrong with it is no violation."""

    searched: int = 0
    """How many searches for messages of it have been chosen, so that in time each has its turn."""
    missed: list[Missed] | None = None
    """What a search for its own words did not show, waiting for another look."""

    @property
    def is_in_doubt(self) -> bool:
        """Whether something is missing, from a read or from a search, that is not confirmed yet."""
        return bool(self.suspicions or self.missed)

    @property
    def is_closed(self) -> bool:
        return self.closed_at > 0

    def count_place(self, kind: Kind, writer: int, seq: int) -> bool:
        if self.counted is None:
            self.counted = Counted()
        return self.counted.add_place(kind, writer, seq)

    def count_name(self, kind: Kind, name: str) -> bool:
        if self.counted is None:
            self.counted = Counted()
        return self.counted.add_name(kind, name)
