"""A conversation memory on a Redis with Sentinel, written right."""

from __future__ import annotations

from typing import Any

from soak.flaws.redis_memory import CONNECTIONS_MAX, EverySecondMemory
from soak.redis_sentinel import redis_at
from soak.servers.kinds import REDIS
from soak.stores import StoreContext


class SentinelMemory(EverySecondMemory):
    """The primary is the one that the sentinels name when a connection is made."""

    def connect(self, context: StoreContext) -> Any:
        return redis_at(
            context.servers[REDIS.name], timeout_seconds=context.timeout_seconds, max_connections=CONNECTIONS_MAX
        )
