"""A session under watch: its book, and where it stands in the verifier's rounds."""

from __future__ import annotations

import enum
from typing import NamedTuple

import msgspec

from soak.checker.expected_session import ExpectedSession
from soak.checker.incidents import Counted, Suspicion
from soak.checker.kinds import Kind

CANARY_WORKER = "canary"
"""In the place of a worker, for the sessions of the verifier's own."""


class Taint(enum.IntEnum):
    """Why nothing can be claimed about a session any more."""

    NONE = 0
    GAP = 1
    """The ledger has a gap that touches it."""
    UNDECIDED = 2
    """Its times cannot be compared with those of other hosts, or of its server: a clock is uncertain, or was set."""


class TrackedSession(msgspec.Struct, eq=False, gc=False, array_like=True):
    """One session in the verifier's care. It holds no reference back to what holds it, so it needs no collector."""

    book: ExpectedSession
    worker: str
    number: int
    closed_at: int = 0
    recalls: int = 0
    """How many of the recall ages it has been read at since it closed."""
    hot: bool = False
    not_before: int = 0
    """It was just looked at: it is not looked at again before this."""
    busy: bool = False
    queued: bool = False
    tainted: Taint = Taint.NONE
    retired: bool = False
    visit_slot: int = 0
    """Where its next visit stands in the lane's timers; 0: none is planned."""

    @property
    def canary(self) -> bool:
        """Whether it is a session of the verifier's own, spoiled on purpose: what is wrong with it is no violation."""
        return self.worker == CANARY_WORKER

    @property
    def last_whole(self) -> int:
        return self.book.last_whole

    @property
    def suspicions(self) -> list[Suspicion] | None:
        return self.book.suspicions

    @property
    def counted(self) -> Counted | None:
        return self.book.counted

    @property
    def is_in_doubt(self) -> bool:
        return self.book.is_in_doubt

    @property
    def is_closed(self) -> bool:
        return self.closed_at > 0


# Where the reporter leaves what it found in a canary session, in place of counting it.


RINGS_MAX = 64
"""Remembered per canary, at most; the first few say all there is to say."""


class Ring(NamedTuple):
    """One report about a canary: what it was taken for, and which message was named."""

    kind: Kind
    message: str


class Rings:
    """What was reported about the canaries that are under way."""

    def __init__(self) -> None:
        self._heard: dict[TrackedSession, list[Ring]] = {}

    def listen(self, tracked: TrackedSession) -> None:
        self._heard[tracked] = []

    def rang(self, tracked: TrackedSession, kind: Kind, message: str) -> None:
        """Take in a report; one about a canary that is over is of no interest any more."""
        heard = self._heard.get(tracked)
        if heard is not None and len(heard) < RINGS_MAX:
            heard.append(Ring(kind, message))

    def heard(self, tracked: TrackedSession) -> list[Ring]:
        return self._heard.get(tracked, [])

    def stop_listening(self, tracked: TrackedSession) -> None:
        self._heard.pop(tracked, None)
