"""What is asked of a server beside the store: to refuse writes, who is connected, what lies under a namespace.

Nothing here touches what does not begin with a namespace of ours, and nothing ever empties a database.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from typing import Any, cast

import asyncpg

from soak.errors import ServerUnreachableError
from soak.hosts import is_cluster, parse_cluster
from soak.masking import mask
from soak.redis_sentinel import redis_at
from soak.servers.kinds import POSTGRES, REDIS
from soak.stores.redis_cluster import cluster_at

ANSWER_SECONDS_MAX = 20.0
_SCAN_COUNT = 1000
_GLOB_SPECIAL = re.compile(r"([*?\[\]^\\-])")

_CONNECTIONS = """
-- Count the other clients.
SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()
"""
_OWN_SCHEMAS = """
-- Name the schemas of a namespace; a store may add something to the name.
SELECT nspname FROM pg_namespace WHERE starts_with(nspname, $1)
"""
_OWN_TABLES = """
-- Name the tables of a namespace that were put into a schema that others use too.
SELECT schemaname, tablename FROM pg_tables WHERE starts_with(tablename, $1) AND NOT starts_with(schemaname, $1)
"""
_FOREIGN_TABLES = """
-- Name the tables that belong to no namespace and to no part of PostgreSQL.
SELECT schemaname || '.' || tablename FROM pg_tables
WHERE NOT starts_with(tablename, $1) AND NOT starts_with(schemaname, $1)
  AND schemaname NOT IN ('pg_catalog', 'information_schema')
"""


@contextlib.asynccontextmanager
async def redis_client(url: str) -> AsyncIterator[Any]:
    client: Any = (
        cluster_at(parse_cluster(url), timeout_seconds=ANSWER_SECONDS_MAX)
        if is_cluster(url)
        else redis_at(url, timeout_seconds=ANSWER_SECONDS_MAX)
    )
    try:
        yield client
    finally:
        await client.aclose()


@contextlib.asynccontextmanager
async def postgres_connection(url: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(url, timeout=ANSWER_SECONDS_MAX, command_timeout=ANSWER_SECONDS_MAX)
    try:
        yield connection
    finally:
        # Politely: the server counts it as gone when this returns.
        with contextlib.suppress(Exception):
            await connection.close(timeout=ANSWER_SECONDS_MAX)


async def reach(kind: str, url: str) -> None:
    """Raise `ServerUnreachableError` unless the server answers."""
    try:
        if kind == REDIS.name:
            async with redis_client(url) as client:
                await client.ping()
        else:
            async with postgres_connection(url):
                pass
    except Exception as error:
        why = " ".join(str(error).split()) or type(error).__name__
        raise ServerUnreachableError(
            f"the {kind} server at {mask(url)} does not answer ({mask(why)}); start it, or give another address"
        ) from error


async def refuse_writes(kind: str, url: str) -> None:
    if kind == REDIS.name:
        async with redis_client(url) as client:
            # One byte is less than any server uses: each command that needs memory is answered with OOM.
            await client.config_set("maxmemory", "1")
    else:
        await _set_read_only(url, "on")


async def accept_writes(kind: str, url: str) -> None:
    if kind == REDIS.name:
        async with redis_client(url) as client:
            await client.config_set("maxmemory", "0")
    else:
        await _set_read_only(url, "off")


async def count_connections(kind: str, url: str) -> int:
    if kind == REDIS.name:
        async with redis_client(url) as client:
            return int((await client.info("clients"))["connected_clients"]) - 1
    async with postgres_connection(url) as connection:
        return cast("int", await connection.fetchval(_CONNECTIONS))


async def remove_namespace(kind: str, url: str, namespace: str) -> None:
    """Remove every key, schema and table whose name begins with the namespace."""
    if kind == REDIS.name:
        async with redis_client(url) as client:
            async for keys in _batches(client, namespace):
                await client.unlink(*keys)
    elif kind == POSTGRES.name:
        async with postgres_connection(url) as connection:
            schemas, tables = await own_tables(connection, namespace)
            for schema in schemas:
                await connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
            for table in tables:
                await connection.execute(f"DROP TABLE IF EXISTS {table} CASCADE")


async def names_outside(kind: str, url: str, prefix: str) -> set[str]:
    """Return the keys or tables whose names do not begin with the prefix."""
    if kind == REDIS.name:
        async with redis_client(url) as client:
            own = prefix.encode()
            return {_shown(key) async for key in client.scan_iter(count=_SCAN_COUNT) if not key.startswith(own)}
    async with postgres_connection(url) as connection:
        return {row[0] for row in await connection.fetch(_FOREIGN_TABLES, prefix)}


async def longest_life_seconds(url: str, namespace: str) -> float | None:
    """Return when the last key of a namespace on a Redis server will have expired; None if one never does.

    The last, because a lock or a cache beside the conversation may well live shorter.
    """
    async with redis_client(url) as client:
        lives = [await client.pttl(key) for key in await own_keys(client, namespace)]
    return max(lives) / 1000 if lives and min(lives) >= 0 else None


async def pause_replay(url: str) -> None:
    """Let a replica lag, from now on and for as long as is wanted."""
    async with postgres_connection(url) as connection:
        await connection.execute("SELECT pg_wal_replay_pause()")


async def resume_replay(url: str) -> None:
    async with postgres_connection(url) as connection:
        await connection.execute("SELECT pg_wal_replay_resume()")


async def own_tables(connection: Any, namespace: str) -> tuple[list[str], list[str]]:
    """Return the schemas of a namespace, and the tables of it that lie in other schemas, quoted."""
    schemas = [_quoted(row[0]) for row in await connection.fetch(_OWN_SCHEMAS, namespace)]
    tables = [f"{_quoted(row[0])}.{_quoted(row[1])}" for row in await connection.fetch(_OWN_TABLES, namespace)]
    return schemas, tables


async def own_keys(client: Any, namespace: str) -> list[bytes]:
    return sorted([key async for keys in _batches(client, namespace) for key in keys])


async def _batches(client: Any, namespace: str) -> AsyncIterator[list[bytes]]:
    pattern = _GLOB_SPECIAL.sub(r"\\\1", namespace) + "*"
    keys: list[bytes] = []
    # Not SCAN itself: of a cluster, every primary is asked.
    async for key in client.scan_iter(match=pattern, count=_SCAN_COUNT):
        keys.append(key)
        if len(keys) >= _SCAN_COUNT:
            yield keys
            keys = []
    if keys:
        yield keys


async def _set_read_only(url: str, value: str) -> None:
    async with postgres_connection(url) as connection:
        await connection.execute(f"ALTER SYSTEM SET default_transaction_read_only = {value}")
        await connection.execute("SELECT pg_reload_conf()")
    # New sessions and old ones learn of it at the same time, a moment after the signal.
    async with asyncio.timeout(ANSWER_SECONDS_MAX):
        while True:
            async with postgres_connection(url) as connection:
                if await connection.fetchval("SHOW default_transaction_read_only") == value:
                    return
            await asyncio.sleep(0.01)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _shown(key: bytes) -> str:
    return key.decode("utf-8", "backslashreplace")
