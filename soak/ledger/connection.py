"""Reaching the ledger's server. Its library never retries: whether to write again is decided here, knowingly."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.crc import key_slot
from redis.exceptions import AuthenticationError, RedisError

from soak.answer_bounds import BoundedParser
from soak.errors import ServerUnreachableError, UsageError
from soak.hosts import (
    CLUSTER,
    REDIS_PORT,
    HostPort,
    each_host,
    hosts_of,
    is_cluster,
    is_sentinel,
    parse_cluster,
    parse_sentinel,
)
from soak.redis_sentinel import primary_pool
from soak.redis_slot import ids_of_nodes, slot_client

TIMEOUT_SECONDS = 5.0


class Keys(NamedTuple):
    """Where a run's ledger lives on its server."""

    header: str
    batches: str
    progress: str
    """How far the verifier has come."""
    claim: str
    """Who verifies this shard now; it expires."""
    verifiers: str
    """How many verifiers share the run; not there: one does."""
    workers: str
    """Which workers were dealt to them, each with when it is taken for dead unless it is heard of."""
    faults: str
    """By shard: what it knows of the faults."""
    reports: str
    """By shard: what it has counted."""


_PER_SHARD = ("batches", "progress", "claim")
PREFIX = "{soak:ledger}"
"""In braces, so that on a Redis Cluster all keys are in one slot: records for several shards are written in one
transaction, and only one server can do that."""
CURRENT_KEY = f"{PREFIX}:current"
"""Names the run that was begun last."""


def keys_of(run: str, shard: int = 1) -> Keys:
    """Return the keys of a run, as one of its verifiers and the workers dealt to it use them."""
    suffix = "" if shard == 1 else f":{shard}"
    return Keys(*(f"{PREFIX}:{run}:{what}{suffix if what in _PER_SHARD else ''}" for what in Keys._fields))


class LedgerConnection:
    """One connection to the ledger of one run."""

    def __init__(self, url: str, run: str, *, shard: int = 1, read_timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        self.url = url
        self.keys = keys_of(run, shard)
        self.redis = _client(url, read_timeout_seconds)

    async def close(self) -> None:
        await self.redis.aclose()


def _client(url: str, read_timeout_seconds: float) -> Any:
    # Any: redis-py types one client for bytes and text answers alike; this one answers in bytes.
    if is_sentinel(url):
        # One that says READONLY is not the primary any more: its connection is dropped, and the sentinels are asked.
        pool = primary_pool(
            parse_sentinel(url),
            timeout_seconds=TIMEOUT_SECONDS,
            leaves_demoted=True,
            parser_class=BoundedParser,
            socket_timeout=read_timeout_seconds,
            max_connections=4,
        )
        return Redis.from_pool(pool)
    if is_cluster(url):
        return slot_client(
            parse_cluster(url),
            key_slot(PREFIX.encode()),
            timeout_seconds=TIMEOUT_SECONDS,
            parser_class=BoundedParser,
            socket_timeout=read_timeout_seconds,
            max_connections=4,
        )
    return Redis.from_url(
        url,
        parser_class=BoundedParser,
        socket_timeout=read_timeout_seconds,
        socket_connect_timeout=TIMEOUT_SECONDS,
        retry=Retry(NoBackoff(), 0),
        max_connections=4,
    )


@contextlib.asynccontextmanager
async def reaching(url: str) -> AsyncIterator[Any]:
    """Lend a client for a moment; what goes wrong on the way becomes one clear line."""
    redis = _client(url, TIMEOUT_SECONDS)
    try:
        yield redis
    except (RedisError, OSError) as error:
        raise unreachable(url, error) from error
    finally:
        await redis.aclose()


def unreachable(url: str, error: Exception) -> ServerUnreachableError:
    where = _place_of(url)
    if isinstance(error, AuthenticationError):
        return ServerUnreachableError(f"the ledger at {where} refuses the password; check ledger.url")
    return ServerUnreachableError(f"the ledger at {where} cannot be reached ({error}); is it running?")


def _place_of(url: str) -> str:
    """Name a server without its secrets."""
    if is_sentinel(url):
        return str(parse_sentinel(url))
    parts = urlsplit(url)
    return ", ".join(str(HostPort(host, port or REDIS_PORT)) for host, port in hosts_of(url)) or parts.path


# Which life of which server answers. Another one may have come back, or taken over, without the last records.


class Life(NamedTuple):
    """What a server calls this life of its process, and the history of data it shares with its replicas."""

    process: str = ""
    history: str = ""
    is_replica: bool = False
    is_logged: bool = False
    """It keeps an append-only file, so a kill of its process takes nothing; a machine without power may."""

    def __str__(self) -> str:
        return f"{self.process}/{self.history}" if self.process else ""


def ask_life(pipe: Any) -> None:
    """Add the questions to a pipeline whose answers `life_of` reads."""
    pipe.info("server").info("replication").info("persistence")


def life_of(server: object, replication: object, persistence: object) -> Life:
    """Read the answers; managed services may refuse to tell, and then nothing is known."""
    if not isinstance(server, dict) or not isinstance(replication, dict):
        return Life()
    return Life(
        str(server.get("run_id", "")),
        str(replication.get("master_replid", "")),
        replication.get("role") == "slave",
        isinstance(persistence, dict) and persistence.get("aof_enabled") == 1,
    )


def is_of_this_machine(url: str) -> bool:
    """Whether an address names a server here: when that loses power, so do we."""
    if is_sentinel(url) or is_cluster(url):
        return False
    return urlsplit(url).scheme == "unix" or all(host.host in _LOOPBACK for host in hosts_of(url))


_LOOPBACK = {"127.0.0.1", "::1", "localhost"}


async def read_life(redis: Any) -> Life:
    """Ask a server which life this is."""
    pipe = redis.pipeline(transaction=False)
    ask_life(pipe)
    return life_of(*await pipe.execute(raise_on_error=False))


# The ledger needs a server of its own: on the one under test it would be lost together with what it records.


async def check_ledger_is_apart(ledger_url: str, servers: Mapping[str, str]) -> None:
    """Refuse a ledger on a server under test, by whatever address, database, proxy or node of a group it is reached."""
    ledger = await _identity(ledger_url)
    if is_cluster(ledger_url):
        ledger |= await ids_of_nodes(parse_cluster(ledger_url), timeout_seconds=TIMEOUT_SECONDS)
    for kind, url in servers.items():
        if not url.startswith(("redis://", "rediss://", "redis+", "rediss+", "unix://")):
            continue
        if is_cluster(url) and ledger & await ids_of_nodes(parse_cluster(url), timeout_seconds=TIMEOUT_SECONDS):
            raise _not_apart(kind, "one cluster")
        # Replicas share the history of their primary, so one of a group is enough; a cluster has several.
        for node in each_host(url.replace(CLUSTER, "", 1)) if is_cluster(url) else [url]:
            with contextlib.suppress(ServerUnreachableError):  # the ledger did answer
                if same := ledger & await _identity(node):
                    raise _not_apart(kind, f"the same process, or to one group ({min(same)[:8]}…)")


def _not_apart(kind: str, what: str) -> UsageError:
    return UsageError(
        f"the ledger is on the server under test ({kind}): both addresses lead to {what}; give the ledger a server of "
        "its own with --ledger, or leave it out to have one started"
    )


async def _identity(url: str) -> set[str]:
    """Return what names a server's process and its history of data; nothing if it does not tell."""
    async with reaching(url) as redis:
        try:
            life = await read_life(redis)
        except (AttributeError, TypeError, ValueError, LookupError):
            return set()  # managed services may refuse to tell
    return {life.process, life.history} - {""}
