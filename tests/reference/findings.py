"""The words of the reference judge: findings, obligations, and why something may or may not be reported."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import NamedTuple

from tests.reference.history import MessageId

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

SESSION_KINDS = frozenset({UNDECODABLE, WINDOW})
"""Found in a session as a whole: which message such a finding names is left to the checker."""


class Finding(NamedTuple):
    """A kind of violation, and the message it is about."""

    kind: str
    message: MessageId

    def __str__(self) -> str:
        return f"{self.kind} {self.message}"


def found(kind: str, message: MessageId) -> Finding:
    """Return a finding in its one spelling."""
    return Finding(kind, MessageId(message.session, 0, 0) if kind in SESSION_KINDS else message)


Obligation = frozenset[Finding]
"""At least one of these must be reported, and each of them may be."""

UNDECIDED = "undecided"
"""The evidence in the history proves neither a violation nor its absence. A correct store gives no reason to report."""


class Legit(enum.IntEnum):
    """Whether what a read shows is within the contract."""

    NO = 0
    PERHAPS = 1
    YES = 2


class Ruling(NamedTuple):
    """How legitimate something is; a PERHAPS has its reason: `UNDECIDED` or the id of a decision."""

    legit: Legit
    reason: str = UNDECIDED


NO = Ruling(Legit.NO)
YES = Ruling(Legit.YES)


def perhaps(reason: str = UNDECIDED) -> Ruling:
    return Ruling(Legit.PERHAPS, reason)


class Verdict(enum.Enum):
    VIOLATION = "violation certain"
    CLEAN = "none allowed"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class Judgement:
    """What must be reported, and what may be and why; everything else must not be reported."""

    must: frozenset[Obligation]
    may: dict[Finding, frozenset[str]]

    @property
    def verdict(self) -> Verdict:
        if self.must:
            return Verdict.VIOLATION
        return Verdict.UNDECIDED if self.may else Verdict.CLEAN

    def allows(self, finding: Finding, *, store_is_correct: bool) -> bool:
        """Whether the finding may be reported; nothing that is merely undecided may be held against a correct store."""
        if any(finding in obligation for obligation in self.must):
            return True
        reasons = self.may.get(finding, frozenset())
        return bool(reasons - {UNDECIDED}) if store_is_correct else bool(reasons)
