"""The answer is no, and the row stays."""

from __future__ import annotations

from soak.checker.causes import Cause
from soak.checker.kinds import Kind
from soak.flaws.flaw import Flaw, same_server
from soak.flaws.redis_memory import RedisMemory
from soak.stores import Message, NotApplied

LENGTH_MAX = 400


class RefusedButVisible(RedisMemory):
    """Checks the length after it has written."""

    async def append(self, session: str, message: Message) -> None:
        await super().append(session, message)
        self.check(message)

    @staticmethod
    def check(message: Message) -> None:
        if len(message.content) > LENGTH_MAX:
            raise NotApplied(f"longer than {LENGTH_MAX} characters; it was not stored")


class CheckedBeforeWriting(RefusedButVisible):
    """Checks, then writes."""

    async def append(self, session: str, message: Message) -> None:
        self.check(message)
        await RedisMemory.append(self, session, message)


FLAW = Flaw(
    name="refused_but_visible",
    incident="the write is refused with 'not stored', and the message is in every read from then on",
    code="rpush(...), then if len(content) > 400: raise. The check moved below the write in a refactoring.",
    mocks="The test asserts that append() raises. It does.",
    user="Was told that the message had not been sent, sent it again, and was answered twice.",
    kinds=frozenset({Kind.PHANTOM}),
    causes=frozenset({Cause.UNKNOWN}),
    setups=same_server(RefusedButVisible, CheckedBeforeWriting),
)
