"""How talking to a Redis server fails, and what each failure says about the command.

Only two answers matter to a write: it certainly was not executed (`NotApplied`), or nobody knows.
"""

from __future__ import annotations

import re

from soak.checker.outcome import NotApplied


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
