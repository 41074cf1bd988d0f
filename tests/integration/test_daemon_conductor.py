"""Faults as the daemon carries them out, on real servers: healed always, told always, one of a kind at a time."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from soak.daemon import conductor as conducting
from soak.daemon.conductor import Conductor
from soak.errors import ServerUnreachableError, UsageError
from soak.faults import ALL, Fault
from soak.faults.crash import Crash
from soak.faults.schedule import Limits, Rule, Schedule
from soak.servers.local import LocalServers
from soak.servers.patroni import LOOP_WAIT_SECONDS, RETRY_SECONDS, TTL_SECONDS, PatroniGroup
from soak.servers.server import ServerState
from tests.support.servers.breaking import Journalled, client_of, journalled, running, until

if TYPE_CHECKING:
    from soak.servers.servers import Servers


class Heard:
    """What a conductor had to say."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.problems: list[str] = []
        self.aborts: list[str] = []


@contextlib.asynccontextmanager
async def conducted(
    folder: Path, ledger_url: str, *, recovery_max: float | None = None, healthy_min: float = 0.0
) -> AsyncIterator[tuple[Conductor, LocalServers, Journalled, Heard]]:
    heard = Heard()
    async with running(folder, "redis") as servers, journalled(ledger_url) as run:
        conductor = Conductor(
            servers,
            run.journal,
            Limits(healthy_min_seconds=healthy_min),
            recovery_max_seconds=recovery_max,
            say=heard.said.append,
            on_problem=heard.problems.append,
            abort=heard.aborts.append,
        )
        try:
            yield conductor, servers, run, heard
        finally:
            await conductor.finish()


async def serves(servers: LocalServers) -> bool:
    async with client_of(servers.nodes["redis"].url) as client:
        return bool(await client.ping())


async def test_the_schedule_is_carried_out_in_its_order_and_each_fault_is_healed(
    tmp_path: Path, ledger_url: str
) -> None:
    rules = [Rule(faults=(("crash", 1.0), ("pause", 1.0)), target="redis", every_seconds=0.3, hold_seconds=0.1)]
    limits = Limits(healthy_min_seconds=0.1)
    schedule, same = (Schedule(rules, limits, seed=3, began_wall_seconds=time.time()) for _ in range(2))
    planned = [action.fault for action, _ in zip(same.actions(), range(4), strict=False)]
    async with conducted(tmp_path, ledger_url, healthy_min=0.1) as (conductor, servers, run, _):
        following = asyncio.create_task(conductor.follow(schedule, 0.0))
        await until(lambda: sum(story.state == "healed" for story in conductor.recent) >= 4)
        assert conductor.upcoming is not None
        await conductor.finish()
        await following
        assert conductor.upcoming is None
        assert [story.name for story in conductor.recent][:4] == planned
        assert {(story.state, story.by) for story in conductor.recent} == {("healed", "schedule")}
        assert conductor.active == []
        assert conductor.scheduled - conductor.skipped == len(conductor.recent)
        assert await serves(servers)
        starts, ends = await run.phases("start"), await run.phases("end")
        assert [one.fault for one in starts] == [one.fault for one in ends]
        for end, start in zip(ends, starts[1:], strict=False):
            assert start.at - end.at >= 100_000, "there was no health between two faults"


async def test_by_hand_one_fault_at_a_time_and_nothing_once_it_is_finishing(tmp_path: Path, ledger_url: str) -> None:
    async with conducted(tmp_path, ledger_url) as (conductor, servers, _, _):
        first = asyncio.create_task(conductor.by_hand(ALL["pause"], "redis", 60.0))
        await until(lambda: servers.nodes["redis"].state is ServerState.PAUSED)
        assert conductor.active == ["pause of redis"]
        with pytest.raises(UsageError, match="pause of redis is active"):
            await conductor.by_hand(ALL["crash"], "redis", 0.0)
        with pytest.raises(UsageError, match="no postgres server was started here"):
            await conductor.by_hand(ALL["crash"], "postgres", 0.0)
        await conductor.finish()
        injected = await first
        assert injected.ended - injected.started < 60_000_000, "finishing cuts the waiting short"
        assert await serves(servers)
        with pytest.raises(UsageError, match="draining"):
            await conductor.by_hand(ALL["crash"], "redis", 0.0)


async def test_whoever_asked_may_leave_and_the_fault_is_healed_all_the_same(tmp_path: Path, ledger_url: str) -> None:
    async with conducted(tmp_path, ledger_url) as (conductor, servers, _, _):
        asking = asyncio.create_task(conductor.by_hand(ALL["pause"], "redis", 0.5))
        await until(lambda: servers.nodes["redis"].state is ServerState.PAUSED)
        asking.cancel()
        await until(lambda: bool(conductor.recent) and conductor.recent[0].state == "healed")
        assert await serves(servers)


