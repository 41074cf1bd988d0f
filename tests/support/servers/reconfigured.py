"""A shared server whose settings a test may change: they are set back afterwards."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from redis.asyncio import Redis

CHANGEABLE = ("appendonly", "appendfsync", "save", "maxmemory", "maxmemory-policy")


@contextlib.asynccontextmanager
async def reconfigurable(url: str) -> AsyncIterator[Any]:
    """Give a client, and leave the server as it was."""
    client: Any = Redis.from_url(url, decode_responses=True)
    try:
        before = {name: (await client.config_get(name))[name] for name in CHANGEABLE}
        try:
            yield client
        finally:
            await client.execute_command("REPLICAOF", "NO", "ONE")
            for name, value in before.items():
                await client.config_set(name, value)
    finally:
        await client.aclose()
