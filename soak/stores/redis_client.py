"""What a Redis store needs of its client, and how talking to a Redis server fails.

The load and the verifier use different clients (`redis_pool` and `redis_reader`), so that a bug in one cannot hide from
the other. Only two failures matter to a write: it certainly was not executed (`NotApplied`), or nobody knows.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable
from typing import Any, Protocol

from soak.checker.outcome import NotApplied

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


class NotSentError(RedisError, NotApplied):
    """The command never left this process: no connection, none with room in time, or it is closed."""


class LoginRefusedError(NotSentError):
    """The server wants a password, or another one."""


class ConnectionLostError(RedisError):
    """The connection ended while the command was under way: it may have been executed."""


class CommandTimedOutError(RedisError):
    """No answer in time: the command may have been executed, or may still be."""


class ReplyError(RedisError):
    """The server answered with an error."""

    @property
    def code(self) -> str:
        return error_code(str(self))


class RefusedError(RedisError, NotApplied):
    """The server answered with an error that is known to mean: not executed."""


_REFUSED_BEFORE_EXECUTION = frozenset({
    "ASK", "BUSY", "CLUSTERDOWN", "CROSSSLOT", "DENIED", "LOADING", "MASTERDOWN", "MISCONF", "MOVED", "NOAUTH",
    "NOREPLICAS", "NOSCRIPT", "OOM", "READONLY", "TRYAGAIN",
})  # fmt: skip
"""A script gets these before its first write only: once it has written, the server lets it finish."""

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
    return RefusedError(text) if refused else error
