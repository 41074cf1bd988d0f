"""A session store for the Claude Agent SDK: a Redis list for each transcript.

    soak check --store http --subject 'claude-session-store=examples.claude_redis_store:make_store,redis==8.1.0,redis'

`RPUSH` is no upsert: a batch that the SDK sends again after a lost reply stands there twice.
"""

from __future__ import annotations

import json
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

ANSWER_SECONDS_MAX = 5.0


class RedisSessionStore:
    """What the SDK asks of a store: append and load; delete is optional."""

    def __init__(self, redis: Any) -> None:
        self._redis = redis

    async def append(self, key: dict[str, str], entries: list[dict[str, Any]]) -> None:
        await self._redis.rpush(_name(key), *map(json.dumps, entries))

    async def load(self, key: dict[str, str]) -> list[dict[str, Any]] | None:
        return [json.loads(line) for line in await self._redis.lrange(_name(key), 0, -1)] or None

    async def delete(self, key: dict[str, str]) -> None:
        await self._redis.delete(_name(key))


def make_store(address: str) -> RedisSessionStore:
    """Connect without retries: the SDK has its own."""
    return RedisSessionStore(
        Redis.from_url(address, socket_timeout=ANSWER_SECONDS_MAX, retry=Retry(NoBackoff(), 0), max_connections=64)
    )


def _name(key: dict[str, str]) -> str:
    return json.dumps([key["project_key"], key["session_id"], key.get("subpath", "")])
