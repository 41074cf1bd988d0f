"""A Lua script kept by the server and called by its digest, so that its text travels only once."""

from __future__ import annotations

import hashlib
from typing import Any

from soak.stores.redis_errors import ReplyError
from soak.stores.redis_pool import RedisPool
from soak.stores.redis_wire import Argument


class RedisScript:
    """What the server does in one step, for one key."""

    def __init__(self, text: str) -> None:
        self._text = text.strip()
        self._digest = hashlib.sha1(self._text.encode()).hexdigest()  # noqa: S324  the server's name for it

    async def run(self, pool: RedisPool, key: bytes, *arguments: Argument) -> Any:
        try:
            return await pool.execute("EVALSHA", self._digest, 1, key, *arguments)
        except ReplyError as error:
            if error.code != "NOSCRIPT":
                raise
        # A server that restarted knows no scripts. It executed nothing, so this is no second try of a write.
        return await pool.execute("EVAL", self._text, 1, key, *arguments)
