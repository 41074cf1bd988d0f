"""Acknowledged messages that nobody has read yet are bounded: past the bound the load is held back, and that shows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from soak.checker.outcome import Outcome
from soak.ledger.reader import LedgerReader
from soak.verifier.progress import Backpressure
from tests.support.verifying import SECONDS_MAX, Script, Soaking, now_us, verifying

UNREAD_MAX = 1_000


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(SECONDS_MAX):
        while not is_so():
            await asyncio.sleep(0.02)


def acknowledge(script: Script, session: str, count: int) -> None:
    """Record acknowledgements of messages nobody has to have stored."""
    number = script.numbers[session]
    for seq in range(1, count + 1):
        script.writer.attempted(number, 0, seq, Outcome.OK, now_us(), now_us())


async def test_writers_wait_once_too_much_is_unread_and_go_on_when_most_of_it_is_read(
    soaking: Soaking, ledger_url: str
) -> None:
    unread = 0
    async with soaking() as script:
        reader = await LedgerReader.connect(ledger_url, script.info.header.run)
        backpressure = Backpressure(reader, lambda: unread, lambda: 1.5, lambda: UNREAD_MAX)
        running = asyncio.create_task(backpressure.run())
        try:
            for unread, is_held in ((999, False), (1_000, True), (900, True), (799, False)):
                await until(lambda now=unread: backpressure.unread == now)  # type: ignore[misc]
                assert backpressure.is_holding is is_held
                assert bool(backpressure.warning) is is_held
                await until(lambda held=is_held: script.writer.stalled is held)  # type: ignore[misc]
            assert script.writer.progress is not None
            assert script.writer.progress.oldest_unread_seconds == 1.5
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await reader.close()
    assert backpressure.held_back == 1


async def test_a_verifier_that_cannot_read_as_fast_holds_the_load_back_and_says_so(soaking: Soaking) -> None:
    slow = {"unread_max": UNREAD_MAX, "hot_interval": 30.0, "coverage": 60.0}
    async with soaking() as script, verifying(script, **slow) as verifier:
        await script.open("talk")
        await script.writer.lease(script.numbers["talk"], 0, 5_000)
        acknowledge(script, "talk", 2_000)
        await until(lambda: script.writer.stalled)
        status = await verifier.until(lambda status: status["load_held_back"])
        assert status["unread"] == 2_000
        assert any("the load is held back: 2,000 acknowledged" in line for line in status["warnings"])
        assert await verifier.metric("soak_load_held_back") == 1
        assert await verifier.metric("soak_unread_messages") == 2_000
        opening = asyncio.create_task(script.writer.open_session("more", script.store, 1))
        done, _ = await asyncio.wait({opening}, timeout=0.5)
        assert not done
        # A verifier that is gone is not waited for: then the ledger's own size is the bound.
        await verifier.kill()
        await asyncio.wait_for(opening, SECONDS_MAX)


@pytest.mark.parametrize("unread", [0, 5])
async def test_without_a_ledger_nothing_is_said_and_nothing_fails(
    soaking: Soaking, ledger_url: str, unread: int
) -> None:
    async with soaking() as script:
        reader = await LedgerReader.connect(ledger_url, script.info.header.run)
        await reader.close()
        reader._connection.redis.connection_pool.connection_kwargs["port"] = 1
        backpressure = Backpressure(reader, lambda: unread, lambda: 0.0, lambda: UNREAD_MAX)
        await backpressure.publish()
    assert backpressure.unread == unread
