"""The form in which a read is kept: what is exactly as written by its name, the rest as it came."""

from __future__ import annotations

import msgspec

from soak.checker.intervals import Intervals


class SavedItem(msgspec.Struct, frozen=True, omit_defaults=True):
    """One element that is not as written."""

    message: bytes | None = None
    """A message, in its stored form."""
    escaped: str | None = None
    """A message that has no stored form, such as one with half a character in it: its fields as escaped JSON."""
    raw: bytes | None = None
    """No message."""
    reason: str = ""


SavedRun = tuple[int, int, int]
"""Messages of the session as they were written, one after the other: (writer, first, last)."""


class SavedRead(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One read, kept so that it can be judged again."""

    invoked: int
    returned: int
    count: int
    acked: dict[int, Intervals] = {}
    items: list[SavedRun | SavedItem] = []
    cut: str = ""
    """Why this is not all of it; empty: it is."""
