"""Workers and daemons on other hosts, against real servers: converted or undecided, and never a false alarm."""

from __future__ import annotations

import asyncio

import pytest

from soak.checker.contract import Contract
from soak.clock import now_us
from soak.ledger import run as ledger_run
from soak.ledger import writer as ledger_writer
from soak.ledger.clock import ClockReading, LedgerClock
from soak.ledger.records import Host
from tests.support.verifying import Soaking, found_kinds, verifying

TAIL = Contract(crash_loss_seconds=2.0, power_loss_seconds=2.0)
ELSEWHERE = Host("elsewhere", "another-boot")


class OtherHost:
    """Lets whoever writes to the ledger be on another host, whose clock is so far ahead of the verifier's."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, ahead_us: int, error_us: int = 0) -> None:
        self.ahead_us = ahead_us
        self.error_us = error_us
        for module in (ledger_run, ledger_writer):
            monkeypatch.setattr(module, "this_host", lambda: ELSEWHERE)
        monkeypatch.setattr("tests.support.verifying.now_us", lambda: now_us() + self.ahead_us)
        measured = LedgerClock.reading

        def reading(clock: LedgerClock) -> ClockReading | None:
            known = measured(clock)
            if known is None:
                return None
            return ClockReading(known.offset_us - self.ahead_us, known.error_us + self.error_us)

        monkeypatch.setattr(LedgerClock, "reading", reading)


@pytest.mark.parametrize("ahead_us", [-5_000, 300_000_000])
async def test_what_a_crash_may_take_is_tolerated_and_a_hole_found_though_load_and_daemon_are_on_another_host(
    ahead_us: int, soaking: Soaking, monkeypatch: pytest.MonkeyPatch
) -> None:
    OtherHost(monkeypatch, ahead_us)
    async with soaking(contract=TAIL) as script:
        async with verifying(script) as verifier:
            for session in ("tail", "hole"):
                await script.open(session)
            early = await script.say("hole", 5)
            await verifier.until_verified(5)
            await asyncio.sleep(TAIL.crash_loss_seconds or 0.0)
            late = await script.say("tail", 3)
            await script.fault("one", "start")
            await asyncio.sleep(0.1)
            for message in (*late, early[2]):
                await script.remove(message)
            await script.fault("one", "end")
            await script.say("tail", 2)
            verdict = await verifier.finish()
        assert found_kinds(verdict) == {"rolled_back": 1}, verdict
        assert (verdict.totals.tolerated, verdict.totals.undecided) == (3, 0)


async def test_a_host_whose_clock_is_not_known_well_enough_is_undecided_and_everybody_can_see_it(
    soaking: Soaking, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = OtherHost(monkeypatch, 7_000_000, error_us=300_000)
    async with soaking(contract=TAIL) as script:
        async with verifying(script) as verifier:
            await script.open("during")
            (lost, *_) = await script.say("during", 3)
            await script.remove(lost)
            status = await verifier.until(lambda status: status["totals"]["undecided"] >= 3)
            assert [(one["host"], one["is_uncertain"]) for one in status["clocks"]] == [("elsewhere", True)]
            (warning,) = status["warnings"]
            assert warning.startswith("the clock of elsewhere is known to within 30"), warning
            metrics = (await verifier.get("/metrics")).decode()
            (error,) = [line for line in metrics.splitlines() if line.startswith('soak_clock_error_seconds{host="else')]
            assert 0.3 <= float(error.split()[-1]) < 0.4
            other.error_us = 0
            await script.say("after", 4)
            await verifier.until_verified(4)
            verdict = await verifier.finish()
        assert (verdict.verdict, found_kinds(verdict)) == ("inconclusive", {})
        assert verdict.reasons[:2] == [
            "the clock of elsewhere was uncertain by more than clock.error_max = 0.25s",
            "3 acknowledged messages were not judged: their times cannot be compared",
        ]


async def test_a_host_that_was_suspended_makes_its_open_sessions_undecided_and_accuses_nobody(
    soaking: Soaking, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = OtherHost(monkeypatch, 60_000_000)
    async with soaking(contract=TAIL) as script:
        async with verifying(script) as verifier:
            await script.say("open", 4)
            await verifier.until_verified(4)
            other.ahead_us -= 30_000_000
            await script.say("open", 2)
            await script.say("later", 4)
            await verifier.until_verified(8)
            verdict = await verifier.finish()
        assert (verdict.verdict, found_kinds(verdict)) == ("inconclusive", {})
        assert verdict.reasons[:2] == [
            "the clock of elsewhere jumped: it was suspended, or moved",
            "2 acknowledged messages were not judged: their times cannot be compared",
        ]


async def test_on_one_host_nothing_is_converted_and_nothing_is_widened(soaking: Soaking) -> None:
    async with soaking(contract=TAIL) as script:
        async with verifying(script) as verifier:
            await script.say("talk", 4)
            status = await verifier.until_verified(4)
            assert (status["clocks"], status["clock_epsilon_seconds"]) == ([], 0.0)
            verdict = await verifier.finish()
        assert (verdict.verdict, verdict.reasons) == ("pass", [])
