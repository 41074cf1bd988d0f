"""Two tenants, one drawer."""

from __future__ import annotations

from soak.checker.causes import Cause
from soak.checker.kinds import Kind
from soak.flaws.flaw import Flaw, Load
from soak.flaws.served import same_service

FLAW = Flaw(
    name="shared_namespace",
    incident="two tenants or a test and staging share a prefix; ids that differ only in case or a comma collide",
    code='key = f"chat:{conversation_id}", written when there was one tenant.',
    mocks="Each test has one tenant.",
    user="The assistant called them by somebody else's name, and knew somebody else's allergies.",
    kinds=frozenset({Kind.LEAKED}),
    causes=frozenset({Cause.UNKNOWN}),
    setups=same_service("shared_namespace"),
    load=Load(tenants=2, users=6),
)
