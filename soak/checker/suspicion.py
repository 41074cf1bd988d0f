"""What is not confirmed yet: messages that a read or a search lacked, and sessions whose reads raise."""

from __future__ import annotations

import msgspec

from soak.checker.saved_read import SavedRead


class Suspicion(msgspec.Struct, kw_only=True):
    """What one read lacked although it had been acknowledged, or shown, before."""

    invoked: int
    """When the first read that lacked it was invoked."""
    returned: int
    last_seen: int = 0
    """When the last read before it was invoked: it had shown what is in `seen`."""
    items: int
    """How many items that read returned."""
    absent: dict[int, list[int]]
    """Bounds of the missing runs by writer."""
    seen: dict[int, list[int]]
    """Those of them that an earlier read had shown."""
    shown: SavedRead | None = None
    """What that read returned."""
    before: bytes = b""
    """The order that had been verified before it, packed as in the book."""
    last_lacked: int = 0
    """When the last read that lacked it was invoked; 0: there was only the first."""
    seen_in_shadow: bool = False
    """What had shown it was a read of a replica in the shadow of a fault, which may have been of long before."""
    is_shadowed: bool = False
    """It was a read of a replica in the shadow of a fault: how fresh that is nobody promises."""

    @property
    def is_over(self) -> bool:
        return not any(self.absent.values())


class Missed(msgspec.Struct, frozen=True, kw_only=True):
    """A message that a wide search for its own words lacked, although a whole read before it had shown it."""

    place: tuple[int, int]
    invoked: int
    """When that search was invoked."""
    returned: int
    limit: int
    acknowledged: int = 0
    """When the message was acknowledged; 0: nobody knows any more."""
    answer: SavedRead

    def suspicion(self) -> Suspicion:
        """Return the same in the form in which every absence is told."""
        writer, seq = self.place
        absent = {writer: [seq, seq]}
        return Suspicion(invoked=self.invoked, returned=self.returned, items=self.answer.count, absent=absent, seen={})


class Failing(msgspec.Struct, frozen=True, kw_only=True):
    """Reads of one session that raise, while those of others are answered."""

    first: int
    """When the first of them was invoked."""
    last: int
    count: int
    error: str
    """Type and text of the last exception."""
