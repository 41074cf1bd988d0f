"""Authors whose texts are chosen: easy words, the same words again, or hard ones only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

import msgspec
from xxhash import xxh3_64_hexdigest

from soak.checker.message import Message, Stored, checksum
from soak.checker.text import ROLES, MessageGenerator


class PlainSpeaker(MessageGenerator):
    """Says easy words: a trial of order or loss must not also be one of hard text."""

    def __init__(self, run: str, seed: int) -> None:
        super().__init__(run, seed)
        self._number = seed

    def text(self, session: str, writer: int, seq: int) -> str:
        mark = xxh3_64_hexdigest(f"{session}/{writer}/{seq}".encode("utf-8", "surrogatepass"), self._number)
        return f"Please remember the number {mark}."

    def write(self, session: str, writer: int, seq: int) -> Message:
        text = self.text(session, writer, seq)
        bare = Message(self.run, session, writer, seq, ROLES[(seq + 1) & 1], text, 0)
        return msgspec.structs.replace(bare, checksum=checksum(bare))

    def is_mine(self, message: Message) -> bool:
        return message == self.write(message.session, message.writer, message.seq)

    def matches(self, items: Sequence[Stored], session: str) -> TypeGuard[Sequence[Message]]:
        return all(isinstance(item, Message) and item.session == session and self.is_mine(item) for item in items)


class Reciter(PlainSpeaker):
    """Says given texts in turn. The n-th message of every writer has the n-th text."""

    def __init__(self, run: str, seed: int, texts: Sequence[str]) -> None:
        super().__init__(run, seed)
        self._texts = tuple(texts)

    def text(self, session: str, writer: int, seq: int) -> str:
        del session, writer
        return self._texts[(seq - 1) % len(self._texts)]
