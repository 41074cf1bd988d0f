"""A read of a session: as it is judged, what is found by it, and the form in which it is kept.

Anyone who knows the run's seed can write a message again, so a kept read holds only the names of what is exactly as
written. What differs from that, or is no message at all, is kept byte for byte. A read with too much of it is cut, and
says so: nothing is derived from half a read.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
from xxhash import xxh3_128_hexdigest

from soak.checker.contract import Contract
from soak.checker.intervals import Intervals
from soak.checker.kinds import Kind
from soak.checker.message import MISMADE, Garbled, Message, Stored, garbled, is_well_made
from soak.checker.text import MessageGenerator

MessageId = tuple[int, int]
"""A message of the session in hand: (writer, seq)."""


Run = tuple[int, int, int]
"""Messages of one writer that stand one behind the other: (writer, first seq, last seq)."""


class Read(msgspec.Struct, frozen=True, kw_only=True):
    """One read of a whole session: what was known when it was invoked, and what came back."""

    invoked: int
    returned: int
    acked: dict[int, Intervals]
    items: Sequence[Stored]


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """What the judgement goes by besides the book."""

    contract: Contract
    ttl_epsilon_us: int = 1_000_000
    clock_epsilon_us: int = 0
    """Widens every "before" when the times come from more than one host."""


class Finding(NamedTuple):
    """Something wrong with one message, in one line."""

    kind: Kind
    message: str
    """Which message, by its whole name, or a mark of its bytes if it has none."""
    place: MessageId | None
    """The same as (writer, seq), when it is a message of this session."""
    detail: str
    at: int
    """Where it stands in the read, from 0."""


class Judgement(NamedTuple):
    """What a read says: what is wrong, what is missing, and what stands."""

    findings: list[Finding]
    absent: dict[int, Intervals]
    """Acknowledged before the read, not in it, and not excused."""
    excused: dict[int, Intervals]
    """Absent, and rightly so by the contract's retention or a forget."""
    fresh: list[Run]
    """New names in the order they stand, behind the verified part; all names if `replaces`."""
    replaces: bool
    """The verified part is not what it was: the order has to be taken anew."""
    unsettled: list[MessageId]
    """Behind the verified part, from the first message whose outcome has not arrived on, in order."""
    spoiled: set[MessageId]
    """There, but not as written, or with something unreadable in their place: accounted for, and not verified."""
    is_undecided: bool = False
    """What is missing may be missing by right, for all that is known yet: nothing is concluded from that."""
    digest: bytes = b""
    """Of all items, if it was made on the way."""

    @property
    def is_clean(self) -> bool:
        return not self.findings and not self.absent


def names_of(items: Sequence[Stored]) -> list[MessageId | None]:
    return [(item.writer, item.seq) if type(item) is Message else None for item in items]


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


RAW_BYTES_MAX = 1024 * 1024
"""Bytes of one read that are kept because they are not as written, at most."""

SEGMENTS_MAX = 50_000
"""Runs and single items of one read, at most."""


def save(read: Read, session: str, author: MessageGenerator) -> SavedRead:
    """Return the form of a read that is kept."""
    items: list[SavedRun | SavedItem] = []
    raw_bytes = 0
    cut = ""
    for item in read.items:
        if type(item) is Message and item.session == session and _is_as_written(item, author):
            last = items[-1] if items else None
            if isinstance(last, tuple) and last[0] == item.writer and last[2] == item.seq - 1:
                items[-1] = (last[0], last[1], item.seq)
            else:
                items.append((item.writer, item.seq, item.seq))
        else:
            kept = _save_item(item)
            raw_bytes += len(kept.message or kept.raw or kept.escaped or "")
            if raw_bytes > RAW_BYTES_MAX:
                cut = f"more than {RAW_BYTES_MAX} bytes of it are not as they were written"
                break
            items.append(kept)
        if len(items) > SEGMENTS_MAX:
            cut = f"it falls into more than {SEGMENTS_MAX} pieces"
            break
    return SavedRead(
        invoked=read.invoked, returned=read.returned, count=len(read.items), acked=read.acked, items=items, cut=cut
    )


def count_of(saved: SavedRead) -> int:
    """Count the items that a kept read holds."""
    return sum(1 if isinstance(item, SavedItem) else item[2] - item[1] + 1 for item in saved.items)


def restore(saved: SavedRead, session: str, author: MessageGenerator) -> Read:
    """Return the read as it was judged."""
    items: list[Stored] = []
    for item in saved.items:
        if isinstance(item, SavedItem):
            items.append(_restore_item(item))
        else:
            writer, first, last = item
            items.extend(author.write(session, writer, seq) for seq in range(first, last + 1))
    return Read(invoked=saved.invoked, returned=saved.returned, acked=saved.acked, items=items)


def names_in(saved: SavedRead, session: str, run: str | None = None) -> list[str]:
    """Name each element of a kept read: `writer/seq` for a message of the session, something longer for the rest.

    Where the run is named, a message of another run is none of the session.
    """
    names: list[str] = []
    for item in saved.items:
        if isinstance(item, SavedItem):
            names.append(_name_of(item, session, run))
        else:
            names.extend(f"{item[0]}/{seq}" for seq in range(item[1], item[2] + 1))
    return names


def _name_of(item: SavedItem, session: str, run: str | None) -> str:
    stored = _restore_item(item)
    if isinstance(stored, Garbled):
        return f"bytes:{xxh3_128_hexdigest(stored.raw)}"
    if stored.session == session and run in (None, stored.run):
        return f"{stored.writer}/{stored.seq}"
    return f"{stored.run}:{stored.name}"


def _is_as_written(item: Message, author: MessageGenerator) -> bool:
    try:
        return item.run == author.run and author.is_mine(item)
    except (TypeError, ValueError, OverflowError):
        return False  # a store of the user's made it of things no message is made of


def _save_item(item: object) -> SavedItem:
    if not isinstance(item, Message) or not is_well_made(item):
        kept = garbled(item, MISMADE if isinstance(item, Message) else f"a {type(item).__name__}, not a message")
        return SavedItem(raw=kept.raw, reason=kept.reason)
    try:
        raw = item.to_bytes()
        if Message.from_bytes(raw) == item:
            return SavedItem(message=raw)
    except (TypeError, ValueError, OverflowError):
        pass  # half a character, or a number that no store could hold
    return SavedItem(escaped=json.dumps(msgspec.structs.astuple(item)))


def _restore_item(item: SavedItem) -> Stored:
    if item.message is not None:
        return Message.from_bytes(item.message)
    if item.escaped is not None:
        return Message(*json.loads(item.escaped))
    return Garbled(raw=item.raw or b"", reason=item.reason)
