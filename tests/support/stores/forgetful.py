"""A memory that is right but for one thing, and keeps an account of what it did wrong."""

from __future__ import annotations

import os
from pathlib import Path
from typing import ClassVar, Protocol

from soak.checker.message import Message
from soak.stores.postgres import PostgresStore

ACCOUNT_VARIABLE = "FORGETFUL_STORES_ACCOUNT"
"""Names the file in which it admits what it has dropped."""
EVERY_VARIABLE = "FORGETFUL_STORES_EVERY"
"""Of how many messages it drops one; 0: it drops none."""


class _Counting(Protocol):
    every: ClassVar[int]
    appended: ClassVar[int]


def drops(store: type[_Counting], message: Message) -> bool:
    """Whether this class drops the message, being one in so many; if so, it is put into the account."""
    if store.every == 0 or message.session.startswith("canary-"):  # the verifier's own are in nobody else's ledger
        return False
    store.appended += 1
    if store.appended % store.every:
        return False
    with Path(os.environ[ACCOUNT_VARIABLE]).open("a") as account:
        account.write(f"{message.name}\n")
    return True


class ForgetfulPostgres(PostgresStore):
    """Acknowledges every message and does not keep one in so many."""

    schema_suffix = "_forgetful"
    every: ClassVar[int] = int(os.environ.get(EVERY_VARIABLE, "60"))
    appended: ClassVar[int] = 0

    async def append(self, session: str, message: Message) -> None:
        if not drops(type(self), message):
            await super().append(session, message)
