from __future__ import annotations

import asyncio

import pytest

from soak.ledger import writer
from tests.support.verifying import Soaking, verifying

AGE_MAX = 2.5


async def test_a_verifier_that_was_down_while_the_load_went_on_was_too_far_behind(soaking: Soaking) -> None:
    async with (
        soaking() as script,
        verifying(script, unverified_age_max=AGE_MAX) as verifier,
    ):
        await script.say("a", 1)
        await verifier.until_verified(1)
        await asyncio.sleep(0.5)  # a checkpoint knows it
        await verifier.kill()
        for _ in range(8):
            await script.say("a", 1)
            await asyncio.sleep(0.5)
        verifier.start()
        await verifier.until_verified(9)
        verdict = await verifier.finish()
    assert verdict.verdict == "inconclusive"
    assert "had to wait for" in verdict.reasons[0]
    assert AGE_MAX < verdict.longest_unverified_seconds < 10.0
    assert verdict.oldest_unverified_seconds == 0.0, "all was verified in the end"


async def test_time_in_which_the_whole_run_was_down_does_not_count(
    soaking: Soaking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "HEARTBEAT_SECONDS", 600.0)  # as of a load that is dead
    async with (
        soaking() as script,
        verifying(script, unverified_age_max=AGE_MAX) as verifier,
    ):
        await script.say("a", 1)
        await verifier.until_verified(1)
        await asyncio.sleep(0.5)
        await verifier.kill()
        await script.say("a", 3)
        await asyncio.sleep(AGE_MAX + 1.5)
        await script.say("a", 1)  # the load is there again a little before the verifier
        verifier.start()
        await verifier.until_verified(5)
        verdict = await verifier.finish()
    assert (verdict.verdict, verdict.reasons) == ("pass", [])
    assert verdict.longest_unverified_seconds < AGE_MAX
