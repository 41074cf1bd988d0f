"""A fault from its beginning to its end: in the ledger, and healed whatever happens."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest

from soak.errors import ServerUnreachableError, UsageError
from soak.faults import ALL, during
from soak.faults.crash import Crash
from soak.faults.latency import Latency
from soak.faults.pause import Pause
from soak.servers.server import ServerState
from tests.support.servers.breaking import journalled, running, until

if TYPE_CHECKING:
    from pathlib import Path

    from soak.servers.servers import Servers


async def test_the_ledger_has_the_window_with_telemetry_from_before_and_after(tmp_path: Path, ledger_url: str) -> None:
    async with running(tmp_path, "redis") as servers, journalled(ledger_url) as run:
        before = time.monotonic_ns() // 1000
        injected = await during(Crash(), servers, "redis", run.journal, 0.1)
        after = time.monotonic_ns() // 1000
        start, end = await run.phases()
    assert (start.phase, end.phase) == ("start", "end")
    assert start.fault == end.fault == injected.fault
    assert (start.kind, start.target, start.planned) == (end.kind, end.target, end.planned) == ("crash", "redis", True)
    assert before <= start.at == injected.started
    assert start.at + 100_000 <= end.at == injected.ended <= after
    assert start.telemetry["run_id"] != end.telemetry["run_id"]


async def test_the_ledger_has_the_values_of_the_parameters(tmp_path: Path, ledger_url: str) -> None:
    async with running(tmp_path, "redis", proxied=True) as servers, journalled(ledger_url) as run:
        injected = await during(Latency(delay="5ms"), servers, "redis", run.journal, 0.0)
        start, end = await run.phases()
    assert start.parameters == end.parameters == injected.parameters
    assert start.parameters == {"delay": "5ms", "jitter": "0ms", "direction": "both"}


async def test_a_fault_that_is_not_possible_is_refused_before_anything_happens(tmp_path: Path, ledger_url: str) -> None:
    async with running(tmp_path, "redis") as servers, journalled(ledger_url) as run:
        for name, target, complaint in (
            ("replica_lag", "redis", "can happen to postgres-replica, not to redis"),
            ("crash", "postgres", "no postgres server was started here"),
            ("crash", "ledger", "can happen to redis or postgres or .*pgbouncer.* or http, not to ledger"),
            ("connection_refused", "redis", "start the servers with proxies"),
            ("dropped_reply", "redis", "start the servers with proxies"),
        ):
            with pytest.raises(UsageError, match=complaint) as caught:
                await during(ALL[name], servers, target, run.journal, 0.0)
            assert "\n" not in str(caught.value)
        assert await run.phases() == []


async def test_a_cancelled_fault_is_healed_and_its_window_closed(tmp_path: Path, ledger_url: str) -> None:
    async with running(tmp_path, "redis") as servers, journalled(ledger_url) as run:
        task = asyncio.create_task(during(Pause(), servers, "redis", run.journal, 600.0))
        await until(lambda: servers.nodes["redis"].state is ServerState.PAUSED)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert servers.nodes["redis"].state is ServerState.RUNNING
        assert [phase.phase for phase in await run.phases()] == ["start", "end"]


class Stubborn(Crash):
    """Heals only when it has been asked so many times."""

    def __init__(self, refusals: int) -> None:
        self.left = refusals

    async def heal(self, servers: Servers, target: str) -> None:
        self.left -= 1
        if self.left >= 0:
            raise ServerUnreachableError("not yet")
        await super().heal(servers, target)


async def test_healing_is_tried_again(tmp_path: Path, ledger_url: str) -> None:
    async with running(tmp_path, "redis") as servers, journalled(ledger_url) as run:
        await during(Stubborn(1), servers, "redis", run.journal, 0.0)
        assert servers.nodes["redis"].state is ServerState.RUNNING


async def test_the_window_of_a_fault_that_cannot_be_healed_stays_open(tmp_path: Path, ledger_url: str) -> None:
    async with running(tmp_path, "redis") as servers, journalled(ledger_url) as run:
        with pytest.raises(ServerUnreachableError, match="not yet"):
            await during(Stubborn(1_000), servers, "redis", run.journal, 0.0)
        assert [phase.phase for phase in await run.phases()] == ["start"]


@pytest.mark.parametrize("proxied", [True, False])
async def test_healing_what_never_happened_changes_nothing(tmp_path: Path, proxied: bool) -> None:
    async with running(tmp_path, "redis", proxied=proxied) as servers:
        server = servers.nodes["redis"]
        pid, configuration = server.pid, server.configuration
        for fault in ALL.values():
            if "redis" in fault.targets:
                await fault.heal(servers, "redis")
                await fault.heal(servers, "redis")
        assert (server.pid, await server.read_configuration()) == (pid, configuration)
