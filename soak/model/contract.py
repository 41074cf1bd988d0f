"""What a store, as configured, promises. Loss inside the contract is tolerated, loss outside is a violation."""

from __future__ import annotations

import enum

import msgspec


class Order(enum.Enum):
    """Which orders of messages in a history the store promises to keep."""

    REALTIME = "realtime"
    """What was acknowledged before something else was sent stands before it, whoever wrote the two."""
    PER_WRITER = "per_writer"
    NONE = "none"


class Reads(enum.Enum):
    """How fresh a read is promised to be."""

    READ_YOUR_WRITES = "read_your_writes"
    BOUNDED_STALENESS = "bounded_staleness"
    EVENTUAL = "eventual"


class Duplicates(enum.Enum):
    """How often one append may stand in the history."""

    EXACTLY_ONCE = "exactly_once"
    AT_LEAST_ONCE = "at_least_once"


class Searches(enum.Enum):
    """What a search for a message's own words is promised to show, in a memory that is searched."""

    EXACT = "exact"
    """That message, or others that say the same."""
    APPROXIMATE = "approximate"
    """Nearly always that message: how often it does is measured, and a miss breaks no promise."""


class Expiry(enum.Enum):
    """What a time to live counts from."""

    SLIDING = "sliding"
    """The last append of the session."""
    ABSOLUTE = "absolute"
    """The first append of the session."""


class Contract(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The promises a store is held to; the defaults are the strictest."""

    crash_loss_seconds: float | None = 0.0
    """Acknowledged tail that may vanish when the server's process dies; None: anything may (a cache)."""
    power_loss_seconds: float | None = 0.0
    """The same when the machine loses power."""
    order: Order = Order.REALTIME
    reads: Reads = Reads.READ_YOUR_WRITES
    staleness_seconds: float = 0.0
    """How far a read may lag behind, under bounded staleness."""
    duplicates: Duplicates = Duplicates.EXACTLY_ONCE
    search: Searches = Searches.EXACT
    ttl_seconds: float | None = None
    expiry: Expiry = Expiry.SLIDING
    retained_messages: int | None = None
    """The store keeps only the last so many messages of a session; None: all."""
    eviction_allowed: bool = False

    @property
    def staleness_us(self) -> int | None:
        """How long a read may go without showing what has happened, in microseconds; None: for ever."""
        if self.reads is Reads.EVENTUAL:
            return None
        return int(self.staleness_seconds * 1e6) if self.reads is Reads.BOUNDED_STALENESS else 0

    def clauses(self) -> dict[str, str]:
        """Each promise in words, for tables and evidence."""
        return {
            "durability": f"crash: {_loss(self.crash_loss_seconds)}; power cut: {_loss(self.power_loss_seconds)}",
            "order": self.order.value,
            "reads": self.reads.value
            + (f"({self.staleness_seconds:g}s)" if self.reads is Reads.BOUNDED_STALENESS else "")
            + (", approximate search" if self.search is Searches.APPROXIMATE else ""),
            "duplicates": self.duplicates.value,
            "retention": self._retention(),
        }

    def _retention(self) -> str:
        kept = "all" if self.retained_messages is None else f"last {self.retained_messages}"
        ttl = "no expiry" if self.ttl_seconds is None else f"{self.expiry.value} ttl {self.ttl_seconds:g}s"
        return f"{kept}, {ttl}, {'eviction allowed' if self.eviction_allowed else 'no eviction'}"


def _loss(seconds: float | None) -> str:
    if seconds is None:
        return "anything may be lost"
    return "nothing lost" if seconds == 0 else f"at most {seconds:g}s lost"
