"""A server whose configuration changes under a running soak: an event, a metric, a note, and no violation."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

import asyncpg
import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from soak.checker.contract import Contract
from soak.contracts.guarantees import WATCHED_SETTINGS
from soak.verifier import drift
from tests.support.servers.reconfigured import reconfigurable
from tests.support.verifying import Soaking, Verifying, found_kinds, verifying

if TYPE_CHECKING:
    from tests.support.servers.testbed_thread import TestbedThread

TALK = "talk-chat"
EVERYSEC = Contract(crash_loss_seconds=2.0, power_loss_seconds=2.0)


@pytest.fixture
async def client(redis_url: str) -> AsyncIterator[Any]:
    async with reconfigurable(redis_url) as client:
        yield client


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask the servers more often than in earnest, to save time."""
    monkeypatch.setattr(drift, "SAMPLE_SECONDS", 0.3)


def test_two_samples_and_two_answers_that_are_late_come_within_ten_seconds() -> None:
    assert 2 * (drift.SAMPLE_SECONDS + drift.ANSWER_SECONDS_MAX) < 10.0
    # Who the nodes are, and what they say.
    late_seconds = 2 * drift.ANSWER_SECONDS_MAX + drift.PAUSE_SECONDS_MIN
    assert 2 * max(drift.NODES_SECONDS, late_seconds) < 10.0


async def metric(verifier: Verifying, name: str, **labels: str) -> float:
    """Return the one sample with these labels; that it is there at all is part of the test."""
    families = text_string_to_metric_families((await verifier.get("/metrics")).decode())
    (value,) = (one.value for family in families for one in family.samples if (one.name, one.labels) == (name, labels))
    return float(value)


