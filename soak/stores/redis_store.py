"""What all Redis layouts have in common: one key per session, under a prefix of the store's own."""

from __future__ import annotations

import re
from typing import ClassVar, Self

from soak.checker.contract import Contract
from soak.errors import ServerUnreachableError, UsageError
from soak.servers.kinds import REDIS
from soak.stores.protocol import StoreContext
from soak.stores.redis_address import parse_address
from soak.stores.redis_errors import LoginRefusedError, RedisError, ReplyError, judged
from soak.stores.redis_pool import RedisPool

AOF_EVERYSEC_CONTRACT = Contract(crash_loss_seconds=2.0, power_loss_seconds=2.0, failover_loss_seconds=2.0)
"""`appendonly yes, appendfsync everysec`: the server may hold up to two seconds of writes back."""

_SCAN_COUNT = 1000
_GLOB_SPECIAL = re.compile(rb"([*?\[\]^\\-])")


class RedisStore:
    """The session's key is the prefix and its name, byte for byte: nothing is folded, cut or escaped."""

    needs: ClassVar[tuple[str, ...]] = (REDIS.name,)
    contract: ClassVar[Contract] = AOF_EVERYSEC_CONTRACT
    layout: ClassVar[str]
    """The part of the prefix that keeps the layouts apart in one namespace."""

    def __init__(self, pool: RedisPool, context: StoreContext) -> None:
        self._pool = pool
        self._prefix = f"{context.namespace}:{self.layout}:".encode()

    @classmethod
    async def open(cls, context: StoreContext) -> Self:
        url = context.servers.get(REDIS.name)
        if url is None:
            raise UsageError("no Redis server is configured; give its address in servers.redis")
        address = parse_address(url)
        pool = RedisPool(address, connections_max=context.connections_max, timeout_seconds=context.timeout_seconds)
        try:
            await pool.connect()
            await pool.execute("PING")
        except RedisError as error:
            await pool.close()
            raise _unreachable(address, error) from error
        return cls(pool, context)

    def key(self, session: str) -> bytes:
        return self._prefix + session.encode("utf-8", "surrogatepass")

    async def forget(self, session: str) -> None:
        try:
            await self._pool.execute("UNLINK", self.key(session))
        except ReplyError as error:
            raise judged(error) from error

    async def close(self) -> None:
        await self._pool.close()

    async def clean_up(self) -> None:
        """Remove the sessions of this layout in this namespace; every other key is left alone."""
        pattern = _GLOB_SPECIAL.sub(rb"\\\1", self._prefix) + b"*"
        cursor = b"0"
        while True:
            cursor, keys = await self._pool.execute("SCAN", cursor, "MATCH", pattern, "COUNT", _SCAN_COUNT)
            if keys:
                await self._pool.execute("UNLINK", *keys)
            if cursor == b"0":
                return


def _unreachable(address: object, error: RedisError) -> ServerUnreachableError:
    if isinstance(error, LoginRefusedError):
        return ServerUnreachableError(
            f"the Redis server at {address} refuses the login ({error}); check user and password in its address"
        )
    return ServerUnreachableError(
        f"the Redis server at {address} cannot be used ({error}); check that it runs and that its address is right"
    )
