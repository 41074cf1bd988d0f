"""Which message of the session an item of a read is, and what is wrong with it taken by itself."""

from __future__ import annotations

import re

from xxhash import xxh3_128_hexdigest

from soak.checker.expected_session import ExpectedSession
from soak.checker.kinds import Kind
from soak.checker.message import Garbled, Message, Stored, garbled
from soak.checker.read import Finding, MessageId
from soak.checker.text import MessageGenerator

MISMADE = "a message whose fields are not what fields are"

_ADDRESS = re.compile(rb" at 0x[0-9a-f]+")


def identify(  # noqa: PLR0911  one answer a line reads better than one variable
    book: ExpectedSession, item: Stored, author: MessageGenerator, index: int
) -> tuple[MessageId | None, Finding | None]:
    """Tell which message of the session an item is, and what is wrong with it taken by itself."""
    if not isinstance(item, Message):
        return None, _undecodable(garbled(item, f"a {type(item).__name__}, not a message"), index)
    if not is_well_made(item):
        return None, _undecodable(garbled(item, MISMADE), index)
    name = str(item.name)
    if item.session != book.session or item.run != author.run:
        detail = f"belongs to session {item.session!r} of run {item.run!r}"
        if item.is_intact:
            return None, Finding(Kind.LEAKED, f"{item.run}:{name}", None, detail, index)
        return None, Finding(Kind.UNDECODABLE, f"{item.run}:{name}", None, "its name does not fit its checksum", index)
    place = (item.writer, item.seq)
    writer = book.find_writer(item.writer)
    if writer is None or not 0 < item.seq <= writer.leased:
        return None, Finding(Kind.PHANTOM, name, None, "no intent to send it was ever recorded", index)
    if item.seq in writer.failed:
        return place, Finding(Kind.PHANTOM, name, place, "its store had refused it", index)
    expected = author.write(item.session, item.writer, item.seq)
    if item != expected:
        return place, Finding(Kind.CORRUPTED, name, place, difference(expected, item), index)
    return place, None


def difference(expected: Message, got: Message) -> str:
    """Say in one line where two messages of one name part."""
    if expected.role != got.role:
        return f"role is {got.role!r}, not {expected.role!r}"
    if expected.content == got.content:
        return "checksum differs, role and content are right"
    want, have = expected.content, got.content
    at = next((i for i, (a, b) in enumerate(zip(want, have, strict=False)) if a != b), min(len(want), len(have)))
    if at == len(have):
        return f"content is cut after {len(have)} of {len(want)} characters"
    # Escaped: texts that differ only in how their characters are composed look the same.
    return f"content differs from character {at}: {have[at : at + 12]!a} in place of {want[at : at + 12]!a}"


def is_well_made(message: Message) -> bool:
    """Whether the fields are of their kinds: a store of the user's may have put anything into them."""
    texts = (message.run, message.session, message.role, message.content)
    numbers = (message.writer, message.seq, message.checksum)
    return all(type(text) is str for text in texts) and all(type(number) is int for number in numbers)


def _undecodable(item: Garbled, index: int) -> Finding:
    # Where a thing lies in memory is another place at every read: it is the same thing all the same.
    mark = xxh3_128_hexdigest(_ADDRESS.sub(b"", item.raw))[:12]
    return Finding(Kind.UNDECODABLE, f"bytes:{mark}", None, item.reason, index)