async def eventually(verifier: Verifying, condition: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    """Wait, on a busy machine for longer than the ten seconds that are promised."""
    for _ in range(2):
        with contextlib.suppress(AssertionError):
            return await verifier.until(condition)
    return await verifier.until(condition)


def drifted(status: dict[str, Any], server: str = "redis") -> dict[str, str]:
    found: dict[str, str] = status["configurations"].get(server, {}).get("drifted", {})
    return found


async def test_a_log_that_is_switched_off_is_found_and_is_over_when_it_is_on_again(
    client: Any, soaking: Soaking
) -> None:
    async with soaking(contract=EVERYSEC) as script:
        await script.open(TALK)
        await script.say(TALK, 5)
        async with verifying(script) as verifier:
            await verifier.until(lambda status: "redis" in status["configurations"])
            for setting in WATCHED_SETTINGS["redis"]:
                assert await metric(verifier, "soak_configuration_drift", server="redis", setting=setting) == 0
            assert await metric(verifier, "soak_configuration_drifts_total", server="redis") == 0
            assert await metric(verifier, "soak_contract_unmet", store="redis-list", clause="crash") == 0
            await client.config_set("appendonly", "no")
            status = await eventually(verifier, lambda now: drifted(now) == {"appendonly": "no"})
            assert "appendonly was changed to no while the soak runs, it was yes" in status["events"][-1]["text"]
            assert any("promises at most 2s lost after a crash" in warning for warning in status["warnings"])
            assert status["contracts"]["redis-list"]["unmet"]
            assert await metric(verifier, "soak_configuration_drift", server="redis", setting="appendonly") == 1
            assert await metric(verifier, "soak_configuration_drift", server="redis", setting="save") == 0
            assert await metric(verifier, "soak_configuration_drifts_total", server="redis") == 1
            assert await metric(verifier, "soak_contract_unmet", store="redis-list", clause="crash") == 1
            await client.config_set("appendonly", "yes")
            status = await eventually(verifier, lambda now: drifted(now) == {})
            assert await metric(verifier, "soak_configuration_drift", server="redis", setting="appendonly") == 0
            assert await metric(verifier, "soak_contract_unmet", store="redis-list", clause="crash") == 0
            assert not status["warnings"]
            verdict = await verifier.finish()
        assert (verdict.verdict, found_kinds(verdict), verdict.reasons) == ("pass", {}, [])
        assert any("appendonly was changed to no" in note for note in verdict.notes)
        assert any("appendonly is back at yes" in note for note in verdict.notes)


async def test_what_still_differs_at_the_end_is_a_warning_beside_the_verdict_and_survives_a_kill(
    client: Any, soaking: Soaking, often: None
) -> None:
    async with soaking(contract=EVERYSEC) as script:
        await script.open(TALK)
        await script.say(TALK, 5)
        async with verifying(script) as verifier:
            await verifier.until(lambda status: "redis" in status["configurations"])
            await client.config_set("save", "900 1")
            await eventually(verifier, lambda now: drifted(now) == {"save": "900 1"})
            await asyncio.sleep(1.0)  # a checkpoint
            await verifier.kill()
            verifier.start()
            await eventually(verifier, lambda now: drifted(now) == {"save": "900 1"})
            assert await metric(verifier, "soak_configuration_drifts_total", server="redis") == 1
            verdict = await verifier.finish()
        assert (verdict.verdict, found_kinds(verdict)) == ("pass", {})
        assert any("redis: save is 900 1" in reason for reason in verdict.reasons)


async def test_the_configuration_at_the_beginning_of_the_run_is_what_it_is_held_against(
    client: Any, soaking: Soaking, often: None
) -> None:
    async with soaking(contract=EVERYSEC) as script:
        header = msgspec.structs.replace(script.info.header, configurations={"redis": {"appendfsync": "always"}})
        script.info = msgspec.structs.replace(script.info, header=header)
        await script.open(TALK)
        await script.say(TALK, 1)
        async with verifying(script) as verifier:
            await eventually(verifier, lambda now: drifted(now) == {"appendfsync": "everysec"})
            await client.config_set("appendfsync", "always")
            await eventually(verifier, lambda now: drifted(now) == {})
            await verifier.finish()


async def test_what_a_planned_fault_changes_is_no_drift(client: Any, soaking: Soaking, often: None) -> None:
    async with soaking(contract=EVERYSEC) as script:
        await script.open(TALK)
        await script.say(TALK, 1)
        async with verifying(script) as verifier:
            await verifier.until(lambda status: "redis" in status["configurations"])
            await script.fault("eviction-1", "start", "eviction")
            await verifier.until(lambda status: status["faults_active"] != [])
            await client.config_set("maxmemory-policy", "allkeys-lru")
            for _ in range(3):
                status = await verifier.status()
                at = status["configurations"]["redis"]["sampled_seconds_ago"]
                await asyncio.sleep(0.7)
                assert drifted(await verifier.status()) == {}, at
            await client.config_set("maxmemory-policy", "noeviction")
            await script.fault("eviction-1", "end", "eviction")
            verdict = await verifier.finish()
        assert (verdict.verdict, verdict.notes) == ("pass", [])


async def test_asynchronous_commit_of_postgres_is_found(soaking: Soaking, postgres_url: str, often: None) -> None:
    connection: Any = await asyncpg.connect(postgres_url)
    try:
        async with soaking(store="postgres", contract=Contract(), servers={"postgres": postgres_url}) as script:
            await script.open(TALK)
            await script.say(TALK, 3)
            async with verifying(script) as verifier:
                await verifier.until(lambda status: "postgres" in status["configurations"])
                await connection.execute("alter system set synchronous_commit = off")
                await connection.execute("select pg_reload_conf()")
                await eventually(verifier, lambda now: drifted(now, "postgres") == {"synchronous_commit": "off"})
                assert (
                    await metric(verifier, "soak_configuration_drift", server="postgres", setting="synchronous_commit")
                    == 1
                )
                await connection.execute("alter system reset synchronous_commit")
                await connection.execute("select pg_reload_conf()")
                await eventually(verifier, lambda now: drifted(now, "postgres") == {})
                verdict = await verifier.finish()
            assert (verdict.verdict, found_kinds(verdict)) == ("pass", {})
    finally:
        await connection.execute("alter system reset synchronous_commit")
        await connection.execute("select pg_reload_conf()")
        await connection.close()


async def test_a_server_that_hangs_is_not_heard_and_nothing_else_stops(
    soaking: Soaking, testbed: TestbedThread, often: None
) -> None:
    pid = testbed.nodes["redis"].pid
    assert pid is not None
    async with soaking(contract=EVERYSEC) as script:
        await script.open(TALK)
        await script.say(TALK, 3)
        async with verifying(script) as verifier:
            await verifier.until(lambda status: "redis" in status["configurations"])
            os.kill(pid, signal.SIGSTOP)
            try:
                silent = lambda now: now["configurations"]["redis"]["sampled_seconds_ago"] > 3  # noqa: E731
                status = await eventually(verifier, silent)
                assert (drifted(status), status["totals"]["violations"]) == ({}, 0)
            finally:
                os.kill(pid, signal.SIGCONT)
            await eventually(verifier, lambda now: now["configurations"]["redis"]["sampled_seconds_ago"] < 2)
            verdict = await verifier.finish()
        assert (verdict.verdict, found_kinds(verdict)) == ("pass", {})
