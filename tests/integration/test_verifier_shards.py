"""Several verifiers share a run: nothing that one of them knows is missing in what another decides."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from redis.asyncio import Redis

from soak.checker.contract import Contract
from soak.errors import UsageError
from soak.ledger import shards
from soak.ledger.connection import keys_of
from soak.ledger.records import Host
from soak.ledger.shards import DealtWorker, Shard, deal, read_verifiers, share
from soak.ledger.writer import LedgerWriter
from soak.report.violation_records import group_findings, read_violations
from soak.settings import LedgerSettings
from soak.verifier import sharing
from soak.verifier.sharing import Claim, Sharing
from tests.support.verifying import SECONDS_MAX, Script, Soaking, Verifying, found_kinds, verifying

TALK, TWIN = "talk", "twin"
LENIENT = Contract(crash_loss_seconds=5.0)
FIRST, SECOND = Shard(1, 2), Shard(2, 2)
MESSAGES = 5


@contextlib.asynccontextmanager
async def two_workers(script: Script, host: Host | None = None) -> AsyncIterator[tuple[Script, Script]]:
    """Let two verifiers share the run, and give each a worker: the second one's may be on another host."""
    url, run = script.info.ledger_url, script.info.header.run
    await share(url, run, 2)
    writers = [await LedgerWriter.connect(url, LedgerSettings(), host=where) for where in (None, host)]
    try:
        one, other = (Script(script.info, writer, script.journal, script.memory, script.redis) for writer in writers)
        yield one, other
    finally:
        for writer in writers:
            await writer.close()


async def end(script: Script, *others: Script) -> None:
    for other in others:
        await other.writer.close()
    await script.end()


async def crash(script: Script) -> None:
    await script.fault("crash-1", "start")
    await script.fault("crash-1", "end")


async def test_workers_are_dealt_to_all_and_records_of_the_run_reach_every_stream(
    soaking: Soaking, ledger_url: str
) -> None:
    async with soaking() as script, two_workers(script) as (one, other):
        run = script.info.header.run
        await one.open(TALK)
        await other.open(TWIN)
        await crash(script)
        async with contextlib.aclosing(Redis.from_url(ledger_url)) as ledger:
            for shard, session in ((1, TALK), (2, TWIN)):
                entries: Any = await ledger.xrange(keys_of(run, shard).batches)
                assert sum(b"k" in fields for _, fields in entries) == 2
                opened = b"".join(fields.get(b"b", b"") for _, fields in entries if b"w" in fields)
                assert session.encode() in opened


async def test_a_worker_that_takes_the_place_of_a_dead_one_is_dealt_to_its_shard(
    soaking: Soaking, ledger_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shards, "ALIVE_SECONDS", 30)
    async with soaking() as script:
        run = script.info.header.run
        await share(ledger_url, run, 2)
        names = [f"w{number}" for number in range(4)]
        given = [(await deal(ledger_url, run, name)).number for name in names]
        assert sorted(given) == [1, 1, 2, 2]
        assert (await deal(ledger_url, run, "b1", "browser")).number == 1, "browsers have turns of their own"
        async with contextlib.aclosing(Redis.from_url(ledger_url)) as ledger:
            dead = str(DealtWorker("load", given[2], "w2"))
            key = keys_of(run).workers
            await ledger.zincrby(key, -10, dead)  # not heard of for a while
            assert (await deal(ledger_url, run, "w5")).number == given[2]
            await ledger.zrem(key, dead, str(DealtWorker("load", given[2], "w5")))
            both = await asyncio.gather(*(deal(ledger_url, run, name) for name in ("w6", "w7")))
            assert given[2] in {shard.number for shard in both}, "it had one less"
            await ledger.delete(key)


