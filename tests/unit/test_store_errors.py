"""Which errors of a server mean that a write certainly was not executed."""

from __future__ import annotations

from typing import Any

import asyncpg
import pytest

from soak.checker.outcome import NotApplied
from soak.stores.postgres_pool import is_certainly_not_applied
from soak.stores.redis_client import ReplyError, judged

REFUSED_ALWAYS = [
    "OOM command not allowed when used memory > 'maxmemory'.",
    "MISCONF Redis is configured to save RDB snapshots",
    "READONLY You can't write against a read only replica.",
    "LOADING Redis is loading the dataset in memory",
    "MASTERDOWN Link with MASTER is down",
    "NOAUTH Authentication required.",
    "NOREPLICAS Not enough good replicas to write.",
    "CLUSTERDOWN The cluster is down",
    "MOVED 3999 127.0.0.1:6381",
    "BUSY Redis is busy running a script.",
    "NOSCRIPT No matching script.",
]
REFUSED_SINGLE = [
    "WRONGTYPE Operation against a key holding the wrong kind of value",
    "NOPERM this user has no permissions",
    "ERR syntax error",
    "ERR unknown command 'X'",
    "ERR wrong number of arguments for 'rpush' command",
]
NOT_KNOWN = ["ERR server closed connection", "ERR Connection timed out", "ERR internal", "SOMETHING new", ""]


@pytest.mark.parametrize("text", [*REFUSED_ALWAYS, *REFUSED_SINGLE])
def test_a_single_command_refused_by_redis_failed_for_certain(text: str) -> None:
    assert isinstance(judged(ReplyError(text)), NotApplied)


@pytest.mark.parametrize("text", NOT_KNOWN)
def test_an_error_of_redis_that_is_not_known_stays_unknown(text: str) -> None:
    error = ReplyError(text)
    assert judged(error) is error
    assert judged(error, of_script=True) is error
    assert not isinstance(error, NotApplied)


@pytest.mark.parametrize("text", REFUSED_ALWAYS)
def test_a_script_refused_before_its_first_write_failed_for_certain(text: str) -> None:
    inside = f"ERR Error running script (call to f_ab): @user_script:3: @user_script: 3: -{text} "
    assert isinstance(judged(ReplyError(text), of_script=True), NotApplied)
    assert isinstance(judged(ReplyError(inside), of_script=True), NotApplied)


@pytest.mark.parametrize("text", REFUSED_SINGLE)
def test_a_script_that_failed_half_way_is_unknown(text: str) -> None:
    assert not isinstance(judged(ReplyError(text), of_script=True), NotApplied)


def postgres_error(sqlstate: str, severity: str = "ERROR") -> Any:
    return asyncpg.PostgresError.new({"C": sqlstate, "M": "message", "S": severity, "V": severity})


@pytest.mark.parametrize(
    "sqlstate",
    ["23505", "23514", "22021", "25006", "40001", "40P01", "42P01", "42501", "53100", "53300", "54000", "55P03"],
)
def test_a_statement_refused_by_postgres_failed_for_certain(sqlstate: str) -> None:
    assert is_certainly_not_applied(postgres_error(sqlstate))


@pytest.mark.parametrize(
    ("sqlstate", "severity"),
    [
        ("57P01", "FATAL"),
        ("57P02", "FATAL"),
        ("57014", "ERROR"),
        ("40003", "ERROR"),
        ("53100", "PANIC"),
        ("53200", "FATAL"),
        ("08006", "ERROR"),
        ("XX000", "ERROR"),
        ("58030", "ERROR"),
    ],
)
def test_what_postgres_says_while_going_down_is_unknown(sqlstate: str, severity: str) -> None:
    assert not is_certainly_not_applied(postgres_error(sqlstate, severity))


@pytest.mark.parametrize(
    "error",
    [TimeoutError(), ConnectionResetError(), asyncpg.ConnectionDoesNotExistError("x"), asyncpg.InterfaceError("x")],
)
def test_a_connection_that_failed_says_nothing(error: Exception) -> None:
    assert not is_certainly_not_applied(error)


def test_an_argument_that_cannot_be_encoded_was_never_sent() -> None:
    assert is_certainly_not_applied(asyncpg.DataError("invalid input for query argument $1"))
