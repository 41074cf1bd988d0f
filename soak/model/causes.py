"""The fixed list of causes, and how one is told."""

from __future__ import annotations

import enum
from typing import NamedTuple


class Cause(enum.Enum):
    """The fixed list of causes a violation is put down to."""

    EVICTION = "eviction"
    EXPIRY = "expiry"
    RESTART_WITHOUT_PERSISTENCE = "restart without persistence"
    UNSYNCED_TAIL = "unsynced tail"
    REPLICA_LAG = "replica lag"
    CONCURRENT_OVERWRITE = "concurrent overwrite"
    CLIENT_CLOCK = "client clock"
    RETRY = "retry"
    WIPED_VOLUME = "wiped volume"
    SERIALIZATION_CHANGE = "serialization change"
    SWALLOWED_ERROR = "swallowed error"
    UNKNOWN = "unknown"


class Explanation(NamedTuple):
    """A cause, what speaks for it, and what against."""

    cause: Cause
    facts: list[str]
    against: list[str]