async def test_what_survived_in_one_share_proves_a_hole_in_the_other_and_is_waited_for(
    soaking: Soaking, tmp_path: Path
) -> None:
    async with soaking(contract=LENIENT) as script, two_workers(script) as (one, other):
        await one.open(TALK)
        await other.open(TWIN)
        await other.say(TWIN, MESSAGES)
        (gone,) = await other.say(TWIN, stored=False)
        await one.say(TALK, 1)
        await crash(script)
        async with verifying(script, shard=SECOND) as second:
            # Alone it cannot know: a tail is gone, and nobody has said what survived elsewhere.
            alone = await second.until(lambda status: status["suspicions_open"] == 1)
            await asyncio.sleep(2.0)
            alone = await second.status()
            assert (alone["totals"]["violations"], alone["totals"]["tolerated"]) == (0, 0)
            async with verifying(script, shard=FIRST) as first:
                await first.until_found()
                await end(script, one, other)
                share_of_second = await second.verdict()
                whole = await first.verdict()
    assert found_kinds(whole) == found_kinds(share_of_second) == {"lost": 1}
    assert whole.totals.acknowledged == MESSAGES + 2
    assert second.evidence()[0]["message"] == str(gone.name)
    records = read_violations(tmp_path).found
    assert [record.violation.message for record in records] == [str(gone.name)]
    assert [finding.count for finding in group_findings(records)] == [1]
    assert records[0].evidence is not None


async def test_a_tail_that_is_gone_in_both_shares_is_tolerated_and_counts_add_up(soaking: Soaking) -> None:
    async with soaking(contract=LENIENT) as script, two_workers(script) as (one, other):
        await one.open(TALK)
        await other.open(TWIN)
        await one.say(TALK, MESSAGES)
        await other.say(TWIN, MESSAGES)
        await one.say(TALK, 1, stored=False)
        await other.say(TWIN, 2, stored=False)
        await crash(script)
        async with (
            verifying(script, shard=FIRST) as first,
            verifying(script, shard=SECOND) as second,
        ):
            status = await first.until(lambda status: status["totals"]["tolerated"] == 3)
            assert [(one["shard"], one["is_heard"]) for one in status["shards"]] == [(1, True), (2, True)]
            assert await first.metric("soak_verified_messages_total") == 2 * MESSAGES
            assert await second.metric("soak_verified_messages_total") == MESSAGES
            shares = [await first.metric("soak_shard_verified_messages_total", shard=shard) for shard in ("1", "2")]
            assert shares == [MESSAGES, MESSAGES]
            await end(script, one, other)
            part, whole = await second.verdict(), await first.verdict()
    assert (whole.verdict, part.verdict) == ("pass", "pass"), whole.reasons
    assert (whole.totals.acknowledged, whole.totals.verified, whole.totals.tolerated) == (2 * MESSAGES + 3, 10, 3)
    assert whole.tried is not None
    assert whole.tried.recoveries == {"crash": 1}
    assert [(one.tolerated, one.is_unread) for one in whole.recoveries] == [(3, False)]


async def test_a_clock_that_only_another_verifier_compares_is_in_the_status_of_the_first(soaking: Soaking) -> None:
    async with soaking() as script, two_workers(script, Host("elsewhere", "another-boot")) as (one, other):
        await one.open(TALK)
        await other.open(TWIN)
        await one.say(TALK, MESSAGES)
        await other.say(TWIN, MESSAGES)
        async with (
            verifying(script, shard=FIRST) as first,
            verifying(script, shard=SECOND) as second,
        ):
            status = await first.until(lambda status: status["clocks"] and status["totals"]["verified"] == 2 * MESSAGES)
            assert [(clock["host"], clock["is_uncertain"]) for clock in status["clocks"]] == [("elsewhere", False)]
            assert status["clock_epsilon_seconds"] > 0.0
            assert await first.metric("soak_clock_error_seconds", host="elsewhere") > 0.0
            await first.until(lambda status: status["last_sweep_wall_seconds"] > 0.0)
            await end(script, one, other)
            await second.verdict()
            assert (await first.verdict()).verdict == "pass"


