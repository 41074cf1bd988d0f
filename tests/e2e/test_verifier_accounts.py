"""The verifier reads with accounts of its own that may only read; what it has to write is written as the load."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from soak.errors import ExitCode
from soak.servers.kinds import RedisTopology
from soak.servers.sentinel import SentinelGroup
from tests.support.checking import BUSY, checking
from tests.support.servers.breaking import client_of, sql

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.servers.testbed_thread import TestbedThread

READER, PASSWORD = "soak-reader", "s3cret:@/%"
RIGHTS = ("~soak_*", "+@read", "+@connection", "-@dangerous", "+info", "+config|get")
"""As docs/servers.md says."""
SEES_ALL = f"CREATE ROLE \"{READER}\" LOGIN PASSWORD '{PASSWORD}' IN ROLE pg_read_all_data"

SEES_READER = "select count(*) from pg_stat_activity where usename = 'soak-reader'"


async def make_redis_user(url: str, *rights: str) -> None:
    async with client_of(url) as client:
        await client.execute_command("ACL", "SETUSER", READER, "on", f">{PASSWORD}", *rights)


async def denied(url: str) -> list[Any]:
    async with client_of(url) as client:
        found: list[Any] = await client.execute_command("ACL", "LOG")
    return found


async def redis_users(url: str) -> set[str]:
    async with client_of(url) as client:
        return {one["user"] for one in await client.client_list()}


def words_for(testbed: TestbedThread) -> tuple[str, ...]:
    given = ("--redis", testbed.url("redis"), "--postgres", testbed.url("postgres"))
    return (*given, "--store", "redis-list", "--store", "postgres")


def logins(password: str = PASSWORD) -> dict[str, str]:
    login = f"{READER}:{password}"
    return {"SOAK_VERIFIER__REDIS_LOGIN": login, "SOAK_VERIFIER__POSTGRES_LOGIN": login}


@pytest.mark.long
def test_a_run_passes_and_its_canaries_are_found_with_accounts_that_may_only_read(
    new_testbed: Callable[..., TestbedThread],
) -> None:
    testbed = new_testbed()
    redis, postgres = testbed.url("redis"), testbed.url("postgres")
    asyncio.run(make_redis_user(redis, *RIGHTS))
    asyncio.run(sql(postgres, SEES_ALL))
    options = ("--set", "verifier.canary=2s", "--set", "verifier.recall_ages=2s", "--set", "load.session_messages=5")
    with checking(*words_for(testbed), "--duration", "5m", *BUSY, *options, **logins()) as check:
        check.until(lambda status: canaries(status) >= 2 and recalled(status))
        assert READER in asyncio.run(redis_users(redis))
        assert asyncio.run(sql(postgres, SEES_READER))
        told = check.end()
        assert PASSWORD not in check.output
    assert told["exit_code"] == ExitCode.PASS, told["reasons"]
    # Nothing was even tried that these accounts may not do.
    assert asyncio.run(denied(redis)) == []
    assert "permission denied" not in testbed.nodes["postgres"].log_path.read_text()


@pytest.mark.long
def test_an_account_that_may_only_read_does_on_a_sentinel_group_that_was_given(
    new_testbed: Callable[..., TestbedThread],
) -> None:
    testbed = new_testbed(redis_topology=RedisTopology.SENTINEL)
    url, group = testbed.url("redis"), testbed.nodes["redis"]
    assert isinstance(group, SentinelGroup)
    nodes = [node.own_url for node in group.servers]
    for node in nodes:  # accounts are not replicated
        asyncio.run(make_redis_user(node, *RIGHTS))
    words = ("--redis", url, "--store", "redis-list", "--set", "verifier.canary=2s", "--duration", "5m", *BUSY)
    with checking(*words, **logins()) as check:
        check.until(lambda status: canaries(status) >= 1)
        assert READER in asyncio.run(redis_users(nodes[0]))
        told = check.end()
        assert PASSWORD not in check.output
    assert told["exit_code"] == ExitCode.PASS, told["reasons"]
    assert [asyncio.run(denied(node)) for node in nodes] == [[], [], []]


def canaries(status: dict[str, Any]) -> int:
    verifier = status["verifier"] or {"canaries": []}
    return min((one["detected"] for one in verifier["canaries"]), default=0)


def recalled(status: dict[str, Any]) -> bool:
    """Whether sessions of both stores were recalled for the last time, which the verifier then removes."""
    return all(sum(ages.values()) > 3 for ages in status["verifier"]["recalls"].values())


@pytest.mark.long
@pytest.mark.parametrize(
    ("rights", "password", "why"),
    [(RIGHTS, "wrong", "refuses the login"), (("+@connection", "+info"), PASSWORD, "NOPERM")],
    ids=["a wrong password", "an account that may not read"],
)
def test_an_account_that_cannot_read_is_refused_in_one_line(
    new_testbed: Callable[..., TestbedThread], rights: tuple[str, ...], password: str, why: str
) -> None:
    testbed = new_testbed()
    asyncio.run(make_redis_user(testbed.url("redis"), *rights))
    words = ("--redis", testbed.url("redis"), "--store", "redis-list", "--duration", "10s")
    with checking(*words, **logins(password)) as check:
        assert check.process.wait(60) == ExitCode.UNREACHABLE
        line = check.output.strip().splitlines()[-1]
    assert "the verifier cannot read redis-list with its own login" in line
    assert why in line
    assert "verifier.redis_login" in line
    assert password not in line
    assert str(urlsplit(testbed.url("redis")).password) not in line
