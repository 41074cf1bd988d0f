"""Two names that differ in case, one drawer."""

from __future__ import annotations

from soak.checker.causes import Cause
from soak.checker.kinds import Kind
from soak.flaws.flaw import Flaw, same_server
from soak.flaws.redis_memory import RedisMemory


class KeyCase(RedisMemory):
    """Makes its keys neat, and two sessions one."""

    def key(self, session: str) -> str:
        return super().key(session.lower())


FLAW = Flaw(
    name="key_case",
    incident="keys are lower-cased; two conversations whose ids differ in case alone are one",
    code='key = f"chat:{conversation_id.lower()}", so that links work however they are typed.',
    mocks="The ids of the tests are test-1 and test-2.",
    user="Found a stranger's questions among their own.",
    kinds=frozenset({Kind.LEAKED}),
    causes=frozenset({Cause.UNKNOWN}),
    setups=same_server(KeyCase, RedisMemory),
)
