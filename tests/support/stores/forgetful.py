"""A memory that is right but for one thing, and keeps an account of what it did wrong."""

from __future__ import annotations

import os
from pathlib import Path
from typing import ClassVar

from soak.checker.message import Message
from soak.stores.postgres import PostgresStore

ACCOUNT_VARIABLE = "FORGETFUL_STORES_ACCOUNT"
"""Names the file in which it admits what it has dropped."""


class ForgetfulPostgres(PostgresStore):
    """Acknowledges every message and does not keep one in so many."""

    schema_suffix = "_forgetful"
    every: ClassVar[int] = 60
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