async def test_without_one_of_them_the_run_is_inconclusive_and_says_so(
    soaking: Soaking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sharing, "SILENT_SECONDS", 0.5)
    monkeypatch.setattr("soak.verifier.process.LAST_WORD_SECONDS_MAX", 1.0)
    async with soaking() as script, two_workers(script) as (one, other):
        await one.open(TALK)
        await other.open(TWIN)
        await one.say(TALK, MESSAGES)
        await other.say(TWIN, MESSAGES)
        async with verifying(script, shard=FIRST, drain=2.0) as first:
            status = await first.until(lambda status: status["warnings"] and status["totals"]["verified"] == MESSAGES)
            assert any("verifier 2 of 2 was never heard of" in line for line in status["warnings"])
            assert [await first.metric("soak_shard_up", shard=shard) for shard in ("1", "2")] == [1, 0]
            await end(script, one, other)
            whole = await first.verdict()
    assert whole.verdict == "inconclusive"
    assert any(line.startswith("verifier 2 of 2 was never heard of") for line in whole.reasons)


async def test_one_that_is_killed_resumes_and_misses_nothing(soaking: Soaking) -> None:
    async with soaking() as script, two_workers(script) as (one, other):
        await one.open(TALK)
        await other.open(TWIN)
        async with (
            verifying(script, shard=FIRST) as first,
            verifying(script, shard=SECOND) as second,
        ):
            said = await other.say(TWIN, MESSAGES)
            await one.say(TALK, MESSAGES)
            await first.until_verified(2 * MESSAGES)
            await second.kill()
            await script.remove(said[1])
            await other.say(TWIN, MESSAGES)
            second.start()
            await first.until_found()
            await end(script, one, other)
            await second.verdict()
            whole = await first.verdict()
    # It was killed before or after a checkpoint that knew of the read.
    assert found_kinds(whole) in ({"lost": 1}, {"rolled_back": 1})
    assert (whole.totals.acknowledged, whole.totals.unverifiable) == (3 * MESSAGES, 0)


async def test_there_may_be_more_of_them_after_a_resume_also_in_the_middle_of_a_fault(
    soaking: Soaking, ledger_url: str, tmp_path: Path
) -> None:
    async with soaking(contract=LENIENT) as script, two_workers(script) as (one, other):
        await one.open(TALK)
        await one.say(TALK, MESSAGES)
        await other.open(TWIN)
        async with (
            verifying(script, shard=FIRST) as first,
            verifying(script, shard=SECOND) as second,
        ):
            await first.until_verified(MESSAGES)
            await script.fault("announced-1", "start")
            await first.until(lambda status: len(status["faults_active"]) == 1)
            await asyncio.sleep(1.5)
            await first.kill()
            await second.kill()
        run = script.info.header.run
        await share(ledger_url, run, 3)
        third_writer = await LedgerWriter.connect(ledger_url, LedgerSettings())
        assert third_writer._connection.keys == keys_of(run, 3)
        third = Script(script.info, third_writer, script.journal, script.memory, script.redis)
        verifiers = [Verifying(script, tmp_path, shard=Shard(number, 3)) for number in (1, 2, 3)]
        for verifier in verifiers:
            verifier.start()
        try:
            await verifiers[2].until(lambda status: len(status["faults_active"]) == 1)
            await third.open("more")
            await script.fault("announced-1", "end")
            said = await third.say("more", MESSAGES)
            await script.remove(said[0])
            await verifiers[0].until_found()
            await end(script, one, other, third)
            results = [await verifier.verdict() for verifier in reversed(verifiers)]
        finally:
            for verifier in verifiers:
                await verifier.close()
        whole = results[-1]
        assert found_kinds(whole) in ({"lost": 1}, {"rolled_back": 1})
        assert (whole.totals.acknowledged, whole.totals.unverifiable) == (2 * MESSAGES, 0)
        assert not [line for line in whole.reasons if line.startswith("verifier")]
        with pytest.raises(UsageError, match="is shared by 3 verifiers"):
            await share(ledger_url, run, 2)
        assert await read_verifiers(ledger_url, run) == 3


