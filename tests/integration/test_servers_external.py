"""Servers that already run: asked freely, and broken only as far as their operator allows."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from soak import configuration, faults
from soak.daemon.bed import make_testbed
from soak.daemon.plan import make_plan
from soak.errors import ServerUnreachableError, UsageError
from soak.servers.external.backend import OperatorCommand
from soak.servers.external.servers import ExternalServers
from soak.servers.kinds import BackendKind
from soak.servers.local import LocalServers
from soak.servers.postgres import PostgresServer
from soak.servers.redis import RedisServer
from soak.servers.servers import CombinedServers
from tests.support.servers.breaking import client_of, started, until

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from soak.servers.servers import Servers

REFUSED = "others may be using it"


def operated(folder: Path, *kinds: str) -> AbstractAsyncContextManager[LocalServers]:
    """Run servers that an operator watches: they are started again when they die."""
    return started(folder / "operator", *kinds)


async def given(folder: Path, operator: LocalServers, **options: object) -> ExternalServers:
    servers = ExternalServers(folder, {kind: server.url for kind, server in operator.nodes.items()}, **options)  # type: ignore[arg-type]
    await servers.start(operator.nodes)
    return servers


async def run_id(url: str) -> str:
    async with client_of(url) as client:
        return str((await client.info("server"))["run_id"])


async def test_a_given_server_is_asked_and_otherwise_left_alone(tmp_path: Path) -> None:
    async with operated(tmp_path, "redis", "postgres") as operator:
        servers = await given(tmp_path, operator)
        assert (await servers.telemetry("redis"))["run_id"]
        for kind, server in servers.nodes.items():
            assert server.url == operator.nodes[kind].url
            assert await server.read_configuration()
            for verb in (server.kill, server.stop_cleanly, server.pause, server.wipe, server.cut_power):
                with pytest.raises(UsageError, match=REFUSED):
                    await verb()
            with pytest.raises(UsageError, match=REFUSED):
                _ = server.working_folder
            for name, fault in faults.ALL.items():
                if kind in fault.targets:
                    assert name in str(fault.unavailable(servers, kind))
                    assert REFUSED in str(fault.unavailable(servers, kind))
        crash = str(faults.ALL["crash"].unavailable(servers, "redis"))
        assert crash.endswith("whose container testbed.containers names"), "allowing it alone would not help"
        redis = servers.nodes["redis"]
        assert isinstance(redis, RedisServer)
        assert isinstance(servers.nodes["postgres"], PostgresServer)
        with pytest.raises(UsageError, match=REFUSED):
            await redis.change_settings({"maxmemory": "1mb"})
        await servers.stop()
        await servers.discard()
        assert {server.restarts for server in operator.nodes.values()} == {0}


async def test_an_allowed_fault_happens_over_the_wire_and_others_do_not(tmp_path: Path) -> None:
    async with operated(tmp_path, "redis", "postgres-replica") as operator:
        servers = await given(tmp_path, operator, allow_faults=["eviction", "replica_lag", "crash"])
        eviction, lag = faults.ALL["eviction"], faults.ALL["replica_lag"]
        assert eviction.unavailable(servers, "redis") is None
        await eviction.inject(servers, "redis")
        redis = servers.nodes["redis"]
        assert isinstance(redis, RedisServer)
        assert (await redis.get_settings("maxmemory-policy"))["maxmemory-policy"] == "allkeys-lru"
        await eviction.heal(servers, "redis")
        assert (await redis.get_settings("maxmemory-policy"))["maxmemory-policy"] == "noeviction"
        assert lag.unavailable(servers, "postgres-replica") is None
        await lag.inject(servers, "postgres-replica")
        await lag.heal(servers, "postgres-replica")
        assert "is for servers that soak starts" in str(faults.ALL["crash"].unavailable(servers, "redis"))
        assert "testbed.allow_faults" in str(faults.ALL["restart"].unavailable(servers, "redis"))


async def test_a_restart_is_done_by_the_operators_command_and_over_when_the_new_server_answers(tmp_path: Path) -> None:
    async with operated(tmp_path, "redis") as operator:
        server = operator.nodes["redis"]
        before = await run_id(server.url)
        # The command returns at once; whoever watches the server brings it back a little later.
        script = tmp_path / "restart with spaces.py"
        script.write_text(f"import os, sys\nprint('restarting', sys.argv[1])\nos.kill({server.pid}, 9)\n")
        command = OperatorCommand(f"{sys.executable} '{script}' the-{{server}}-$HOME")
        servers = await given(tmp_path, operator, allow_faults=["restart"], restart_command=command)
        restart = faults.ALL["restart"]
        assert restart.unavailable(servers, "redis") is None
        await restart.inject(servers, "redis")
        await restart.heal(servers, "redis")
        assert await run_id(server.url) != before
        assert "restarting the-redis-$HOME" in servers.nodes["redis"].log_path.read_text()
        await restart.heal(servers, "redis")
        await until(lambda: server.restarts == 1)


async def test_a_restart_that_is_allowed_but_not_possible_says_why(tmp_path: Path) -> None:
    async with operated(tmp_path, "redis") as operator:
        servers = await given(tmp_path, operator, allow_faults=["restart"])
        assert "testbed.restart_command" in str(faults.ALL["restart"].unavailable(servers, "redis"))
        for text, seconds, complaint in (
            ("/nowhere/restart", 9.0, "cannot be run"),
            (f"{sys.executable} -c 'raise SystemExit(\"no rights\")'", 60.0, "failed .exit status 1.: no rights"),
            (f"{sys.executable} -c 'import time; time.sleep(600)'", 0.2, "took longer than 0 s"),
        ):
            command = OperatorCommand(text, seconds)
            servers = await given(tmp_path, operator, allow_faults=["restart"], restart_command=command)
            with pytest.raises(ServerUnreachableError, match=complaint) as caught:
                await servers.nodes["redis"].stop_cleanly()
            assert "\n" not in str(caught.value)


def test_a_command_that_cannot_be_meant_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not understood"):
        OperatorCommand("restart 'redis")
    with pytest.raises(UsageError, match="is empty"):
        OperatorCommand("  ")
    addresses = {"redis": "redis://h:1", "postgres": "postgresql://h/x"}
    with pytest.raises(UsageError, match=r"write \{server\} where"):
        ExternalServers(tmp_path, addresses, restart_command=OperatorCommand("restart it"))


def planned(folder: Path, *assignments: str) -> Servers:
    settings = configuration.read(assignments=assignments, environ={}).settings
    plan = make_plan(settings, settings.stores.names)
    return make_testbed(settings, plan, folder, on_event=lambda _event: None, say=lambda _text: None)


async def test_given_servers_and_our_own_are_mixed_in_one_soak(tmp_path: Path) -> None:
    async with operated(tmp_path, "redis") as operator:
        address = operator.nodes["redis"].url
        servers = planned(tmp_path, f"servers.redis={address}", "testbed.allow_faults=eviction")
        assert isinstance(servers, CombinedServers)
        urls = await servers.start(["ledger", "redis", "postgres"])
        try:
            assert urls["redis"] == address
            assert faults.ALL["eviction"].unavailable(servers, "redis") is None
            assert REFUSED in str(faults.ALL["crash"].unavailable(servers, "redis"))
            assert faults.ALL["crash"].unavailable(servers, "postgres") is None
            await faults.ALL["crash"].inject(servers, "postgres")
            await faults.ALL["crash"].heal(servers, "postgres")
            assert await servers.telemetry("postgres")
            assert await servers.telemetry("redis")
        finally:
            await servers.stop()
            await servers.discard()
        assert servers.nodes == {}
        assert await run_id(address)


async def test_a_bed_that_cannot_start_leaves_the_others_stopped(tmp_path: Path) -> None:
    servers = planned(
        tmp_path, "testbed.kind=docker", "testbed.redis_image=soak-test-none:1", "stores.names=redis-list"
    )
    with pytest.raises(ServerUnreachableError):
        await servers.start(["ledger", "redis"])
    assert servers.nodes == {}


def test_the_settings_decide_where_servers_are(tmp_path: Path) -> None:
    assert planned(tmp_path).backend is BackendKind.LOCAL
    assert planned(tmp_path, "testbed.kind=docker").backend is BackendKind.COMBINED
    with pytest.raises(UsageError, match="there is no fault 'earthquake'"):
        planned(tmp_path, "servers.redis=redis://h:1", "testbed.allow_faults=earthquake")
