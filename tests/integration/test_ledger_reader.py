"""Reading the ledger back: gaps, damage and repeats are counted, and never make an innocent store guilty."""

from __future__ import annotations

import asyncio
import zlib
from typing import Any

import pytest

from soak.checker.contract import Contract
from soak.ledger.connection import LedgerConnection, keys_of
from soak.ledger.reader import START, Damaged, LedgerReader, RunRecord, WorkerBatch
from soak.ledger.records import Batch, FaultPhase, encode_batch, seal
from tests.support.verifying import Script, Soaking, found_kinds, verifying

TALK, LATER = "talk-chat", "later-chat"
STRICT = Contract()


async def batches(script: Script) -> list[tuple[bytes, dict[bytes, bytes]]]:
    """Return the raw records of the run."""
    async with LedgerScope(script) as redis:
        entries: list[tuple[bytes, dict[bytes, bytes]]] = await redis.xrange(script_key(script))
        return entries


def script_key(script: Script) -> str:
    return keys_of(script.info.header.run).batches


class LedgerScope:
    """Lends a plain client of the ledger's server."""

    def __init__(self, script: Script) -> None:
        self._connection = LedgerConnection(script.info.ledger_url, script.info.header.run)

    async def __aenter__(self) -> Any:
        return self._connection.redis

    async def __aexit__(self, *_: object) -> None:
        await self._connection.close()


async def talk_in_three_batches(script: Script) -> None:
    await script.open(TALK)
    for _ in range(3):
        await script.say(TALK, 3)
        await script.writer.lease(script.numbers[TALK], 0, 32)  # so that the outcomes are written


async def finish_with_a_later_session(script: Script) -> None:
    await script.open(LATER)
    await script.say(LATER, 4)


@pytest.mark.parametrize("which", [1, 2, 3], ids=["outcomes", "outcomes in the middle", "the last outcomes"])
async def test_a_missing_batch_is_unverifiable_and_accuses_nobody(which: int, soaking: Soaking) -> None:
    async with soaking(contract=STRICT) as script:
        await talk_in_three_batches(script)
        entries = await batches(script)
        numbered = [at for at, fields in entries if b"w" in fields and len(fields[b"b"]) > 20]
        async with LedgerScope(script) as redis:
            assert await redis.xdel(script_key(script), numbered[which]) == 1
        await script.memory.forget(TALK)  # whatever became of it: nothing can be claimed
        await finish_with_a_later_session(script)
        async with verifying(script) as verifier:
            await verifier.until_verified(4)
            assert await verifier.metric("soak_ledger_missing_batches_total") >= 1
            verdict = await verifier.finish()
        assert (verdict.verdict, found_kinds(verdict)) == ("inconclusive", {})
        assert verdict.totals.unverifiable > 0
        assert verdict.totals.verified == 4, "the session that was opened later is whole again"
        assert any("the ledger has gaps" in reason for reason in verdict.reasons)


async def test_a_missing_first_batch_makes_its_sessions_unverifiable_not_phantoms(soaking: Soaking) -> None:
    async with soaking(contract=STRICT) as script:
        await script.open(TALK)
        # On a busy machine its beginning may stand in two.
        opening = [batch[0] for batch in await batches(script)]
        async with LedgerScope(script) as redis:
            await redis.xdel(script_key(script), *opening)
        await script.say(TALK, 3)
        await finish_with_a_later_session(script)
        async with verifying(script) as verifier:
            await verifier.until_verified(4)
            verdict = await verifier.finish()
        assert (verdict.verdict, found_kinds(verdict)) == ("inconclusive", {})
        assert verdict.totals.unverifiable >= 3


async def test_a_damaged_batch_is_a_gap(soaking: Soaking) -> None:
    async with soaking(contract=STRICT) as script:
        await script.open(TALK)
        await script.say(TALK, 3)
        await script.writer.lease(script.numbers[TALK], 0, 32)
        number = script.writer._number + 1
        script.writer._number = number  # the next one is taken by the damaged batch
        blob = bytearray(encode_batch(Batch(closes=[1])))
        crc = zlib.crc32(blob)
        blob[-1] ^= 1
        sealed = seal(script.writer.worker, "host", 0, number, crc)
        fields = {"w": script.writer.worker, "h": "host", "o": 0, "n": number, "c": crc, "s": sealed, "b": bytes(blob)}
        async with LedgerScope(script) as redis:
            await redis.xadd(script_key(script), fields)
        await finish_with_a_later_session(script)
        async with verifying(script) as verifier:
            await verifier.until_verified(4)
            verdict = await verifier.finish()
        assert (verdict.verdict, found_kinds(verdict)) == ("inconclusive", {})
        assert verdict.totals.unverifiable > 0


