"""What the ledger says about one session, in the form in which the checker takes it."""

from __future__ import annotations

import msgspec

from soak.checker.attempt import Attempt
from soak.checker.outcome import Outcome


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
