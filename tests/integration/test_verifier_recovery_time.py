"""How long a server was away for its clients, and what became of what they asked meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from prometheus_client.parser import text_string_to_metric_families

from soak.checker.faults import Excuse, Promotion
from soak.checker.outcome import Outcome
from soak.faults.catalogue import ALL
from soak.ledger.records import FaultPhase
from tests.support.verifying import Script, Soaking, Verifying, now_us, verifying

TALK = "talk-chat"
MESSAGES = 4


async def labelled(verifier: Verifying, name: str) -> dict[tuple[str, ...], float]:
    families = text_string_to_metric_families((await verifier.get("/metrics")).decode())
    labels = ("server", "kind", "operation")
    return {
        tuple(one.labels[label] for label in labels if label in one.labels): one.value
        for family in families
        for one in family.samples
        if one.name == name
    }


async def until_served(verifier: Verifying) -> dict[str, Any]:
    def is_known(status: dict[str, Any]) -> bool:
        return any(one["read_seconds"] and one["write_seconds"] for one in status["recoveries"])

    status = await verifier.until(is_known)
    found: dict[str, Any] = status["recoveries"][0]
    return found


async def crash_with_unknown_writes(script: Script, verifier: Verifying) -> None:
    """Let a server be away for half a second in which one append is applied and two are not, and nobody knows."""
    await script.say(TALK, MESSAGES)
    await verifier.until_verified(MESSAGES)
    await script.fault("crash-1", "start")
    await script.say(TALK, 1)  # it was answered before the server had died: that proves nothing
    await script.fault("crash-1", "injected")
    await script.say(TALK, 1, outcome=Outcome.UNKNOWN)
    await script.say(TALK, 2, outcome=Outcome.UNKNOWN, stored=False)
    await asyncio.sleep(0.5)
    await script.fault("crash-1", "end")
    await script.say(TALK, 1)


async def test_writes_are_timed_by_the_ledger_reads_by_a_probe_and_unknown_writes_are_followed(
    soaking: Soaking,
) -> None:
    async with soaking() as script, verifying(script) as verifier:
        await script.open(TALK)
        await crash_with_unknown_writes(script, verifier)
        measured = await until_served(verifier)
        assert 0.5 <= measured["lasted_seconds"] <= measured["write_seconds"]
        assert 0.0 < measured["read_seconds"] < measured["write_seconds"], "the server answered reads all the time"
        verdict = await verifier.finish()
        (told,) = verdict.recoveries
        assert (told.unknown, told.surfaced, told.kept) == (3, 1, True)
        assert verdict.verdict == "pass"


async def test_every_label_set_is_there_from_the_start_and_what_was_measured_survives_a_kill(soaking: Soaking) -> None:
    async with soaking() as script, verifying(script) as verifier:
        await script.open(TALK)
        kinds = {fault.kind for fault in ALL.values() if "redis" in fault.targets}
        everywhere = {("redis", kind) for kind in kinds}
        await verifier.until(lambda status: status["state"] == "following")
        times = await labelled(verifier, "soak_recovery_time_seconds_count")
        assert times == {(*one, operation): 0 for one in everywhere for operation in ("read", "write")}
        for name in ("soak_faults_injected_total", "soak_fault_failures_total"):
            assert await labelled(verifier, name) == dict.fromkeys(everywhere, 0)
        await crash_with_unknown_writes(script, verifier)
        before = await until_served(verifier)
        await asyncio.sleep(1.0)  # a checkpoint
        await verifier.kill()
        verifier.start()
        after = await until_served(verifier)
        assert (after["read_seconds"], after["write_seconds"]) == (before["read_seconds"], before["write_seconds"])
        times = await labelled(verifier, "soak_recovery_time_seconds_count")
        assert (times["redis", "crash", "read"], times["redis", "crash", "write"]) == (1, 1)
        assert (await labelled(verifier, "soak_faults_injected_total"))["redis", "crash"] == 1
        assert (await verifier.finish()).verdict == "pass"


async def test_a_store_that_is_not_seen_to_serve_again_is_told_as_recovering(soaking: Soaking) -> None:
    async with soaking() as script, verifying(script) as verifier:
        await script.say(TALK, MESSAGES)
        await script.fault("crash-1", "start")
        await script.fault("crash-1", "injected")
        await script.fault("crash-1", "end")
        quiet = await verifier.until(lambda status: [one for one in status["recovering"] if one["awaits"] == ["write"]])
        assert not quiet["recovering"][0]["is_failing"], "nobody has asked in vain"
        await script.say(TALK, 1, outcome=Outcome.FAILED, stored=False)
        await verifier.until(lambda status: any(one["is_failing"] for one in status["recovering"]))
        await script.say(TALK, 1)
        await verifier.until(lambda status: status["recovering"] == [])


async def test_a_fault_that_could_not_be_injected_makes_the_run_inconclusive_and_says_which(soaking: Soaking) -> None:
    async with soaking() as script, verifying(script) as verifier:
        await script.say(TALK, MESSAGES)
        reason = "crash of redis could not be injected: nobody home"
        await script.journal.fault(
            FaultPhase(
                fault="f",
                kind="crash",
                target="redis",
                phase="failed",
                at=now_us(),
                excuses=Excuse.CRASH,
                promotes=Promotion.NONE,
                telemetry={"reason": reason},
            )
        )
        await verifier.until(lambda status: status["fault_failures"] == [reason])
        assert (await labelled(verifier, "soak_fault_failures_total"))["redis", "crash"] == 1
        verdict = await verifier.finish()
        assert verdict.verdict == "inconclusive"
        assert "1 scheduled faults could not be injected, or not be healed" in verdict.reasons
        assert reason in verdict.reasons


async def test_a_fault_that_began_after_the_last_sign_of_life_of_a_killed_daemon_is_over_with_its_server(
    soaking: Soaking,
) -> None:
    async with soaking() as script, verifying(script) as verifier:
        await script.say(TALK, MESSAGES)
        last_sign = now_us()
        await script.fault("pause-1", "start", "pause")
        await script.fault("pause-1", "injected", "pause")
        await verifier.until(lambda status: len(status["faults_active"]) == 1)
        restart = FaultPhase(
            fault="restart-1",
            kind="restart",
            target="redis",
            phase="start",
            at=last_sign,
            excuses=Excuse.CRASH,
            promotes=Promotion.NONE,
            planned=False,
        )
        await script.journal.fault(restart)
        await script.journal.fault(msgspec.structs.replace(restart, phase="end", at=now_us()))
        await verifier.until(lambda status: status["faults_active"] == [])
        assert (await verifier.finish()).verdict == "pass"
