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
import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.connection import Connection, SSLConnection
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import (
    MasterNotFoundError,
    Sentinel,
    SentinelConnectionPool,
    SentinelManagedConnection,
    SentinelManagedSSLConnection,
)
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, NoPermissionError, ResponseError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from soak.hosts import HostPort, SentinelAddress, is_sentinel, member_address, parse_sentinel


class PrimaryConnection(SentinelManagedConnection):
    """A connection to whichever server is the primary when it is made."""

    async def read_response(self, *arguments: Any, **options: Any) -> Any:
        return await Connection.read_response(self, *arguments, **options)


class EncryptedPrimaryConnection(PrimaryConnection, SSLConnection):
    """The same over TLS."""


class PrimaryPool(SentinelConnectionPool):
    """Connections to the primary; the connections to the sentinels are closed with them."""

    via: Mapping[HostPort, HostPort] = {}
    """Where to connect instead of some servers."""

    async def get_master_address(self) -> Any:
        try:
            return self._way_to(await super().get_master_address())  # type: ignore[no-untyped-call]
        except MasterNotFoundError:
            # redis-py's own text lists every object it has asked.
            raise MasterNotFoundError(f"no sentinel names a primary called {self.service_name}") from None

    async def rotate_slaves(self) -> AsyncIterator[Any]:
        async for place in super().rotate_slaves():
            yield self._way_to(place)

    def _way_to(self, place: Any) -> Any:
        host, port = place
        return self.via.get(HostPort(str(host), int(port)), place)

    async def disconnect(self, inuse_connections: bool = True) -> None:  # noqa: FBT001, FBT002  redis-py's own form
        await super().disconnect(inuse_connections)
        if inuse_connections:
            await self.sentinel_manager.aclose()


def primary_pool(
    address: SentinelAddress, *, timeout_seconds: float, leaves_demoted: bool = False, **options: Any
) -> PrimaryPool:
    """Return redis-py's pool of connections to the primary; nothing is tried twice.

    `leaves_demoted`: a connection that is answered with READONLY is dropped, so that the sentinels are asked again.
    """
    sentinels = sentinels_of(address, timeout_seconds)
    if leaves_demoted:
        kind: Any = SentinelManagedSSLConnection if address.is_encrypted else SentinelManagedConnection
    else:
        kind = EncryptedPrimaryConnection if address.is_encrypted else PrimaryConnection
    pool = PrimaryPool(  # type: ignore[no-untyped-call]
        address.service,
        sentinels,
        connection_class=kind,
        username=address.username,
        password=address.password,
        db=address.database,
        socket_connect_timeout=timeout_seconds,
        retry=Retry(NoBackoff(), 0),
        **(address.ssl if address.is_encrypted else {}),
        **options,
    )
    pool.via = address.via
    return pool


def sentinels_of(address: SentinelAddress, timeout_seconds: float) -> Sentinel:
    """Return redis-py's clients of the sentinels."""
    # They are asked one after the other, and the last of them is to have its time, too.
    limit = timeout_seconds / len(address.sentinels)
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
    async with sentinels_of(address, timeout_seconds) as sentinels:
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


async def server_addresses(url: str, *, timeout_seconds: float) -> list[str]:
    """Return the address of the primary and of every replica that the sentinels know, with our login.

    redis-py's own list of replicas leaves out those that are down, and one of them can be the next primary.
    """
    address = parse_sentinel(url)
    async with sentinels_of(address, timeout_seconds) as sentinels:
        found = [await sentinels.discover_master(address.service)]
        for sentinel in sentinels.sentinels:
            with contextlib.suppress(RedisConnectionError, RedisTimeoutError, ResponseError):
                found += [(one["ip"], one["port"]) for one in await sentinel.sentinel_slaves(address.service)]
                break
    places = dict.fromkeys(HostPort(str(host), int(port)) for host, port in found)
    return [member_address(url, address.via.get(place, place), address.database) for place in places]


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
