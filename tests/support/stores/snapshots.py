"""Lists on a server that keeps snapshots: one is right, one drops messages and keeps an account of them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import ClassVar

from soak.checker.contract import Contract
from soak.checker.message import Message
from soak.stores.redis_stores import RedisListStore

ACCOUNT_VARIABLE = "FORGETFUL_STORES_ACCOUNT"
"""Names the file in which it admits what it has dropped."""


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
        is_canary = session.startswith("canary-")  # the verifier's own; nobody else's ledger has them
        if not is_canary:
            type(self).appended += 1
            if self.appended % self.every == 0:
                with Path(os.environ[ACCOUNT_VARIABLE]).open("a") as account:
                    account.write(f"{message.name}\n")
                return
        await super().append(session, message)
