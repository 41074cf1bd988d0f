"""A ledger that comes back without its last records: what nobody has read is a gap, and accuses nobody."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis
from redis.exceptions import RedisError

from soak.checker.contract import Contract
from soak.ledger import writer as ledger_writer
from soak.ledger.connection import keys_of
from soak.ledger.writer import LedgerWriter
from soak.servers.binaries import valkey_server
from soak.servers.ports import free_port
from soak.settings import LedgerSettings
from soak.verifier import follower
from tests.support.verifying import found_kinds, scripting, verifying

LENIENT = Contract(crash_loss_seconds=30.0)
TALK, OTHER = "talk-chat", "other-chat"


class Snapshots:
    """A ledger that keeps what was there when it was last asked to save."""

    def __init__(self, folder: Path, *words: str) -> None:
        self._words = words
        self._folder = folder
        self._port = free_port()
        self.url = f"redis://127.0.0.1:{self._port}"
        self.redis: Any = Redis.from_url(self.url)
        self.process: subprocess.Popen[bytes] | None = None

    async def start(self) -> None:
        words = ["--port", str(self._port), "--bind", "127.0.0.1", "--save", "", "--dir", str(self._folder)]
        self.process = subprocess.Popen([str(valkey_server()), *words, *self._words], stdout=subprocess.DEVNULL)
        async with asyncio.timeout(20):
            while True:
                with contextlib.suppress(RedisError, OSError):
                    await self.redis.ping()
                    return
                await asyncio.sleep(0.02)

    def end(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    async def roll_back(self) -> None:
        self.end()
        await self.start()


@pytest.fixture
async def snapshots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Snapshots]:
    monkeypatch.setattr(follower, "DOUBT_SECONDS", 6.0)
    ledger = Snapshots(tmp_path)
    try:
        await ledger.start()
        yield ledger
    finally:
        ledger.end()
        await ledger.redis.aclose()


async def die(writer: LedgerWriter) -> None:
    """End a worker as a kill does: without a word."""
    for task in (writer._flusher, writer._measuring):
        task.cancel()
    await asyncio.wait([writer._flusher, writer._measuring])
    writer._flusher = asyncio.create_task(asyncio.sleep(0))  # so that it can be closed


@pytest.mark.long
async def test_a_tail_that_was_read_in_part_hides_nothing_of_what_was_not(
    snapshots: Snapshots, redis_url: str, tmp_path: Path
) -> None:
    """The ledger counts as many records as were read; and the worker whose last word is gone never speaks again."""
    async with scripting(redis_url, snapshots.url, data_dir=tmp_path) as script:
        run = script.info.header.run
        await script.say(TALK, 3)
        async with verifying(script) as verifier:
            await verifier.until_verified(3)
            await snapshots.redis.save()
            await script.say(TALK, 1)
            await verifier.until_verified(4)
            await asyncio.sleep(0.5)  # a checkpoint has it, too
            await verifier.kill()
            await script.forget(TALK)
            await die(script.writer)
            await snapshots.roll_back()
            script.writer = await LedgerWriter.connect(snapshots.url, LedgerSettings())
            await script.open(OTHER)
            while await snapshots.redis.xlen(keys_of(run).batches) < 30:
                await script.writer.lease(script.numbers[OTHER], 0, 32)
            await script.say(OTHER, 3)
            verifier.start()
            await verifier.until_verified(7)
            verdict = await verifier.finish()
    assert (verdict.verdict, found_kinds(verdict)) == ("inconclusive", {}), verdict
    assert any("the ledger has gaps" in reason for reason in verdict.reasons)
    assert verdict.totals.verified == 7


@pytest.mark.long
async def test_a_fault_whose_records_are_lost_together_is_on_record_again_and_still_excuses(
    snapshots: Snapshots, redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_writer, "HEARTBEAT_SECONDS", 1_000.0)  # the worker's own records are all there
    async with scripting(redis_url, snapshots.url, contract=LENIENT, data_dir=tmp_path) as script:
        await script.say(TALK, 3)
        async with verifying(script) as verifier:
            await verifier.until_verified(3)
            await asyncio.sleep(0.5)  # a checkpoint has it, too
            await verifier.kill()
            await script.say(TALK, 1, stored=False)
            await script.writer.lease(script.numbers[TALK], 0, 32)  # it is written
            await snapshots.redis.save()
            for phase in ("start", "injected", "end"):
                await script.fault("crash-1", phase)
            await snapshots.roll_back()
            verifier.start()
            await asyncio.sleep(4.5)
            await script.writer.lease(script.numbers[TALK], 0, 32)  # the worker lives
            await verifier.until(lambda status: status["totals"]["tolerated"])
            verdict = await verifier.finish()
    assert (verdict.verdict, verdict.totals.tolerated) == ("pass", 1), verdict


async def test_what_a_journal_writes_twice_is_counted_once(redis_url: str, ledger_url: str, tmp_path: Path) -> None:
    async with scripting(redis_url, ledger_url, contract=LENIENT, data_dir=tmp_path) as script:
        await script.say(TALK, 1)
        for phase in ("start", "injected", "failed", "end"):
            for _ in range(2):
                await script.fault("crash-1", phase)
        async with verifying(script) as verifier:
            await verifier.until_verified(1)
            counted = (
                await verifier.metric("soak_faults_injected_total"),
                await verifier.metric("soak_fault_failures_total"),
            )
            await verifier.finish()
    assert counted == (1, 1)


@pytest.mark.long
async def test_a_ledger_that_keeps_what_it_was_given_hides_no_loss_though_its_worker_died_with_it(
    redis_url: str, tmp_path: Path
) -> None:
    ledger = Snapshots(tmp_path, "--appendonly", "yes")
    await ledger.start()
    try:
        async with (
            scripting(redis_url, ledger.url, data_dir=tmp_path) as script,
            verifying(script, settle=3.0) as verifier,
        ):
            await script.say(TALK, 3)
            await verifier.until_verified(3)
            await script.say(TALK, 1, stored=False)
            await script.writer.lease(script.numbers[TALK], 0, 32)  # it is written
            await die(script.writer)
            await ledger.roll_back()
            await verifier.until_found()
            verdict = await verifier.finish()
    finally:
        ledger.end()
        await ledger.redis.aclose()
    assert (found_kinds(verdict), verdict.totals.unverifiable) == ({"lost": 1}, 0), verdict
