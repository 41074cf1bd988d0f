"""Servers broken on purpose: they stay as they were put until they are started again."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING

import psutil
import pytest

from soak.errors import UsageError
from soak.servers.local import LocalServers
from soak.servers.server import LifecycleEvent, ServerState
from tests.support.servers.breaking import has, put, started, until

pytestmark = pytest.mark.long

if TYPE_CHECKING:
    from pathlib import Path

    from soak.servers.server import Server

LONGER_THAN_A_SUPERVISOR_WAITS_SECONDS = 0.6


def tree(server: Server) -> list[psutil.Process]:
    process = psutil.Process(server.pid)
    return [process, *process.children(recursive=True)]


def lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize("kind", ["redis", "postgres"])
@pytest.mark.parametrize("verb", ["kill", "stop_cleanly"])
async def test_a_planned_death_is_neither_told_nor_undone_by_the_supervisor(
    tmp_path: Path, kind: str, verb: str
) -> None:
    events: list[LifecycleEvent] = []
    async with started(tmp_path, kind, on_event=events.append) as testbed:
        server = testbed.nodes[kind]
        url = server.url
        await put(server)
        processes = tree(server)
        await getattr(server, verb)()
        assert not any(lives(process) for process in processes)
        await asyncio.sleep(LONGER_THAN_A_SUPERVISOR_WAITS_SECONDS)
        assert server.pid is None
        assert server.state is ServerState.STOPPED
        await server.start_again()
        assert server.state is ServerState.RUNNING
        assert server.url == url
        assert await has(server)
        assert (events, server.restarts) == ([], 0)
        # And it is watched again.
        assert server.pid
        os.kill(server.pid, signal.SIGKILL)
        await until(lambda: server.restarts == 1)
    assert [event.what for event in events] == ["died", "restarted"]


async def test_a_server_that_runs_is_not_started_again(tmp_path: Path) -> None:
    async with started(tmp_path, "redis") as testbed:
        server = testbed.nodes["redis"]
        pid = server.pid
        await server.start_again()
        assert server.pid == pid
        await server.kill()
        await server.kill()
        await asyncio.gather(server.start_again(), server.start_again())
        assert await has(server) is False


async def test_a_death_by_itself_is_followed_by_its_restart_even_if_a_planned_one_comes_between(
    tmp_path: Path,
) -> None:
    events: list[LifecycleEvent] = []
    async with started(tmp_path, "redis", on_event=events.append) as testbed:
        server = testbed.nodes["redis"]
        assert server.pid
        os.kill(server.pid, signal.SIGKILL)
        await until(lambda: bool(events))
        await server.kill()
        await server.start_again()
        await until(lambda: len(events) == 2)
    assert [event.what for event in events] == ["died", "restarted"]


@pytest.mark.parametrize("kind", ["redis", "postgres"])
async def test_a_paused_server_answers_nobody_until_it_is_resumed(tmp_path: Path, kind: str) -> None:
    async with started(tmp_path, kind) as testbed:
        server = testbed.nodes[kind]
        await put(server)
        await server.pause()
        # A child that had just ended is nobody who could answer.
        assert {process.status() for process in tree(server)} - {psutil.STATUS_ZOMBIE} == {psutil.STATUS_STOPPED}
        assert server.state is ServerState.PAUSED
        asking = asyncio.create_task(has(server))
        done, _ = await asyncio.wait([asking], timeout=0.3)
        assert not done
        await server.resume()
        assert await asking
        await server.resume()
        assert server.state is ServerState.RUNNING


async def test_a_paused_server_can_be_killed_and_stopped(tmp_path: Path) -> None:
    async with started(tmp_path, "redis", "postgres") as testbed:
        for server in testbed.nodes.values():
            await server.pause()
        await testbed.nodes["redis"].kill()
        assert testbed.nodes["redis"].pid is None
        await testbed.nodes["redis"].start_again()
        assert await has(testbed.nodes["redis"]) is False


@pytest.mark.parametrize("kind", ["redis", "postgres"])
async def test_a_wiped_server_comes_back_empty_under_the_same_address(tmp_path: Path, kind: str) -> None:
    async with started(tmp_path, kind) as testbed:
        server = testbed.nodes[kind]
        await put(server)
        with pytest.raises(UsageError, match="only while it is stopped"):
            await server.wipe()
        assert await has(server)
        await server.kill()
        await server.wipe()
        await server.start_again()
        assert await has(server) is False


@pytest.mark.parametrize("flavour", ["valkey", "redis"])
async def test_redis_options_replace_our_settings_but_not_those_of_the_ledger(tmp_path: Path, flavour: str) -> None:
    options = {"appendonly": "no", "save": "900 1 300 10", "maxmemory": "100mb", "hz": "20"}
    async with started(tmp_path, "redis", "ledger", redis_version=flavour, redis_options=options) as testbed:
        found = testbed.nodes["redis"].configuration
        assert found["appendonly"] == "no"
        assert found["save"] == "900 1 300 10"
        assert found["maxmemory"] == str(100 * 2**20)
        assert found["hz"] == "20"
        assert found["appendfsync"] == "everysec"
        assert testbed.nodes["ledger"].configuration["appendonly"] == "yes"
        assert testbed.nodes["ledger"].configuration["save"] == ""


async def test_postgres_options_replace_our_settings(tmp_path: Path) -> None:
    options = {"synchronous_commit": "off", "application_name": "it's"}
    async with started(tmp_path, "postgres", postgres_options=options) as testbed:
        found = testbed.nodes["postgres"].configuration
        assert found["synchronous_commit"] == "off"
        assert found["application_name"] == "it's"
        assert found["fsync"] == "on"


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"redis_options": {"port": "1"}}, "chosen by soak"),
        ({"redis_options": {"save": "900"}}, "no list of save points"),
        ({"redis_options": {"appendonly": "no\nport 1"}}, "holds a line break"),
        ({"postgres_options": {"listen_addresses": "*"}}, "chosen by soak"),
        ({"postgres_options": {"fsync = off\nport": "1"}}, "is no name of a PostgreSQL setting"),
    ],
)
def test_an_option_that_cannot_be_is_one_clear_line(
    tmp_path: Path, options: dict[str, dict[str, str]], complaint: str
) -> None:
    with pytest.raises(UsageError, match=complaint):
        LocalServers(tmp_path, **options)  # type: ignore[arg-type]
