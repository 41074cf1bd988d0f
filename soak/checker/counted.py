"""Which violations of one session have been reported, so that none is counted twice, and which of them are over."""

from __future__ import annotations

import msgspec

from soak.checker.intervals import Intervals
from soak.checker.kinds import Kind

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
