"""Cleaned before it is kept."""

from __future__ import annotations

import msgspec

from soak.checker.causes import Cause
from soak.checker.kinds import Kind
from soak.flaws.flaw import Flaw, Load, same_server
from soak.flaws.redis_memory import RedisMemory
from soak.stores import Message

CHARACTERS_MAX = 8_000


class LossyText(RedisMemory):
    """Takes out what once broke a log viewer, a font and a column width."""

    async def append(self, session: str, message: Message) -> None:
        kept = "".join(letter for letter in message.content if letter >= " " or letter == "\n")
        kept = "".join(letter if letter <= "\uffff" else "?" for letter in kept)
        cleaned = msgspec.structs.replace(message, content=kept[:CHARACTERS_MAX])
        await super().append(session, cleaned)


FLAW = Flaw(
    name="lossy_text",
    incident='a byte is stripped, a surrogate becomes "?", a long message is cut',
    code="A clean_text() from elsewhere: control characters out, beyond the BMP a question mark, 8,000 characters.",
    mocks='Fixtures say "Hello, world".',
    user="Code came back without its tabs, names without their emoji, and a pasted contract without its end.",
    kinds=frozenset({Kind.CORRUPTED}),
    causes=frozenset({Cause.SERIALIZATION_CHANGE}),
    setups=same_server(LossyText, RedisMemory),
    load=Load(mix="hard"),
)
