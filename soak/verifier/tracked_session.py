"""A session under watch: its book, and where it stands in the verifier's rounds."""

from __future__ import annotations

import msgspec

from soak.checker.expected_session import ExpectedSession
from soak.checker.incidents import Counted, Suspicion


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
    tainted: bool = False
    """The ledger has a gap that touches it: nothing can be claimed about it any more."""
    retired: bool = False
    visit_slot: int = 0
    """Where its next visit stands in the lane's timers; 0: none is planned."""
    canary: bool = False
    """A session of the verifier's own, spoiled on purpose: what is wrong with it is no violation."""

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
