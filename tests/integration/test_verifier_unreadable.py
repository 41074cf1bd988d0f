"""A session whose reads raise is reported, and holds up nothing else."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from soak.checker.contract import Contract
from soak.checker.message import Stored
from soak.stores.redis_client import ReplyError
from soak.stores.redis_stores import RedisListStore
from tests.support.verifying import Script, Soaking, verifying

BROKEN, WHOLE = "broken-chat", "whole-chat"
LIVELY = [f"lively-{number}-chat" for number in range(6)]
MESSAGES = 8
FAILED_READS = 12


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
    soaking: Soaking,
) -> None:
    async with soaking(contract=Contract(crash_loss_seconds=30.0)) as script:
        await script.open(BROKEN)
        await script.open(WHOLE)
        await script.say(BROKEN, MESSAGES)
        said = await script.say(WHOLE, MESSAGES)
        async with verifying(script) as verifier:
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


class DownForOne(RedisListStore):
    """A list whose server says something of its own for one session, as a node of a cluster does."""

    layout = "down-for-one"
    says = ""

    async def history(self, session: str, last: int | None = None) -> Sequence[Stored]:
        if self.says and session == BROKEN:
            raise ReplyError(self.says)
        return await super().history(session, last)


async def test_what_a_server_says_of_itself_is_nothing_about_a_session(
    soaking: Soaking, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with soaking(store=f"{__name__}:DownForOne") as script:
        await script.open(BROKEN)
        await script.say(BROKEN, MESSAGES)
        async with verifying(script) as verifier:
            await verifier.until_verified(MESSAGES)
            async with talking(script):
                monkeypatch.setattr(DownForOne, "says", "CLUSTERDOWN The cluster is down")
                await script.say(BROKEN)  # which has to be read now
                status = await verifier.until(lambda status: _failed_reads(status) >= FAILED_READS)
                assert status["totals"]["violations"] == 0
                monkeypatch.setattr(DownForOne, "says", "ERR this list cannot be read")
                await verifier.until_found()


def _failed_reads(status: dict[str, Any]) -> int:
    return sum(one["count"] for one in status["store_errors"])
