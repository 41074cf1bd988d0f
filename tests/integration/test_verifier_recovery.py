"""What each restart took, measured against what is promised: by fault and store, in the result and the metrics."""

from __future__ import annotations

import asyncio
import io
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from rich.console import Console

from soak.checker import absorb
from soak.checker import session as checking
from soak.checker.contract import Contract
from soak.faults.catalogue import RECOVERY_KINDS
from soak.report.outcome import RunOutcome
from soak.report.summary import print_summary
from soak.verifier.result import Result
from tests.support.verifying import Script, Soaking, Verifying, found_kinds, verifying

TALK, TWIN = "talk-chat", "twin-chat"
MESSAGES = 6
LENIENT = Contract(crash_loss_seconds=30.0, power_loss_seconds=40.0)


async def samples(verifier: Verifying, name: str) -> dict[tuple[str, str], float]:
    families = text_string_to_metric_families((await verifier.get("/metrics")).decode())
    return {
        (one.labels["server"], one.labels["kind"]): one.value
        for family in families
        for one in family.samples
        if one.name == name
    }


async def fault(script: Script, name: str, kind: str = "crash") -> None:
    await script.fault(name, "start", kind)
    await script.fault(name, "end", kind)


def summary(result: Result) -> str:
    outcome = RunOutcome(
        run=result.run,
        verdict=result.verdict,
        exit_code=0,
        reasons=list(result.reasons),
        data_dir="here",
        finished=True,
        result=result,
    )
    told = io.StringIO()
    print_summary(outcome, Console(file=told, width=120))
    return told.getvalue()


async def until_measured(verifier: Verifying, count: int) -> list[dict[str, Any]]:
    status = await verifier.until(lambda now: len(now["recoveries"]) == count)
    found: list[dict[str, Any]] = status["recoveries"]
    return found


async def test_a_tolerated_tail_is_measured_from_its_oldest_message(soaking: Soaking) -> None:
    async with soaking(contract=LENIENT) as script:
        await script.say(TALK, MESSAGES)
        await script.say(TALK, 1, stored=False)
        await asyncio.sleep(0.4)
        await script.say(TALK, 2, stored=False)
        await fault(script, "crash-1")
        async with verifying(script) as verifier:
            (measured,) = await until_measured(verifier, 1)
            assert (measured["kind"], measured["server"], measured["store"]) == ("crash", "redis", "redis-list")
            assert (measured["tolerated"], measured["lost"], measured["kept"]) == (3, 0, True)
            assert measured["promised_seconds"] == 30.0
            assert 0.4 <= measured["point_seconds"] < 30.0
            assert not measured["is_at_least"]
            counts = await samples(verifier, "soak_recovery_point_seconds_count")
            assert counts == {("redis", kind): int(kind == "crash") for kind in RECOVERY_KINDS}
            sums = await samples(verifier, "soak_recovery_point_seconds_sum")
            assert sums["redis", "crash"] == pytest.approx(measured["point_seconds"], abs=0.001)
            assert set((await samples(verifier, "soak_recovery_point_exceeded_total")).values()) == {0}
            verdict = await verifier.finish()
        assert (verdict.verdict, len(verdict.recoveries)) == ("pass", 1)
        assert verdict.recoveries[0].point_seconds == measured["point_seconds"]
        assert "crash of redis" in summary(verdict)


async def test_a_fault_that_took_nothing_has_a_recovery_point_of_zero(soaking: Soaking) -> None:
    async with soaking(contract=Contract()) as script:
        await script.say(TALK, MESSAGES)
        async with verifying(script) as verifier:
            for kind in RECOVERY_KINDS:
                await fault(script, f"{kind}-1", kind)
            await fault(script, "pause-1", "pause")
            measured = await until_measured(verifier, len(RECOVERY_KINDS) + 1)
            assert {one["kind"] for one in measured} == {*RECOVERY_KINDS, "pause"}
            assert {(one["point_seconds"], one["tolerated"], one["kept"]) for one in measured} == {(0.0, 0, True)}
            counts = await samples(verifier, "soak_recovery_point_seconds_count")
            assert counts == {("redis", kind): 1 for kind in RECOVERY_KINDS}
            verdict = await verifier.finish()
        assert verdict.verdict == "pass"


async def test_a_fault_right_before_the_end_is_measured(soaking: Soaking) -> None:
    async with soaking(contract=Contract()) as script:
        await script.say(TALK, MESSAGES)
        async with verifying(script, settle=1.0) as verifier:
            await verifier.until_verified(MESSAGES)
            await fault(script, "crash-1")
            verdict = await verifier.finish()
        (measured,) = verdict.recoveries
        assert (verdict.verdict, measured.is_unread, measured.shown_point) == ("pass", False, "0s")


async def test_more_than_is_promised_is_measured_and_counted(soaking: Soaking) -> None:
    async with soaking(contract=Contract(crash_loss_seconds=0.2)) as script:
        await script.say(TALK, MESSAGES)
        await script.say(TALK, 2, stored=False)
        await asyncio.sleep(0.5)
        await fault(script, "crash-1")
        async with verifying(script) as verifier:
            (measured,) = await until_measured(verifier, 1)
            assert (measured["tolerated"], measured["lost"], measured["kept"]) == (0, 2, False)
            assert measured["point_seconds"] >= 0.5
            assert (await samples(verifier, "soak_recovery_point_exceeded_total"))["redis", "crash"] == 1
            verdict = await verifier.finish()
        assert found_kinds(verdict) == {"lost": 2}
        assert verdict.totals.tolerated == 0


