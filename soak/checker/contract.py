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


class ReplicaReads(enum.Enum):
    """How a replica is held to its staleness bound, and to monotonic reads, while a fault keeps it back."""

    TOLERANT = "tolerant"
    """From the start of a fault of the replica, its primary or their link until it has caught up, it may be behind."""
    STRICT = "strict"


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


DURABILITY = ("crash_loss_seconds", "power_loss_seconds", "failover_loss_seconds")

_NOTHING_LOST = float("0")
"""An object of its own: a contract that holds it was made without naming the clause; another 0 was written down."""


class Contract(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The promises a store is held to; the defaults are the strictest. A choice may be written as text, too."""

    crash_loss_seconds: float | None = _NOTHING_LOST
    """Acknowledged tail that may vanish when the server's process dies; None: anything may (a cache)."""
    power_loss_seconds: float | None = _NOTHING_LOST
    """The same when the machine loses power."""
    failover_loss_seconds: float | None = _NOTHING_LOST
    """The same when a replica takes over before it has received everything."""
    order: Order = Order.REALTIME
    reads: Reads = Reads.READ_YOUR_WRITES
    staleness_seconds: float = 0.0
    """How far a read may lag behind, under bounded staleness."""
    replica_reads: ReplicaReads = ReplicaReads.TOLERANT
    duplicates: Duplicates = Duplicates.EXACTLY_ONCE
    search: Searches = Searches.EXACT
    ttl_seconds: float | None = None
    expiry: Expiry = Expiry.SLIDING
    retained_messages: int | None = None
    """The store keeps only the last so many messages of a session; None: all."""
    eviction_allowed: bool = False

    def __post_init__(self) -> None:
        for name, kind in _CHOICES.items():
            chosen = getattr(self, name)
            if type(chosen) is not kind:
                msgspec.structs.force_setattr(self, name, _choice(name, kind, chosen))
        for name in _NUMBERS:
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
                raise ValueError(f"{name} = {value!r} is not a number")

    @property
    def durability_named(self) -> frozenset[str]:
        """The clauses of durability that whoever made the contract has named; the others may be derived."""
        return frozenset(name for name in DURABILITY if getattr(self, name) is not _NOTHING_LOST)

    @property
    def staleness_us(self) -> int | None:
        """How long a read may go without showing what has happened, in microseconds; None: for ever."""
        if self.reads is Reads.EVENTUAL:
            return None
        return int(self.staleness_seconds * 1e6) if self.reads is Reads.BOUNDED_STALENESS else 0

    @property
    def loss_seconds_max(self) -> float:
        """The longest tail that any fault may take, where that is bounded."""
        return max(self.crash_loss_seconds or 0.0, self.power_loss_seconds or 0.0, self.failover_loss_seconds or 0.0)

    @property
    def drops_by_itself(self) -> bool:
        """Whether messages may rightly go without anybody asking for it: they expire, are trimmed, or evicted."""
        return self.ttl_seconds is not None or self.retained_messages is not None or self.eviction_allowed

    def clauses(self) -> dict[str, str]:
        """Each promise in words, for tables and evidence."""
        return {
            "durability": self._durability(),
            "order": self.order.value,
            "reads": self.reads.value
            + (f"({self.staleness_seconds:g}s)" if self.reads is Reads.BOUNDED_STALENESS else "")
            + (", also under faults" if self.replica_reads is ReplicaReads.STRICT else "")
            + (", approximate search" if self.search is Searches.APPROXIMATE else ""),
            "duplicates": self.duplicates.value,
            "retention": self._retention(),
        }

    def _durability(self) -> str:
        text = f"crash: {_loss(self.crash_loss_seconds)}; power cut: {_loss(self.power_loss_seconds)}"
        if self.failover_loss_seconds == self.crash_loss_seconds:
            return text  # a failover is a crash to most
        return f"{text}; failover: {_loss(self.failover_loss_seconds)}"

    def _retention(self) -> str:
        kept = "all" if self.retained_messages is None else f"last {self.retained_messages}"
        ttl = "no expiry" if self.ttl_seconds is None else f"{self.expiry.value} ttl {self.ttl_seconds:g}s"
        return f"{kept}, {ttl}, {'eviction allowed' if self.eviction_allowed else 'no eviction'}"


_CHOICES: dict[str, type[enum.Enum]] = {
    "order": Order,
    "reads": Reads,
    "duplicates": Duplicates,
    "search": Searches,
    "expiry": Expiry,
    "replica_reads": ReplicaReads,
}
_NUMBERS = (*DURABILITY, "staleness_seconds", "ttl_seconds", "retained_messages")


def _choice(name: str, kind: type[enum.Enum], chosen: object) -> enum.Enum:
    try:
        return kind(chosen)
    except ValueError:
        choices = ", ".join(one.value for one in kind)
        raise ValueError(f"{name} = {chosen!r} is no choice of a contract; choose from {choices}") from None


def _loss(seconds: float | None) -> str:
    if seconds is None:
        return "anything may be lost"
    return "nothing lost" if seconds == 0 else f"at most {seconds:g}s lost"
