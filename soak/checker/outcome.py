"""What the ledger says about one session: how appends and forgets ended, what was leased, that it was closed."""

from __future__ import annotations

import enum
from typing import Annotated

import msgspec


class Outcome(enum.IntEnum):
    """Three outcomes, not two: a reply that never came says nothing about the write."""

    OK = 0
    """The store acknowledged it."""
    FAILED = 1
    """It cannot have been applied: refused before sending, or an error known to mean "not executed"."""
    UNKNOWN = 2
    """Everything else. It may appear now, later, after the next restart, or never."""


class NotApplied(Exception):  # noqa: N818  the model's word for it, raised by users' own stores
    """Raised by a store's append when the write certainly did not and will not happen."""


WRITERS_MAX = 4_096
"""Writers of one session, at most: what speaks of more is no record of ours, and must not cost memory."""

WriterNumber = Annotated[int, msgspec.Meta(ge=0, lt=WRITERS_MAX)]
Seq = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
OutcomeNumber = Annotated[int, msgspec.Meta(ge=0, le=2)]


class Attempt(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How one append ended; sent and ended are microseconds around the store's call."""

    session: int
    writer: WriterNumber
    seq: Seq
    outcome: OutcomeNumber
    sent: int
    ended: int


class Leased(msgspec.Struct, frozen=True):
    """The intent to send every message of a writer up to and including this seq."""

    writer: int
    upto: int


class ForgetBegun(msgspec.Struct, frozen=True):
    """The session is about to be erased."""

    sent: int


class ForgetEnded(msgspec.Struct, frozen=True):
    """How erasing the session ended."""

    outcome: Outcome
    sent: int
    ended: int


class Closed(msgspec.Struct, frozen=True):
    """The session has ended; it is certain that nothing of it is under way only if its worker says so."""

    is_certain: bool


LedgerEvent = Attempt | Leased | ForgetBegun | ForgetEnded | Closed
