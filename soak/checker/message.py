"""One message of a conversation, and its form in storage.

The name (run, session, writer, seq) travels inside the stored message together with a checksum, because
a store's own ids cannot be trusted: PostgreSQL hands out the same serial twice after a failover.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import NamedTuple

import msgspec


class Name(NamedTuple):
    """Which message this is: seq counts 1, 2, 3 ... per writer of a session."""

    run: str
    session: str
    writer: int
    seq: int

    def __str__(self) -> str:
        return f"{self.session}/{self.writer}/{self.seq}"


class Message(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a store is asked to remember: a role, a content, and the name they belong to."""

    run: str
    session: str
    writer: int
    seq: int
    role: str
    content: str
    checksum: int

    @property
    def name(self) -> Name:
        return Name(self.run, self.session, self.writer, self.seq)

    @property
    def is_intact(self) -> bool:
        """Whether the checksum that travelled along still fits the rest."""
        return self.checksum == checksum(self)

    def to_bytes(self) -> bytes:
        return _encoder.encode(self)

    @staticmethod
    def from_bytes(raw: bytes) -> Message:
        """Decode what `to_bytes` made; raises `ValueError` on anything else."""
        return _decoder.decode(raw)

    def to_json(self) -> str:
        return _json_encoder.encode(self).decode()

    @staticmethod
    def from_json(text: str | bytes) -> Message:
        return _json_decoder.decode(text)


class Garbled(msgspec.Struct, frozen=True, gc=False):
    """What a store returned in place of a message: kept as it came, so that it can be shown."""

    raw: bytes
    reason: str


Stored = Message | Garbled
"""One element of a history as read back."""

MISMADE = "a message whose fields are not what fields are"


def is_well_made(message: Message) -> bool:
    """Whether the fields are of their kinds: a store of the user's may have put anything into them."""
    texts = (message.run, message.session, message.role, message.content)
    numbers = (message.writer, message.seq, message.checksum)
    return all(type(text) is str for text in texts) and all(type(number) is int for number in numbers)


def shown(item: object) -> bytes:
    """Return anything as bytes that can be written down: a store of the user's may answer with things of any kind."""
    try:
        text = repr(item)
    except Exception as error:  # noqa: BLE001  whatever it is, it must not stop whoever reports it
        text = f"<{type(item).__name__} that cannot be shown: {type(error).__name__}>"
    return text.encode("utf-8", "backslashreplace")


def garbled(item: object, reason: str) -> Garbled:
    """Return what was read in place of a message, as it came if those are bytes; the reason is for what gives none."""
    if not isinstance(item, Garbled):
        return Garbled(raw=shown(item), reason=reason)
    raw: object = item.raw
    why: object = item.reason
    is_sound = isinstance(raw, bytes) and isinstance(why, str)
    return item if is_sound else Garbled(raw=raw if isinstance(raw, bytes) else shown(raw), reason=str(why))


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Message)
_json_encoder = msgspec.json.Encoder()
_json_decoder = msgspec.json.Decoder(Message)


def checksum_root(run: str, role: str) -> int:
    """Begin a checksum with what many messages share."""
    return zlib.crc32(f"{run}/{role}/".encode("utf-8", "surrogatepass"))


def checksum(message: Message) -> int:
    """Return the checksum that belongs to a message's name, role and content."""
    name = f"{message.session}/{message.writer}/{message.seq}".encode("utf-8", "surrogatepass")
    root = zlib.crc32(name, checksum_root(message.run, message.role))
    return zlib.crc32(message.content.encode("utf-8", "surrogatepass"), root)


def decode_history(raws: Sequence[bytes]) -> list[Stored]:
    """Decode a whole history; one bad row hides no other."""
    decode = _decoder.decode
    try:
        return [decode(raw) for raw in raws]
    except (ValueError, TypeError):
        return [_decode_or_garbled(raw) for raw in raws]


def _decode_or_garbled(raw: object) -> Stored:
    try:
        return _decoder.decode(raw)  # type: ignore[arg-type]
    except (ValueError, TypeError) as error:
        return Garbled(raw=raw if isinstance(raw, bytes) else shown(raw), reason=str(error))
