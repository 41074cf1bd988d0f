"""Two tenants, one drawer."""

from __future__ import annotations

from soak.flaws.flaw import Flaw, Load, same_server
from soak.flaws.redis_memory import RedisMemory
from soak.model.causes import Cause
from soak.model.kinds import Kind


class SharedNamespace(RedisMemory):
    """Keys are made of the conversation's number; every tenant counts from one."""

    def key(self, session: str) -> str:
        _tenant, _, number = session.partition("-")
        return super().key(number)


_WRONG, _RIGHT = same_server(SharedNamespace, RedisMemory)

FLAW = Flaw(
    name="shared_namespace",
    night="two tenants or a test and staging share a prefix; ids that differ only in case or a comma collide",
    code='key = f"chat:{conversation_id}", written when there was one tenant.',
    mocks="Each test has one tenant.",
    user="The assistant called them by somebody else's name, and knew somebody else's allergies.",
    kinds=frozenset({Kind.LEAKED}),
    causes=frozenset({Cause.UNKNOWN}),
    wrong=_WRONG,
    right=_RIGHT,
    load=Load(tenants=2, users=6),
)
