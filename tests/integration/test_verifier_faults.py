"""What a crash may take, and what it may not: a contiguous tail inside the contract is tolerated, the rest is not."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from soak.checker import session
from soak.checker.contract import Contract
from soak.checker.message import Message
from soak.checker.outcome import Outcome
from soak.daemon.unplanned_faults import UnplannedFaults
from soak.faults.catalogue import ALL as FAULTS
from tests.support.verifying import Soaking, found_kinds, scripting, verifying

TALK, TWIN = "talk-chat", "twin-chat"
MESSAGES = 8
LENIENT = Contract(crash_loss_seconds=30.0)


async def test_a_lost_tail_that_nobody_had_seen_is_tolerated(soaking: Soaking) -> None:
    async with soaking(contract=LENIENT) as script:
        await script.open(TALK)
        await script.open(TWIN)
        await script.say(TALK, MESSAGES)
        await script.say(TWIN, MESSAGES)
        await script.say(TALK, 3, stored=False)
        await script.fault("crash-1", "start")
        await script.fault("crash-1", "end")
        async with verifying(script) as verifier:
            await verifier.until(lambda status: status["totals"]["tolerated"] == 3)
            assert await verifier.metric("soak_tolerated_losses_total") == 3
            verdict = await verifier.finish()
        assert (verdict.verdict, found_kinds(verdict)) == ("pass", {})


async def test_a_lost_tail_that_had_been_read_is_tolerated(soaking: Soaking) -> None:
    async with soaking(contract=LENIENT) as script:
        said = await script.say(TALK, MESSAGES)
        async with verifying(script) as verifier:
            await verifier.until_verified(MESSAGES)
            await script.fault("crash-1", "start")
            for message in said[-3:]:
                await script.remove(message)
            await script.fault("crash-1", "end")
            await verifier.until(lambda now: now["totals"]["tolerated"] + now["totals"]["violations"] == 3)
            verdict = await verifier.finish()
        assert (verdict.verdict, found_kinds(verdict), verdict.totals.tolerated) == ("pass", {}, 3)


async def test_a_tail_of_many_messages_inside_the_contract_is_tolerated(soaking: Soaking) -> None:
    contract = Contract(crash_loss_seconds=900.0)
    count = 700
    async with soaking(contract=contract) as script:
        await script.say(TALK, count)
        async with verifying(script) as verifier:
            await verifier.until_verified(count)
            await script.fault("crash-1", "start")
            await script.redis.ltrim(script.key(TALK), 0, 9)
            await script.fault("crash-1", "end")
            await verifier.until(lambda now: now["totals"]["tolerated"] + now["totals"]["violations"] == count - 10)
            verdict = await verifier.finish()
        assert (verdict.verdict, found_kinds(verdict), verdict.totals.tolerated) == ("pass", {}, count - 10)


async def test_an_unknown_append_that_was_seen_and_lost_in_a_crash_is_tolerated(soaking: Soaking) -> None:
    async with soaking(contract=LENIENT) as script:
        await script.say(TALK, MESSAGES)
        (unsure,) = await script.say(TALK, outcome=Outcome.UNKNOWN)
        async with verifying(script) as verifier:
            await verifier.until_verified(MESSAGES)
            await verifier.until(lambda status: status["totals"]["indeterminate"] == 0)
            await script.fault("crash-1", "start")
            await script.remove(unsure)
            await script.fault("crash-1", "end")
            await verifier.until(lambda now: now["totals"]["tolerated"] + now["totals"]["violations"] == 1)
            verdict = await verifier.finish()
        assert (verdict.verdict, found_kinds(verdict)) == ("pass", {})


@pytest.mark.parametrize("seen", [False, True], ids=["unseen", "seen"])
async def test_a_hole_is_a_violation_under_the_same_contract(
    *, seen: bool, redis_url: str, ledger_url: str, tmp_path: Path
) -> None:
    async with scripting(redis_url, ledger_url, contract=LENIENT) as script:
        said = await script.say(TALK, MESSAGES)
        if not seen:
            await script.remove(said[-2])
        async with verifying(script, tmp_path) as verifier:
            if seen:
                await verifier.until_verified(MESSAGES)
            await script.fault("crash-1", "start")
            if seen:
                await script.remove(said[-2])
            await script.fault("crash-1", "end")
            await verifier.until_found()
            verdict = await verifier.finish()
        assert found_kinds(verdict) == {"rolled_back" if seen else "lost": 1}
        assert verdict.totals.tolerated == 0
        (story,) = verifier.evidence()
        assert story["message"] == str(said[-2].name)
        assert [fault["kind"] for fault in story["faults"]] == ["crash"]


async def test_a_hole_is_one_too_when_what_survived_is_another_session(soaking: Soaking) -> None:
    async with soaking(contract=LENIENT) as script:
        await script.open(TALK)
        await script.open(TWIN)
        await script.say(TALK, MESSAGES)
        (gone,) = await script.say(TALK, stored=False)
        await script.say(TWIN, 1)
        await script.fault("crash-1", "start")
        await script.fault("crash-1", "end")
        async with verifying(script) as verifier:
            await verifier.until_found()
            verdict = await verifier.finish()
        assert found_kinds(verdict) == {"lost": 1}
        assert verifier.evidence()[0]["message"] == str(gone.name)


async def lose_tail(script: object, said: list[Message]) -> None:
    for message in said:
        await script.remove(message)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("contract", "kind"),
    [
        (Contract(crash_loss_seconds=0.001), "crash"),
        (Contract(), "crash"),
        (LENIENT, "pause"),
        (LENIENT, "power_cut"),
    ],
    ids=["further back than allowed", "nothing allowed", "a harmless fault", "another kind of fault"],
)
async def test_a_tail_outside_the_contract_is_a_violation(contract: Contract, kind: str, soaking: Soaking) -> None:
    async with soaking(contract=contract) as script:
        said = await script.say(TALK, MESSAGES)
        await asyncio.sleep(0.05)
        await script.remove(said[-1])
        await script.fault("fault-1", "start", kind)
        await script.fault("fault-1", "end", kind)
        async with verifying(script) as verifier:
            await verifier.until_found()
            verdict = await verifier.finish()
        assert (found_kinds(verdict), verdict.totals.tolerated) == ({"lost": 1}, 0)


async def test_what_is_acknowledged_after_the_recovery_is_never_excused(soaking: Soaking) -> None:
    async with soaking(contract=LENIENT) as script:
        await script.say(TALK, MESSAGES)
        await script.fault("crash-1", "start")
        await script.fault("crash-1", "end")
        await script.say(TALK, 1, stored=False)
        async with verifying(script) as verifier:
            await verifier.until_found()
            verdict = await verifier.finish()
        assert found_kinds(verdict) == {"lost": 1}


async def test_what_was_missing_before_the_crash_was_not_taken_by_it(soaking: Soaking) -> None:
    async with soaking(contract=LENIENT) as script:
        await script.say(TALK, MESSAGES)
        await script.say(TALK, 1, stored=False)
        async with verifying(script, settle=1.0) as verifier:
            await verifier.until(lambda status: status["suspicions_open"] == 1)
            await script.fault("crash-1", "start")
            await script.fault("crash-1", "end")
            await verifier.until(lambda now: now["totals"]["tolerated"] + now["totals"]["violations"] == 1)
            verdict = await verifier.finish()
        assert (found_kinds(verdict), verdict.totals.tolerated) == ({"lost": 1}, 0)


async def test_nothing_is_confirmed_while_a_fault_is_active(soaking: Soaking) -> None:
    async with soaking(contract=Contract()) as script:
        said = await script.say(TALK, MESSAGES)
        await script.remove(said[2])
        await script.fault("pause-1", "start", "pause")
        async with verifying(script) as verifier:
            status = await verifier.until(lambda status: status["suspicions_open"] == 1)
            assert status["faults_active"] == [{"kind": "pause", "target": "redis"}]
            reads = status["totals"]["reads"]
            status = await verifier.until(lambda status: status["totals"]["reads"] > reads + 3)
            assert status["totals"]["violations"] == 0
            await script.fault("pause-1", "end", "pause")
            await verifier.until_found()
            verdict = await verifier.finish()
        assert found_kinds(verdict) == {"lost": 1}


async def test_a_fault_whose_end_was_never_recorded_is_over_when_the_server_has_been_restarted_since(
    soaking: Soaking,
) -> None:
    """A daemon that is killed while a server is down cannot record that it came back; the next one notes a restart."""
    async with soaking(contract=Contract()) as script:
        said = await script.say(TALK, MESSAGES)
        await script.remove(said[2])
        await script.fault("crash-1", "start")
        await script.fault("restart-2", "start", "restart")
        await script.fault("restart-2", "end", "restart")
        async with verifying(script) as verifier:
            await verifier.until_found()
            verdict = await verifier.finish()
        assert found_kinds(verdict) == {"lost": 1}


async def test_what_survived_a_crash_and_vanishes_later_is_not_excused_by_it(soaking: Soaking) -> None:
    async with soaking(contract=LENIENT) as script:
        said = await script.say(TALK, MESSAGES)
        async with verifying(script) as verifier:
            await verifier.until_verified(MESSAGES)
            await script.fault("crash-1", "start")
            await script.fault("crash-1", "end")
            before = (await verifier.status())["totals"]["messages_read"]
            # Two whole reads: the sweep after the fault, and one in the rounds.
            await verifier.until(lambda now: now["totals"]["messages_read"] >= before + 2 * MESSAGES)
            await script.remove(said[-1])
            await verifier.until_found()
            verdict = await verifier.finish()
        assert (found_kinds(verdict), verdict.totals.tolerated) == ({"rolled_back": 1}, 0)


async def test_a_tail_is_tolerated_also_when_the_server_was_down_for_longer_than_times_are_kept(
    soaking: Soaking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "REMEMBER_SECONDS_MIN", 0.1)
    async with soaking(contract=Contract(crash_loss_seconds=1.0)) as script:
        said = await script.say(TALK, MESSAGES)
        async with verifying(script) as verifier:
            await verifier.until_verified(MESSAGES)
            said += await script.say(TALK, 1)
            await verifier.until_verified(MESSAGES + 1)
            await script.fault("crash-1", "start")
            await script.remove(said[-1])
            await asyncio.sleep(1.5)
            await script.fault("crash-1", "end")
            await verifier.until(lambda now: now["totals"]["tolerated"] + now["totals"]["violations"] == 1)
            verdict = await verifier.finish()
        assert (verdict.verdict, found_kinds(verdict), verdict.totals.tolerated) == ("pass", {}, 1)


async def test_a_loss_in_a_crash_is_confirmed_although_new_sessions_keep_beginning(soaking: Soaking) -> None:
    async with soaking(contract=Contract()) as script:
        said = await script.say(TALK, MESSAGES)

        async def open_more() -> None:
            for number in range(400):
                await script.open(f"new{number}-chat")
                await asyncio.sleep(0.02)

        async with verifying(script) as verifier:
            await verifier.until_verified(MESSAGES)
            await script.fault("crash-1", "start")
            await script.remove(said[2])
            await script.fault("crash-1", "end")
            opening = asyncio.create_task(open_more())
            await verifier.until_found()
            assert not opening.done(), "it was found while sessions still began"
            opening.cancel()
            await asyncio.gather(opening, return_exceptions=True)
            verdict = await verifier.finish()
        assert found_kinds(verdict) == {"rolled_back": 1}


def active(status: dict[str, Any]) -> list[str]:
    return [window["kind"] for window in status["faults_active"]]


@pytest.mark.parametrize("end", ["its own", "the next daemon"])
async def test_a_server_that_dies_within_a_fault_and_is_back_is_still_in_that_fault(soaking: Soaking, end: str) -> None:
    async with soaking(contract=LENIENT) as script:
        await script.say(TALK, MESSAGES)
        async with verifying(script) as verifier:
            await script.fault("full-1", "start", "disk_full")
            await script.fault("crash-1", "start", planned=False)
            await verifier.until(lambda now: active(now) == ["disk_full", "crash"])
            await script.fault("crash-1", "end", planned=False)
            await verifier.until(lambda now: active(now) == ["disk_full"])
            if end == "its own":
                await script.fault("full-1", "end", "disk_full")
            else:
                await script.fault("restart-1", "start", "restart", planned=False)
                await script.fault("restart-1", "end", "restart", planned=False)
            await verifier.until(lambda now: active(now) == [])
            verdict = await verifier.finish()
        assert (verdict.verdict, found_kinds(verdict)) == ("pass", {})


async def test_a_fault_that_was_healed_after_its_daemon_was_killed_is_over(soaking: Soaking) -> None:
    async with soaking() as script:
        await script.say(TALK, MESSAGES)
        async with verifying(script) as verifier:
            await script.fault("partition-1", "start", "partition")
            await verifier.until(lambda now: active(now) == ["partition"])
            log = UnplannedFaults(lambda _text: None)
            log.healed_since(FAULTS["partition"], "redis")
            writing = asyncio.create_task(log.write_to(script.journal))
            await log.flush()
            writing.cancel()
            await verifier.until(lambda now: active(now) == [])
            verdict = await verifier.finish()
        assert (verdict.verdict, found_kinds(verdict)) == ("pass", {})


@pytest.mark.long
@pytest.mark.parametrize("dies", [False, True], ids=["goes on", "dies"])
async def test_what_is_acknowledged_while_syncs_fail_is_excused_by_a_death_only(
    *, dies: bool, redis_url: str, ledger_url: str, tmp_path: Path
) -> None:
    contract = Contract(crash_loss_seconds=0.0, power_loss_seconds=2.0)
    async with scripting(redis_url, ledger_url, contract=contract) as script:
        await script.say(TALK, MESSAGES)
        await script.fault("syncs-1", "start", "fsync_error")
        await script.say(TALK, 3, stored=False)
        if dies:
            await script.fault("crash-1", "start", planned=False)
            await script.fault("crash-1", "end", planned=False)
        await asyncio.sleep(contract.power_loss_seconds or 0.0)
        await script.fault("syncs-1", "end", "fsync_error")
        async with verifying(script, tmp_path) as verifier:
            await verifier.until(lambda now: now["totals"]["tolerated"] + now["totals"]["violations"] == 3)
            verdict = await verifier.finish()
        found = {} if dies else {"lost": 3}
        assert (found_kinds(verdict), verdict.totals.tolerated) == (found, 3 if dies else 0)
