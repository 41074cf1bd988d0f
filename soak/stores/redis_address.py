"""Where a Redis server is and how to log in to it, read from its URL."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from redis.asyncio.connection import SSLConnection, parse_url

from soak.errors import UsageError

_P = TypeVar("_P", bound=asyncio.BaseProtocol)
_EXAMPLE = "write one like redis://:password@127.0.0.1:6379/0"


class RedisAddress(msgspec.Struct, frozen=True, kw_only=True):
    """A server, and who we are to it. Its text form holds no secret."""

    url: str
    host: str
    port: int
    socket_path: str | None
    username: str | None
    password: str | None
    database: int
    tls: ssl.SSLContext | None

    def __str__(self) -> str:
        return self.socket_path or f"{self.host}:{self.port}"

    def __repr__(self) -> str:
        return f"RedisAddress({self})"

    def login_commands(self) -> list[tuple[str | int, ...]]:
        """Return what has to be said first on every connection, before anything else is sent."""
        commands: list[tuple[str | int, ...]] = []
        if self.username:
            commands.append(("AUTH", self.username, self.password or ""))
        elif self.password:
            commands.append(("AUTH", self.password))
        if self.database:
            commands.append(("SELECT", self.database))
        return commands

    async def dial(self, protocol_factory: Callable[[], _P]) -> _P:
        """Open a connection and return the protocol that serves it."""
        loop = asyncio.get_running_loop()
        if self.socket_path is not None:
            _, protocol = await loop.create_unix_connection(protocol_factory, self.socket_path)
        else:
            _, protocol = await loop.create_connection(protocol_factory, self.host, self.port, ssl=self.tls)
        return protocol


def parse_address(url: str) -> RedisAddress:
    """Read `redis://[user][:password@]host[:port][/database]`, `rediss://` (TLS) or `unix://`."""
    try:
        given: dict[str, Any] = dict(parse_url(url))
    except ValueError as error:
        raise UsageError(f"the address of the Redis server is not understood ({error}); {_EXAMPLE}") from None
    return RedisAddress(
        url=url,
        host=given.get("host", "localhost"),
        port=given.get("port", 6379),
        socket_path=given.get("path"),
        username=given.get("username"),
        password=given.get("password"),
        database=int(given.get("db", 0)),
        tls=_tls(given) if given.get("connection_class") is SSLConnection else None,
    )


def _tls(given: dict[str, Any]) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=given.get("ssl_ca_certs"), capath=given.get("ssl_ca_path"))
    if str(given.get("ssl_check_hostname", True)).lower() in {"false", "0", "no"}:
        context.check_hostname = False
    if given.get("ssl_cert_reqs", "required") == "none":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if given.get("ssl_certfile"):
        context.load_cert_chain(given["ssl_certfile"], given.get("ssl_keyfile"))
    return context