async def test_two_of_the_same_shard_and_another_version_are_refused(
    soaking: Soaking, ledger_url: str, tmp_path: Path
) -> None:
    async with soaking() as script, two_workers(script):
        async with verifying(script, tmp_path / "one", shard=SECOND) as second:
            await second.until(bool)
            twin = Verifying(script, tmp_path / "other", shard=SECOND)
            twin.start()
            with pytest.raises(UsageError, match=r"shard 2/2 of run \S+ is verified already, by "):
                await asyncio.wait_for(twin.verdict(), SECONDS_MAX)
        key = keys_of(script.info.header.run, 2).claim
        async with contextlib.aclosing(Redis.from_url(ledger_url)) as ledger:
            assert await ledger.get(key) is None, "it lets go of its shard"
            await ledger.set(key, json.dumps({"owner": "elsewhere:/data", "version": "0.0.1"}))
        first = Verifying(script, tmp_path, shard=FIRST)
        first.start()
        with pytest.raises(UsageError, match=r"is verified by soak 0\.0\.1, this is soak"):
            await asyncio.wait_for(first.verdict(), SECONDS_MAX)


async def test_a_clone_of_the_machine_of_a_verifier_is_refused_in_one_line(
    soaking: Soaking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sharing, "PREDECESSOR_SECONDS", 0.5)
    async with soaking() as script, two_workers(script), verifying(script, shard=SECOND) as second:
        await second.until(bool)
        monkeypatch.setattr(sharing, "boot_identity", lambda: "another-boot")
        twin = Sharing(script.info.ledger_url, script.info.header.run, SECOND, second.folder)
        try:
            with pytest.raises(
                UsageError, match=r"shard 2/2 of run \S+ is verified already, by \S+ \(process \d+, boo"
            ):
                await twin.claim()
        finally:
            await twin.close()
        assert await second.status(), "the first one goes on"


async def test_a_verifier_that_was_killed_is_followed_at_once_and_one_of_another_boot_when_it_is_silent(
    soaking: Soaking, ledger_url: str, tmp_path: Path
) -> None:
    async with soaking() as script, two_workers(script), contextlib.aclosing(Redis.from_url(ledger_url)) as ledger:
        run = script.info.header.run
        key, claim = keys_of(run, 2).claim, Claim.of(tmp_path)
        with subprocess.Popen([sys.executable, "-c", ""]) as killed:
            killed.wait()
        for known, lives_ms in (
            (msgspec.structs.replace(claim, process=killed.pid), 600_000),
            (msgspec.structs.replace(claim, boot="another-boot"), 300),
        ):
            await ledger.set(key, msgspec.json.encode(known), px=lives_ms)
            follower = Sharing(ledger_url, run, SECOND, tmp_path)
            await follower.claim()
            held: Any = await ledger.get(key)
            assert msgspec.json.decode(held, type=Claim) == claim
            await follower.close()
            assert await ledger.get(key) is None


async def test_what_a_stranger_writes_in_place_of_a_report_counts_as_none(soaking: Soaking, ledger_url: str) -> None:
    async with soaking() as script, two_workers(script) as (one, _):
        keys = keys_of(script.info.header.run)
        async with contextlib.aclosing(Redis.from_url(ledger_url)) as ledger:
            for key in (keys.reports, keys.faults):
                await ledger.hset(key, mapping={"2": b"nonsense", "x": msgspec.msgpack.encode({"shard": 2})})
        await one.open(TALK)
        await one.say(TALK, MESSAGES)
        async with verifying(script, shard=FIRST) as first:
            status = await first.until_verified(MESSAGES)
        assert status["shards"][1]["state"] == "missing"
