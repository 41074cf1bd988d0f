"""What is known of the attempts to erase one session: those that have happened, are under way, or are in doubt.

What raced with a forget may be there or not. A forget of unknown outcome may still happen at any time. Several that
have happened count as one: what was applied before the last of them was sent is gone, and what was sent before the last
of them was answered may be.
"""

from __future__ import annotations

import msgspec

FORGET_US_MAX = 10_000_000
"""A forget without an outcome for so long is one whose worker died: it may happen at any time."""


class Forgets(msgspec.Struct, eq=False, gc=False, array_like=True):
    """The forgets of one session."""

    open: list[int] = []
    """When those were sent whose outcome is on its way."""
    sent: int = 0
    """When the last one was sent that has happened."""
    ended: int = 0
    """When the last one was answered that has happened; 0: none has."""
    is_undone: bool = False
    """A fault may have undone it; the next one that happens settles that."""
    may_happen: int = 0
    """When the first one was sent whose outcome is unknown; 0: there is none."""

    @property
    def is_certain(self) -> bool:
        """Whether one has happened, and no fault may have undone it."""
        return self.ended > 0 and not self.is_undone

    @property
    def is_in_doubt(self) -> bool:
        """Whether one was sent that may or may not have happened, now or later."""
        return bool(self.open) or self.may_happen > 0 or self.is_undone

    @property
    def in_doubt_since(self) -> int:
        """When the first one was sent that may or may not have happened."""
        return 0 if self.is_undone else min([*self.open, *([self.may_happen] if self.may_happen else ())], default=0)

    def is_awaited(self, at: int) -> bool:
        """Whether one is under way whose outcome is still to come: what is missing meanwhile proves nothing."""
        return any(at <= sent + FORGET_US_MAX for sent in self.open)

    def may_erase(self, sent: int) -> bool:
        """Whether one may have erased what was sent at this time, or may yet."""
        return self.may_happen > 0 or self.is_undone or sent <= self.ended

    def has_erased(self, applied: int) -> bool:
        """Whether one has certainly erased what had been applied by this time."""
        return self.is_certain and applied < self.sent

    def happened(self, sent: int, ended: int) -> bool:
        """Take in that one has happened; returns whether that says anything that was not known before."""
        if ended < self.sent:
            return False  # a later one has happened
        self.is_undone = self.is_undone and sent < self.sent
        self.sent, self.ended = max(self.sent, sent), max(self.ended, ended)
        return True
