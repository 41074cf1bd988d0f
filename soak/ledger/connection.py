"""Reaching the ledger's server. Its library never retries: whether to write again is decided here, knowingly."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, RedisError

from soak.answer_bounds import BoundedParser
from soak.errors import ServerUnreachableError, UsageError

TIMEOUT_SECONDS = 5.0


class Keys(NamedTuple):
    """Where a run's ledger lives on its server."""

    header: str
    batches: str
    progress: str
    """How far the verifier has come."""


def keys_of(run: str) -> Keys:
    return Keys(*(f"soak:ledger:{run}:{what}" for what in Keys._fields))


class LedgerConnection:
    """One connection to the ledger of one run."""

    def __init__(self, url: str, run: str, *, read_timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        self.url = url
        self.keys = keys_of(run)
        self.redis = _client(url, read_timeout_seconds)

    async def close(self) -> None:
        await self.redis.aclose()


def _client(url: str, read_timeout_seconds: float) -> Any:
    # Any: redis-py types one client for bytes and text answers alike; this one answers in bytes.
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
    parts = urlsplit(url)
    where = f"{parts.hostname}:{parts.port or 6379}"
    if isinstance(error, AuthenticationError):
        return ServerUnreachableError(f"the ledger at {where} refuses the password; check ledger.url")
    return ServerUnreachableError(f"the ledger at {where} cannot be reached ({error}); is it running?")


# The ledger needs a server of its own: on the one under test it would be lost together with what it records.


REDIS_SCHEMES = ("redis://", "rediss://", "unix://")


async def check_ledger_is_apart(ledger_url: str, servers: Mapping[str, str]) -> None:
    """Refuse a ledger on a server under test, by whatever address, database or proxy it is reached."""
    ledger = await _identity(ledger_url)
    for kind, url in servers.items():
        if ledger and url.startswith(REDIS_SCHEMES) and await _identity(url) == ledger:
            raise UsageError(
                f"the ledger is on the server under test ({kind}): both addresses lead to the same process "
                f"(run_id {ledger[:8]}…); give the ledger a server of its own with --ledger, or leave it out to have "
                "one started"
            )


async def _identity(url: str) -> str:
    """Return what a server calls this life of its process; empty if it does not tell."""
    async with reaching(url) as redis:
        try:
            answer = await redis.info("server")
        except (RedisError, AttributeError, TypeError, ValueError, LookupError):
            return ""  # managed services may refuse to tell
    return str(answer.get("run_id", "")) if isinstance(answer, dict) else ""