async def test_each_loss_is_put_to_the_fault_that_took_it(soaking: Soaking) -> None:
    async with soaking(contract=LENIENT) as script:
        await script.open(TALK)
        await script.open(TWIN)
        await script.say(TALK, MESSAGES)
        async with verifying(script) as verifier:
            await verifier.until_verified(MESSAGES)
            await script.say(TALK, 1, stored=False)
            await fault(script, "crash-1")
            (first,) = await until_measured(verifier, 1)
            await script.say(TWIN, MESSAGES)
            await verifier.until_verified(2 * MESSAGES)
            await script.say(TWIN, 2, stored=False)
            await fault(script, "power-1", "power_cut")
            (again, second) = await until_measured(verifier, 2)
            verdict = await verifier.finish()
        assert again["write_seconds"] is not None  # what was said since has shown that it serves again
        assert {**again, "write_seconds": None} == {**first, "write_seconds": None}
        assert (first["fault"], first["tolerated"], second["fault"], second["tolerated"]) == (
            "crash-1",
            1,
            "power-1",
            2,
        )
        assert (first["promised_seconds"], second["promised_seconds"]) == (30.0, 40.0)
        assert (verdict.verdict, verdict.totals.tolerated) == ("pass", 3)


async def test_what_was_measured_survives_a_kill_of_the_verifier(soaking: Soaking) -> None:
    async with soaking(contract=LENIENT) as script:
        await script.say(TALK, MESSAGES)
        await script.say(TALK, 2, stored=False)
        await fault(script, "crash-1")
        async with verifying(script) as verifier:
            before = await until_measured(verifier, 1)
            await asyncio.sleep(1.0)  # a checkpoint
            await verifier.kill()
            verifier.start()
            assert await until_measured(verifier, 1) == before
            assert (await samples(verifier, "soak_recovery_point_seconds_count"))["redis", "crash"] == 1
            verdict = await verifier.finish()
        assert len(verdict.recoveries) == 1


async def test_a_loss_that_no_fault_can_have_taken_is_put_to_none(soaking: Soaking) -> None:
    async with soaking(contract=LENIENT) as script:
        said = await script.say(TALK, MESSAGES)
        async with verifying(script) as verifier:
            await verifier.until_verified(MESSAGES)
            await fault(script, "crash-1")
            await until_measured(verifier, 1)
            await verifier.until(lambda now: now["suspicions_open"] == 0)
            await script.remove(said[1])
            await verifier.until_found()
            verdict = await verifier.finish()
        assert found_kinds(verdict) == {"rolled_back": 1}
        (measured,) = verdict.recoveries
        assert (measured.lost, measured.point_seconds, measured.kept) == (0, 0.0, True)


async def test_contracts_and_how_they_were_obtained_are_told(soaking: Soaking) -> None:
    async with soaking(contract=Contract(crash_loss_seconds=None)) as script:
        await script.say(TALK, 1)
        async with verifying(script) as verifier:
            status = await verifier.until(lambda now: now["totals"]["verified"] == 1)
            told = status["contracts"]["redis-list"]
            assert told["obtained"] == "the store's own"
            durability = "crash: anything may be lost; power cut: nothing lost; failover: nothing lost"
            assert told["promises"]["durability"] == durability
            families = text_string_to_metric_families((await verifier.get("/metrics")).decode())
            found = {one.name: one for family in families for one in family.samples if "after" in one.labels}
            assert found["soak_contract_loss_seconds"].labels == {"store": "redis-list", "after": "failover"}
            assert await verifier.metric("soak_contract_loss_seconds", after="crash") == float("inf")
            assert await verifier.metric("soak_contract_loss_seconds", after="power_cut") == 0.0
            assert await verifier.metric("soak_contract_info", store="redis-list", obtained="the store's own") == 1
            verdict = await verifier.finish()
        assert verdict.contracts == {"redis-list": "the store's own"}


async def test_a_contract_of_many_minutes_is_judged_though_not_every_time_is_remembered(
    soaking: Soaking, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with saves alone: what is older than the contract allows is lost, what is younger is tolerated."""
    monkeypatch.setattr(checking, "EXACT_US", 100_000)
    monkeypatch.setattr(absorb, "SLOT_US", 500_000)
    contract = Contract(crash_loss_seconds=4.0)
    async with soaking(contract=contract) as script:
        await script.open(TALK)
        await script.open(TWIN)
        async with verifying(script) as verifier:
            await script.say(TWIN, MESSAGES)
            await asyncio.sleep(4.5)
            for _ in range(4):
                await script.say(TALK, MESSAGES)
                await script.say(TWIN, 1)
                await asyncio.sleep(0.3)
            count = 5 * MESSAGES + 4
            await verifier.until_verified(count)
            await script.fault("crash-1", "start")
            for session in (TALK, TWIN):
                await script.redis.delete(script.key(session))
            await script.fault("crash-1", "end")
            (measured,) = await until_measured(verifier, 1)
            verdict = await verifier.finish()
        assert (measured["tolerated"], measured["lost"], measured["kept"]) == (4 * MESSAGES + 4, MESSAGES, False)
        assert found_kinds(verdict) == {"rolled_back": MESSAGES}
        assert measured["point_seconds"] > 4.0