class Reluctant(Crash):
    """Cannot be injected."""

    async def inject(self, servers: Servers, target: str) -> None:
        del servers, target
        raise ServerUnreachableError("nobody home")


class Incurable(Crash):
    """Cannot be healed."""

    async def heal(self, servers: Servers, target: str) -> None:
        del servers, target
        raise ServerUnreachableError("it does not start any more")


class Idle(Crash):
    """Would break nothing as the servers are now."""

    async def breaks_nothing(self, servers: Servers, target: str) -> str | None:
        del servers, target
        return "there is nothing between them now"


@pytest.mark.long
async def test_a_fault_that_would_break_nothing_now_is_skipped_and_refused_by_hand_and_is_no_failure(
    tmp_path: Path, ledger_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ALL, "crash", Idle())
    rules = [Rule(faults=(("crash", 1.0),), target="redis", every_seconds=0.2)]
    async with conducted(tmp_path, ledger_url) as (conductor, _, run, heard):
        with pytest.raises(UsageError, match="crash cannot be injected: there is nothing between them now"):
            await conductor.by_hand(ALL["crash"], "redis", 0.0)
        following = asyncio.create_task(
            conductor.follow(Schedule(rules, Limits(), seed=3, began_wall_seconds=time.time()), 0.0)
        )
        await until(lambda: conductor.skipped > 1)
        await conductor.finish()
        await following
        assert conductor.scheduled == conductor.skipped
        assert "fault skipped: crash of redis; there is nothing between them now" in heard.said
        assert (heard.problems, list(conductor.recent), await run.phases()) == ([], [], [])


@pytest.mark.parametrize(
    ("fault", "reason", "ends"),
    [
        (Reluctant(), "crash of redis could not be injected: nobody home", False),
        (Incurable(), "crash of redis could not be healed: it does not start any more", True),
    ],
)
async def test_a_fault_that_fails_is_told_to_the_ledger_and_one_that_is_not_healed_ends_the_run(
    tmp_path: Path, ledger_url: str, monkeypatch: pytest.MonkeyPatch, fault: Fault, reason: str, ends: bool
) -> None:
    monkeypatch.setitem(ALL, "crash", fault)
    async with conducted(tmp_path, ledger_url) as (conductor, servers, run, heard):
        with pytest.raises(ServerUnreachableError):
            await conductor.by_hand(ALL["crash"], "redis", 0.0)
        (failed,) = await run.phases("failed")
        assert (failed.kind, failed.target, failed.telemetry["reason"]) == ("crash", "redis", reason)
        assert heard.aborts == ([reason] if ends else [])
        assert heard.problems == [], "the ledger keeps it, so that a run that is resumed knows"
        assert conductor.recent[0].state == "failed"
        assert conductor.active == []
        await servers.nodes["redis"].start_again()


async def test_a_server_that_is_not_back_in_time_ends_the_run_as_inconclusive(tmp_path: Path, ledger_url: str) -> None:
    async with conducted(tmp_path, ledger_url, recovery_max=0.001) as (conductor, _, run, heard):
        await conductor.by_hand(ALL["crash"], "redis", 0.1)
        (problem,) = heard.problems
        assert problem.startswith("redis did not recover from crash within 0.001s")
        assert heard.aborts == [problem]
        (failed,) = await run.phases("failed")
        assert (failed.kind, failed.target, failed.telemetry["reason"]) == ("crash", "redis", problem)


async def test_a_group_has_the_time_of_a_failover_besides(
    tmp_path: Path, ledger_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with conducted(tmp_path, ledger_url, recovery_max=0.001) as (conductor, servers, _, heard):
        monkeypatch.setattr(type(servers.nodes["redis"]), "replacement_seconds", PatroniGroup.replacement_seconds)
        await conductor.by_hand(ALL["crash"], "redis", 0.1)
        assert heard.problems == []
    assert PatroniGroup.replacement_seconds == TTL_SECONDS + LOOP_WAIT_SECONDS + RETRY_SECONDS


async def test_what_falls_far_behind_is_passed_over(
    tmp_path: Path, ledger_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conducting, "LATE_SECONDS_MAX", -1.0)
    rules = [Rule(faults=(("crash", 1.0),), target="redis", every_seconds=0.1, hold_seconds=0.0)]
    async with conducted(tmp_path, ledger_url) as (conductor, _, run, heard):
        schedule = Schedule(rules, Limits(healthy_min_seconds=0.0), seed=1, began_wall_seconds=time.time())
        following = asyncio.create_task(conductor.follow(schedule, 0.0))
        await until(lambda: any("fault skipped" in line for line in heard.said))
        await conductor.finish()
        await following
        assert await run.phases() == []
        assert conductor.skipped == conductor.scheduled >= 1
