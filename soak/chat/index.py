"""Which sessions there are, kept in the memory itself: a store knows a session by its name only, and lists none."""

from __future__ import annotations

import uuid
from collections import OrderedDict

from soak.chat.naming import to_message
from soak.chat.remembering import Remembering, State, UnreachableMemoryError
from soak.checker.message import Message
from soak.stores.http_contract import Wire

SESSION = "soak-chat-index"
"""The session that holds the names of the others."""
NOTED_MAX = 20_000
"""Names that need not be noted again; one that was pushed out is noted twice, which does no harm."""


class Index:
    """Notes each session before its first message, so that all that begin with a prefix can be forgotten later."""

    def __init__(self, remembering: Remembering) -> None:
        self._remembering = remembering
        self._noted: OrderedDict[str, None] = OrderedDict()

    async def note(self, session: str) -> None:
        """Remember that this session exists. That it failed is no reason to refuse the message."""
        if session in self._noted or session == SESSION:
            return
        self._noted[session] = None
        if len(self._noted) > NOTED_MAX:
            self._noted.popitem(last=False)
        entry = to_message(SESSION, Wire(id=uuid.uuid4().hex, role="index", content=session))
        fate = await self._remembering.append(SESSION, entry)
        if fate.state is not State.REMEMBERED:
            self._noted.pop(session, None)

    async def forget_all(self, prefix: str) -> int:
        """Forget every session whose name begins so; raises `UnreachableMemoryError` if not all could be."""
        entries = await self._remembering.history(SESSION)
        noted = {one.content for one in entries if isinstance(one, Message)}
        names = {name for name in noted if name.startswith(prefix)}
        for name in sorted(names):
            fate = await self._remembering.forget(name)
            if fate.state is not State.REMEMBERED:
                raise UnreachableMemoryError(f"session {name!r} is not forgotten: {fate.why}")
            self._noted.pop(name, None)
        if names == noted:
            await self._remembering.forget(SESSION)
        return len(names)