async def test_a_batch_that_was_sent_twice_is_taken_once(soaking: Soaking) -> None:
    async with soaking(contract=STRICT) as script:
        await talk_in_three_batches(script)
        entries = await batches(script)
        async with LedgerScope(script) as redis:
            for _, fields in entries:
                await redis.xadd(script_key(script), fields)
        async with verifying(script) as verifier:
            await verifier.until_verified(9)
            await verifier.until_metric(len(entries), "soak_ledger_repeated_batches_total")
            verdict = await verifier.finish()
        assert (verdict.verdict, verdict.totals.acknowledged, verdict.totals.verified) == ("pass", 9, 9)
        assert verdict.totals.unverifiable == 0


@pytest.mark.parametrize(
    "fields",
    [
        {"k": "weather", "c": zlib.crc32(b"{}"), "s": seal("weather", zlib.crc32(b"{}")), "b": b"{}"},
        {"k": "fault", "c": 1, "s": seal("fault", 1), "b": b"{}"},
        {"k": "fault", "c": zlib.crc32(b"{1}"), "s": seal("fault", zlib.crc32(b"{1}")), "b": b"{1}"},
        {"something": "else"},
        {"w": "w1", "n": "one", "c": 0, "b": b""},
        {"w": b"\xff\xfe", "n": 1, "h": "h", "o": 0, "c": 0, "b": b""},
    ],
    ids=["unknown kind", "bad checksum", "another shape", "no record", "no number", "no name"],
)
async def test_a_record_nobody_can_read_is_counted_and_stops_nothing(
    fields: dict[str, object], soaking: Soaking, ledger_url: str
) -> None:
    async with soaking(contract=STRICT) as script:
        await talk_in_three_batches(script)
        async with LedgerScope(script) as redis:
            await redis.xadd(script_key(script), fields)
        reader = await LedgerReader.connect(ledger_url, script.info.header.run)
        entries = await reader.read(START, block_seconds=0.01)
        await reader.close()
        assert isinstance(entries[-1], Damaged)
        assert entries[-1].reason
        await finish_with_a_later_session(script)
        async with verifying(script) as verifier:
            await verifier.until_verified(4)
            verdict = await verifier.finish()
        assert (verdict.verdict, found_kinds(verdict)) == ("inconclusive", {})
        assert verdict.totals.unverifiable >= 1


async def test_records_come_back_in_order_and_only_what_follows(soaking: Soaking, ledger_url: str) -> None:
    async with soaking(contract=STRICT) as script:
        await script.open(TALK)
        await script.fault("f1", "start")
        await script.open(LATER)
        reader = await LedgerReader.connect(ledger_url, script.info.header.run)
        # A worker may say something else in between.
        entries = [
            entry
            for entry in await reader.read(START, block_seconds=0.01)
            if isinstance(entry, RunRecord) or (isinstance(entry, WorkerBatch) and entry.batch.opens)
        ]
        one, fault, other = entries
        assert isinstance(one, WorkerBatch)
        assert isinstance(fault, RunRecord)
        assert isinstance(fault.record, FaultPhase)
        assert isinstance(other, WorkerBatch)
        assert (one.batch.opens[0].session, other.batch.opens[0].session) == (TALK, LATER)
        following = [entry.at for entry in await reader.read(fault.at, block_seconds=0.01)]
        assert other.at in following
        assert not {one.at, fault.at} & set(following)
        await reader.trim_before(other.at)
        assert (await reader.read(START, block_seconds=0.01))[0].at == other.at
        await reader.close()


async def test_a_reader_that_is_told_to_stop_stops_at_whatever_step_it_is(soaking: Soaking, ledger_url: str) -> None:
    async with soaking(contract=STRICT) as script:
        reader = await LedgerReader.connect(ledger_url, script.info.header.run)

        async def follow() -> None:
            while True:
                await reader.read("9999999999999-0", block_seconds=0.005)

        stubborn = []
        for steps in range(60):
            following = asyncio.create_task(follow())
            for _ in range(steps):
                await asyncio.sleep(0)
            following.cancel()
            done, _ = await asyncio.wait({following}, timeout=0.2)
            if not done:
                stubborn.append(steps)
            while not following.done():
                following.cancel()
                await asyncio.wait({following}, timeout=0.2)
        await reader.close()
        assert stubborn == []
