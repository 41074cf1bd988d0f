"""A session whose reads raise is reported, and holds up nothing else."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from soak.checker.contract import Contract
from tests.support.verifying import Script, scripting, verifying

BROKEN, WHOLE = "broken-chat", "whole-chat"
LIVELY = [f"lively-{number}-chat" for number in range(6)]
MESSAGES = 8


@contextlib.asynccontextmanager
async def talking(script: Script) -> AsyncIterator[None]:
    """Let others talk all the while, so that they are read all the while."""

    async def talk() -> None:
        while True:
            for session in LIVELY:
                await script.say(session)
                await asyncio.sleep(0.01)

    for session in LIVELY:
        await script.open(session)
    task = asyncio.create_task(talk())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_a_session_that_cannot_be_read_is_reported_and_holds_up_no_confirmation_after_a_crash(
    redis_url: str, ledger_url: str, tmp_path: Path
) -> None:
    async with scripting(redis_url, ledger_url, contract=Contract(crash_loss_seconds=30.0)) as script:
        await script.open(BROKEN)
        await script.open(WHOLE)
        await script.say(BROKEN, MESSAGES)
        said = await script.say(WHOLE, MESSAGES)
        async with verifying(script, tmp_path) as verifier:
            await verifier.until_verified(2 * MESSAGES)
            async with talking(script):
                # A key of another type: every read of this session raises WRONGTYPE from now on.
                await script.redis.set(script.key(BROKEN), "not a list")
                await verifier.until(lambda status: status["totals"]["violations"] == 1)
            await script.fault("crash-1", "start")
            await script.remove(said[-2])
            await script.fault("crash-1", "end")
            status = await verifier.until(lambda status: status["totals"]["violations"] == 2)
        assert {one["kind"] for one in status["violations_by"]} == {"undecodable", "rolled_back"}
