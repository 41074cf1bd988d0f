"""The fixed list of causes, and what a diagnosis says."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from soak.checker.clues import Clues
from soak.checker.facts import AnyFact, Fact


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
    """A cause, the facts for it and against it, and what else is known."""

    cause: Cause
    facts: Sequence[Fact] = ()
    against: Sequence[Fact] = ()
    observed: Sequence[Fact] = ()
    """Facts about the message that speak for no cause."""
    clues: Clues | None = None
    """The evidence by which they hold."""

    @property
    def all_facts(self) -> list[Fact]:
        return [*self.facts, *self.against, *self.observed]


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """The facts of an explanation with their evidence, as a story keeps them."""

    facts: list[AnyFact]
    against: list[AnyFact]
    observed: list[AnyFact]
    clues: Clues
