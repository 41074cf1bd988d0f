"""A read in the form in which it is kept: what is exactly as written by its name, the rest as it came.

Anyone who knows the run's seed can write a message again, so a name is enough for it. What differs from what was
written, or is no message at all, is kept byte for byte. A read with too much of that is cut, and says so: nothing is
derived from half a read.
"""

from __future__ import annotations

import json

import msgspec
from xxhash import xxh3_128_hexdigest

from soak.checker.identity import MISMADE, is_well_made
from soak.checker.message import Garbled, Message, Stored, garbled
from soak.checker.read import Read
from soak.checker.saved_read import SavedItem, SavedRead, SavedRun
from soak.checker.text import MessageGenerator

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
