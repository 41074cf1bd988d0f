"""What a Redis store needs of its client, and how talking to a Redis server fails.

The load and the verifier use different clients (`redis_pool` and `redis_reader`), so that a bug in one cannot hide from
the other. Only two failures matter to a write: it certainly was not executed (`NotApplied`), or nobody knows.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import ssl
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar

import msgspec
from redis.asyncio.connection import SSLConnection, parse_url

from soak.checker.outcome import NotApplied
from soak.errors import UsageError

CLIENT_NAME = "soak"

Argument = bytes | str | int | float


class RedisClient(Protocol):
    """Sends commands to one server. Many callers share it."""

    def execute(self, *command: Argument) -> Awaitable[Any]:
        """Send a command; awaiting the result gives the reply in bytes, or raises a `RedisError`."""

    async def connect(self) -> None:
        """Make sure that the server is there and lets us in."""

    async def close(self) -> None:
        """Drop the connections. What is under way on them fails."""


class RedisScript:
    """A Lua script for one key, kept by the server and called by its digest, so that its text travels only once."""

    def __init__(self, text: str) -> None:
        self._text = text.strip()
        self._digest = hashlib.sha1(self._text.encode()).hexdigest()  # noqa: S324  the server's name for it

    async def run(self, client: RedisClient, key: bytes, *arguments: Argument) -> Any:
        try:
            return await client.execute("EVALSHA", self._digest, 1, key, *arguments)
        except ReplyError as error:
            if error.code != "NOSCRIPT":
                raise
        # A server that restarted knows no scripts. It executed nothing, so this is no second try of a write.
        return await client.execute("EVAL", self._text, 1, key, *arguments)


class RedisError(Exception):
    """A command did not succeed; whether it was executed is not known, unless a subclass says so."""

    of_server = False
    """It is about the server, or the node that has the key, and says nothing about the session."""


class NotSentError(RedisError, NotApplied):
    """The command never left this process: no connection, none with room in time, or it is closed."""

    of_server = True


class LoginRefusedError(NotSentError):
    """The server wants a password, or another one."""


class ConnectionLostError(RedisError):
    """The connection ended while the command was under way: it may have been executed."""


class CommandTimedOutError(RedisError):
    """No answer in time: the command may have been executed, or may still be."""


class ReplyError(RedisError):
    """The server answered with an error."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.of_server = self.code in _OF_SERVER

    @property
    def code(self) -> str:
        return error_code(str(self))


class CommandRefusedError(RedisError, NotApplied):
    """The server answered with an error that is known to mean: not executed."""


_REFUSED_BEFORE_EXECUTION = frozenset({
    "ASK", "BUSY", "CLUSTERDOWN", "CROSSSLOT", "DENIED", "LOADING", "MASTERDOWN", "MISCONF", "MOVED", "NOAUTH",
    "NOREPLICAS", "NOSCRIPT", "OOM", "READONLY", "TRYAGAIN",
})  # fmt: skip
"""A script gets these before its first write only: once it has written, the server lets it finish."""

_OF_SERVER = frozenset({"BUSY", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "NOREPLICAS", "READONLY", "TRYAGAIN"})

_REFUSED_SINGLE_COMMAND = _REFUSED_BEFORE_EXECUTION | {"NOPERM", "WRONGPASS", "WRONGTYPE"}
"""A script may meet the others half way, after some of its writes."""

_REFUSED_TEXTS = (
    "ERR syntax error",
    "ERR unknown command",
    "ERR wrong number of arguments",
    "ERR value is not",
    "ERR string exceeds",
    "ERR max number of clients reached",
    "ERR The ID specified in XADD",
    "ERR Protocol error",
)
"""A bare ERR says nothing by itself: proxies send it too when they lost the server half way."""

_INSIDE_SCRIPT = re.compile(r"^ERR Error running script .*?@user_script: ?\d+: -([A-Z]+) ", re.DOTALL)
"""Redis 6 hides the code of what failed inside a script behind a text of its own."""


def error_code(text: str) -> str:
    inside = _INSIDE_SCRIPT.match(text)
    return inside[1] if inside else text.partition(" ")[0]


def judged(error: ReplyError, *, of_script: bool = False) -> RedisError:
    """Return the error as what it means for a write: refused for certain, or itself when that is not known."""
    text = str(error)
    code = error_code(text)
    if of_script:
        refused = code in _REFUSED_BEFORE_EXECUTION
    else:
        refused = code in _REFUSED_SINGLE_COMMAND or text.startswith(_REFUSED_TEXTS)
    return CommandRefusedError(text) if refused else error


# Where a Redis server is and how to log in to it, read from its URL.


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
