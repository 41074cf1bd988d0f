"""The primary that sentinels name, through redis-py's own Sentinel client.

What one must know before touching it:
- redis-py asks the sentinels when it connects, and not again: a connection that works is kept, also if another
  server is the primary by then. A sentinel closes the connections of a primary that it demotes, so clients ask
  again then.
- A demoted primary answers writes with READONLY. redis-py makes a lost connection of that; here it stays what it is, a
  refusal: the write was certainly not applied.
"""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import quote, urlsplit

from redis.asyncio import Redis
from redis.asyncio.connection import Connection, SSLConnection
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import (
    MasterNotFoundError,
    Sentinel,
    SentinelConnectionPool,
    SentinelManagedConnection,
)
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, NoPermissionError

from soak.hosts import SENTINEL, HostPort, SentinelAddress, is_sentinel, parse_sentinel

SENTINEL_SECONDS_MAX = 1.0
"""For one sentinel to answer; the next one is asked then."""


class PrimaryConnection(SentinelManagedConnection):
    """A connection to whichever server is the primary when it is made."""

    async def read_response(self, *arguments: Any, **options: Any) -> Any:
        return await Connection.read_response(self, *arguments, **options)


class EncryptedPrimaryConnection(PrimaryConnection, SSLConnection):
    """The same over TLS."""


class PrimaryPool(SentinelConnectionPool):
    """Connections to the primary; the connections to the sentinels are closed with them."""

    async def get_master_address(self) -> Any:
        try:
            return await super().get_master_address()  # type: ignore[no-untyped-call]
        except MasterNotFoundError:
            # redis-py's own text lists every object it has asked.
            raise MasterNotFoundError(f"no sentinel names a primary called {self.service_name}") from None

    async def disconnect(self, inuse_connections: bool = True) -> None:  # noqa: FBT001, FBT002  redis-py's own form
        await super().disconnect(inuse_connections)
        if inuse_connections:
            await self.sentinel_manager.aclose()


def primary_pool(address: SentinelAddress, *, timeout_seconds: float, **options: Any) -> PrimaryPool:
    """Return redis-py's pool of connections to the primary; nothing is tried twice."""
    sentinels = _sentinels(address, timeout_seconds)
    return PrimaryPool(  # type: ignore[no-untyped-call]
        address.service,
        sentinels,
        connection_class=EncryptedPrimaryConnection if address.is_encrypted else PrimaryConnection,
        username=address.username,
        password=address.password,
        db=address.database,
        socket_connect_timeout=timeout_seconds,
        retry=Retry(NoBackoff(), 0),
        **(address.ssl if address.is_encrypted else {}),
        **options,
    )


def _sentinels(address: SentinelAddress, timeout_seconds: float) -> Sentinel:
    limit = min(timeout_seconds, SENTINEL_SECONDS_MAX)
    return Sentinel(  # type: ignore[no-untyped-call]  # redis-py leaves it without types
        [(host, port) for host, port in address.sentinels],
        sentinel_kwargs={
            "username": address.sentinel_username,
            "password": address.sentinel_password,
            "socket_timeout": limit,
            "socket_connect_timeout": limit,
            "retry": Retry(NoBackoff(), 0),
            **({"ssl": True, **address.ssl} if address.is_encrypted else {}),
        },
    )


async def why_no_primary(address: SentinelAddress, *, timeout_seconds: float) -> str:
    """Say what the sentinels answer, where none of them names a primary that can be used."""
    async with _sentinels(address, timeout_seconds) as sentinels:
        asked = [one.sentinel_masters() for one in sentinels.sentinels]
        answers = await asyncio.gather(*asked, return_exceptions=True)
    found = [answer for answer in answers if isinstance(answer, dict)]
    if not found:
        refused = any(isinstance(answer, AuthenticationError | NoPermissionError) for answer in answers)
        if refused:
            return "the sentinels refuse the login; check sentinel_password"
        return f"no sentinel answers: {' '.join(str(answers[0]).split())}"
    names = sorted({name for answer in found for name in answer})
    if address.service not in names:
        return f"the sentinels watch {', '.join(names) or 'nothing'}, and no {address.service}"
    return f"the sentinels say that {address.service} is down"


async def replica_addresses(url: str, *, timeout_seconds: float) -> list[str]:
    """Return the address of every replica that the sentinels know, with our login."""
    address = parse_sentinel(url)
    parts = urlsplit(url)
    login = parts.netloc.rpartition("@")[0]
    query = "&".join(f"{name}={quote(value)}" for name, value in address.ssl.items())
    scheme = parts.scheme.removesuffix(SENTINEL)
    async with _sentinels(address, timeout_seconds) as sentinels:
        found = await sentinels.discover_slaves(address.service)
    places = [HostPort(str(host), int(port)) for host, port in found]
    return [f"{scheme}://{login}{'@' if login else ''}{place}/{address.database}?{query}" for place in places]


def redis_at(url: str, *, timeout_seconds: float, **options: Any) -> Redis:
    """Return redis-py's client for an address: of one server, or of the primary that sentinels name."""
    if is_sentinel(url):
        pool = primary_pool(
            parse_sentinel(url), timeout_seconds=timeout_seconds, socket_timeout=timeout_seconds, **options
        )
        return Redis.from_pool(pool)
    return Redis.from_url(
        url,
        socket_timeout=timeout_seconds,
        socket_connect_timeout=timeout_seconds,
        retry=Retry(NoBackoff(), 0),
        **options,
    )
