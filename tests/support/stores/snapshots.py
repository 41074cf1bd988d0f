"""Lists on a server that keeps snapshots: one is right, one drops messages and keeps an account of them."""

from __future__ import annotations

from typing import ClassVar

from soak.checker.contract import Contract
from soak.checker.message import Message
from soak.stores.redis_stores import RedisListStore
from tests.support.stores.forgetful import drops


class SnapshotList(RedisListStore):
    """A list that may lose what came since the last snapshot."""

    layout = "snapshots"
    contract = Contract(crash_loss_seconds=30.0, power_loss_seconds=30.0)


class ForgetfulList(SnapshotList):
    """Acknowledges every message and does not keep one in so many."""

    layout = "forgetful"
    every: ClassVar[int] = 20
    appended: ClassVar[int] = 0

    async def append(self, session: str, message: Message) -> None:
        if not drops(type(self), message):
            await super().append(session, message)
