"""Percentiles of a real ledger: apart inside and outside of faults, over several workers and a kill of the verifier."""

from __future__ import annotations

import asyncio
from typing import Any

from soak.ledger.writer import LedgerWriter
from soak.settings import LedgerSettings
from tests.support.verifying import Script, Soaking, verifying

TALK = "talk-chat"
SLOT_SECONDS = 0.25
THRESHOLDS = {
    "append_p99": "100ms",
    "append_p99_in_fault": "1s",
    "errors_in_fault": "50%",
    "errors": "1%",
    "recovery_time": "20s",
}


def timed(writer: LedgerWriter, count: int, seconds: float, *, failed: bool = False) -> None:
    for _ in range(count):
        writer.latency("redis-list", "append", seconds, failed)


def append_rows(status: dict[str, Any]) -> dict[bool, tuple[int, int]]:
    rows = [row for row in status["latencies"] if row["operation"] == "append"]
    return {row["in_fault"]: (row["count"], row["errors"]) for row in rows}


async def a_fault(script: Script) -> None:
    """Crash the server for a moment, in which one of two appends is refused and the other takes long."""
    await script.fault("f1", "start")
    await script.fault("f1", "injected")
    timed(script.writer, 5, 3.0)
    timed(script.writer, 5, 0.001, failed=True)
    await asyncio.sleep(SLOT_SECONDS)
    await script.say(TALK)
    await script.fault("f1", "end")


async def test_percentiles_and_thresholds_survive_a_kill_and_tell_faults_apart(
    soaking: Soaking, ledger_url: str
) -> None:
    async with soaking() as script:
        await script.say(TALK, 5)
        timed(script.writer, 99, 0.01)
        other = await LedgerWriter.connect(ledger_url, LedgerSettings())
        timed(other, 100, 0.02)
        await other.close()
        await asyncio.sleep(2 * SLOT_SECONDS)
        async with verifying(script, thresholds=THRESHOLDS) as verifier:
            await verifier.until(lambda status: append_rows(status) == {False: (199, 0)})
            await a_fault(script)
            await verifier.until(lambda status: append_rows(status).get(True) == (5, 5))
            await verifier.until_saved()
            await verifier.kill()
        async with verifying(script, thresholds=THRESHOLDS) as verifier:
            # The recovery may not have been saved: then it is over when this verifier sees it.
            await verifier.until(lambda status: not status["recovering"] and status["faults_total"])
            await asyncio.sleep(0.4 + 2 * SLOT_SECONDS)
            timed(script.writer, 1, 0.4)
            await verifier.until(lambda status: append_rows(status).get(False) == (200, 0))
            verdict = await verifier.finish()
        outside, inside = (row for row in verdict.latencies if row.operation == "append")
        assert (outside.in_fault, outside.count, outside.errors) == (False, 200, 0)
        assert outside.p50_seconds is not None
        assert outside.p99_seconds is not None
        assert abs(outside.p50_seconds - 0.02) <= 0.02 * 0.02
        assert abs(outside.p99_seconds - 0.02) <= 0.02 * 0.02
        assert outside.max_seconds == 0.4
        assert (inside.in_fault, inside.count, inside.errors, inside.max_seconds) == (True, 5, 5, 3.0)
        assert {one.name: one.state.value for one in verdict.thresholds} == {
            "append_p99": "met",
            "append_p99_in_fault": "missed",
            "errors_in_fault": "met",
            "errors": "met",
            "recovery_time": "met",
        }
        assert verdict.verdict == "threshold", verdict.reasons
        assert verdict.reasons == ["threshold missed: redis-list append_p99_in_fault: 2.97s, at most 1s"]


async def test_a_threshold_of_which_nothing_was_measured_is_no_pass(soaking: Soaking) -> None:
    async with soaking() as script:
        await script.say(TALK, 5)
        timed(script.writer, 1, 0.01)
        limits = {"search_p99": "1s", "append_p99": "1s", "staleness_p99": "1s", "postgres": {"append_p99": "1s"}}
        async with verifying(script, thresholds=limits) as verifier:
            await verifier.until_verified(5)
            verdict = await verifier.finish()
        assert verdict.verdict == "inconclusive"
        assert verdict.reasons == ["threshold not measured: search_p99: no samples, at most 1s"]
