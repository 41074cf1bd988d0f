"""Writes that are acknowledged only once replicas have them (WAIT), or the disk (WAITAOF).

What one must know before touching it:
- WAIT speaks of what its own connection has written, so it follows the write on the same one.
- Fewer than asked for is no refusal: the write was executed, and may be lost or not. Nobody knows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

from soak.stores.protocol import RedisUse
from soak.stores.redis_client import Argument, RedisError
from soak.stores.redis_reader import RedisReader

WAIT_MS_MAX = 1_000
_WRITES = frozenset({"RPUSH", "XADD", "EVALSHA", "EVAL", "UNLINK"})


class NotConfirmedError(RedisError):
    """The write was executed, and fewer servers than asked for have confirmed it in time."""


class WaitingClient:
    """Lets every write be followed by WAIT or WAITAOF."""

    def __init__(self, client: RedisReader, use: RedisUse, *, timeout_seconds: float) -> None:
        self._client = client
        self._use = use
        milliseconds = min(WAIT_MS_MAX, int(timeout_seconds * 1000 / 2))
        self._name = "WAITAOF" if use.wait_aof else "WAIT"
        least = (1, use.wait_replicas) if use.wait_aof else (use.wait_replicas,)
        self._wait: tuple[Argument, ...] = (self._name, *least, milliseconds)

    def execute(self, *command: Argument) -> Awaitable[Any]:
        return self._confirmed(command) if command[0] in _WRITES else self._client.execute(*command)

    async def connect(self) -> None:
        await self._client.connect()

    async def close(self) -> None:
        await self._client.close()

    async def _confirmed(self, command: tuple[Argument, ...]) -> Any:
        both = self._client.execute_both(command, self._wait)
        answers: tuple[Any, Any] = await asyncio.gather(*both, return_exceptions=True)
        written, confirmed = answers
        if isinstance(written, BaseException):
            raise written
        if isinstance(confirmed, BaseException):
            raise NotConfirmedError(f"it was written, and then: {confirmed!r}") from confirmed
        if not self._is_enough(confirmed):
            raise NotConfirmedError(f"it was written, and {self._name} counted {confirmed!r}")
        return written

    def _is_enough(self, confirmed: Any) -> bool:
        if self._use.wait_aof:
            local, replicas = confirmed
            return bool(local >= 1 and replicas >= self._use.wait_replicas)
        return bool(confirmed >= self._use.wait_replicas)
