"""The ways in which a memory can be wrong."""

from __future__ import annotations

import enum


class Kind(enum.Enum):
    """What was found; the sentence is what it means to the person whose memory it was."""

    LOST = "lost"
    ROLLED_BACK = "rolled_back"
    STALE = "stale"
    NON_MONOTONIC = "non_monotonic"
    REORDERED = "reordered"
    DUPLICATED = "duplicated"
    CORRUPTED = "corrupted"
    UNDECODABLE = "undecodable"
    PHANTOM = "phantom"
    LEAKED = "leaked"
    RESURRECTED = "resurrected"
    WINDOW = "window"
    UNFINDABLE = "unfindable"

    @property
    def sentence(self) -> str:
        return _SENTENCES[self]

    @property
    def clause(self) -> str:
        """The clause of the contract that it breaks."""
        return _CLAUSES[self]


_SENTENCES = {
    Kind.LOST: "an acknowledged message is gone",
    Kind.ROLLED_BACK: "a message that had been read is gone",
    Kind.STALE: "a read did not show an acknowledged message that a later read shows",
    Kind.NON_MONOTONIC: "a reader saw less, or something else, than it had seen before",
    Kind.REORDERED: "messages stand in an order in which they were not said",
    Kind.DUPLICATED: "a message stands more often than it was sent",
    Kind.CORRUPTED: "role or content differs from what was written",
    Kind.UNDECODABLE: "what was read back is no message",
    Kind.PHANTOM: "a message was never sent, or was refused, and is there",
    Kind.LEAKED: "a message of another session or run is there",
    Kind.RESURRECTED: "a forgotten or expired message is there again",
    Kind.WINDOW: "a read of the last messages did not return the last messages",
    Kind.UNFINDABLE: "a message is stored, and a search for its own words does not find it",
}

_CLAUSES = {
    Kind.LOST: "durability",
    Kind.ROLLED_BACK: "durability",
    Kind.STALE: "reads",
    Kind.NON_MONOTONIC: "reads",
    Kind.REORDERED: "order",
    Kind.DUPLICATED: "duplicates",
    Kind.CORRUPTED: "durability",
    Kind.UNDECODABLE: "durability",
    Kind.PHANTOM: "durability",
    Kind.LEAKED: "isolation",
    Kind.RESURRECTED: "retention",
    Kind.WINDOW: "reads",
    Kind.UNFINDABLE: "reads",
}
