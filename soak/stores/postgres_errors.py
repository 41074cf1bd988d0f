"""What a failure of PostgreSQL says about the write that met it."""

from __future__ import annotations

import asyncpg

from soak.checker.outcome import NotApplied

_ROLLED_BACK_CLASSES = frozenset({
    "0A",  # not supported
    "22",  # bad data
    "23",  # a constraint
    "25",  # transaction state: a read-only server, most of all
    "26",  # a prepared statement is gone
    "3D", "3F",  # no such database or schema
    "40",  # serialization failure, deadlock
    "42",  # syntax, privileges, no such table
    "53",  # out of disk, memory or connections
    "54",  # beyond a limit of the server
    "55",  # a lock that could not be had
})  # fmt: skip
_COMPLETION_UNKNOWN = "40003"


class NotConnectedError(NotApplied):
    """No connection could be made: nothing was sent."""


class PoolExhaustedError(NotApplied):
    """No connection became free in time: nothing was sent."""


class RolledBackError(NotApplied):
    """The server refused the statement and undid it."""


def is_certainly_not_applied(error: BaseException) -> bool:
    """Whether the statement that met this error left nothing behind.

    Only what the server calls an ERROR counts. A FATAL or PANIC may reach us while the commit is already on its way
    to disk, and a lost connection says nothing at all.
    """
    if not isinstance(error, asyncpg.PostgresError):
        return False
    severity = getattr(error, "severity_en", None) or getattr(error, "severity", None)
    if severity is None and isinstance(error, asyncpg.DataError):
        return True  # not from the server: an argument that could not be encoded, found before sending
    state = getattr(error, "sqlstate", None) or ""
    return severity == "ERROR" and state[:2] in _ROLLED_BACK_CLASSES and state != _COMPLETION_UNKNOWN
