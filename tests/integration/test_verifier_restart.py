"""A verifier that is killed at any moment goes on with every violation counted, and none twice."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

from soak.checker.contract import Contract
from soak.checker.outcome import Outcome
from soak.ledger.records import SeenItem
from soak.verifier import checkpoint, sweeper
from soak.verifier.follower import Follower
from tests.support.verifying import (
    SECONDS_MAX,
    Script,
    Soaking,
    altered,
    found_kinds,
    sidecar_command,
    sidecar_environment,
    verifying,
)

pytestmark = pytest.mark.long

TALK = "talk-chat"
STRICT = Contract()
NEVER = 3_600.0


async def test_a_violation_confirmed_since_the_last_checkpoint_is_counted_once(soaking: Soaking) -> None:
    async with soaking(contract=STRICT) as script:
        said = await script.say(TALK, 6)
        async with verifying(script) as verifier:
            await verifier.until_verified(6)
            await verifier.until_saved()
            await verifier.kill()
        await script.replace(said[3], altered(said[3]))
        await script.remove(said[1])
        for _ in range(2):
            async with verifying(script, checkpoint=NEVER) as verifier:
                await verifier.until_found(2)
                assert await verifier.metric("soak_consistency_violations_total") == 2
                await verifier.kill()
        async with verifying(script) as verifier:
            await verifier.until_found(2)
            assert await verifier.metric("soak_verifier_restarts_total") == 1
            verdict = await verifier.finish()
        assert found_kinds(verdict) == {"corrupted": 1, "rolled_back": 1}
        assert {(one.kind, one.count, one.open) for one in verdict.findings} == {
            ("corrupted", 1, 1),
            ("rolled_back", 1, 1),
        }
        assert len(verifier.journal()) == 2


async def test_a_violation_in_a_session_that_no_checkpoint_knows_is_counted_once(soaking: Soaking) -> None:
    async with soaking(contract=STRICT) as script:
        said = await script.say(TALK, 6)
        await script.replace(said[3], altered(said[3]))
        async with verifying(script, checkpoint=NEVER) as verifier:
            await verifier.until_found()
            await verifier.kill()
        async with verifying(script) as verifier:
            await verifier.until_verified(5)
            verdict = await verifier.finish()
        assert found_kinds(verdict) == {"corrupted": 1}


async def test_a_violation_is_counted_once_although_a_checkpoint_came_before_the_ledger_told_of_its_session_again(
    soaking: Soaking, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def wait(_: Follower) -> None:
        await asyncio.sleep(NEVER)

    async with soaking(contract=STRICT) as script:
        said = await script.say(TALK, 6)
        await script.replace(said[3], altered(said[3]))
        async with verifying(script, checkpoint=NEVER) as verifier:
            await verifier.until_found()
            await verifier.kill()
        with monkeypatch.context() as patched:
            patched.setattr(Follower, "run", wait)
            async with verifying(script) as verifier:
                await verifier.until(lambda _: saved_at(verifier.folder))
                await verifier.kill()
        async with verifying(script) as verifier:
            await verifier.until_verified(5)
            verdict = await verifier.finish()
        assert found_kinds(verdict) == {"corrupted": 1}


def saved_at(folder: Path) -> int:
    """Return when the last checkpoint was written; 0 before the first."""
    path = folder / checkpoint.FILE_NAME
    return path.stat().st_mtime_ns if path.exists() else 0


async def test_what_a_participant_saw_is_judged_although_the_verifier_was_killed_before(
    soaking: Soaking, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with soaking(contract=STRICT) as script:
        said = await script.say(TALK, 6)
        async with verifying(script) as verifier:
            await verifier.until_verified(6)
            # The store gives no answer for a while, so that the observation waits for a whole read.
            await script.redis.rename(script.key(TALK), script.key("aside"))
            await script.redis.set(script.key(TALK), b"a string, which cannot be read as a list")
            seen = [SeenItem(message.session, message.writer, message.seq) for message in said[:-1]]
            script.observe(TALK, seen)
            await verifier.until_metric(1, "soak_observations_total")
            written = saved_at(verifier.folder)
            deadline = time.monotonic() + SECONDS_MAX
            for _ in range(2):  # the second one has begun after the observation was taken in
                while saved_at(verifier.folder) == written:
                    assert time.monotonic() < deadline
                    await asyncio.sleep(0.02)
                written = saved_at(verifier.folder)
            await verifier.kill()
        await script.redis.delete(script.key(TALK))
        await script.redis.rename(script.key("aside"), script.key(TALK))
        async with verifying(script) as verifier:
            verdict = await verifier.finish()
        assert found_kinds(verdict) == {"stale": 1}


async def test_kills_at_random_moments_change_nothing_on_a_correct_store(soaking: Soaking) -> None:
    source = random.Random(11)
    async with soaking(contract=STRICT) as script:
        await script.open(TALK, writers=2)
        await script.open("other-chat")
        talking = asyncio.create_task(talk(script, 120))
        for _ in range(6):
            async with verifying(script) as verifier:
                await asyncio.sleep(source.uniform(0.05, 0.5))
                await verifier.kill()
        await talking
        async with verifying(script) as verifier:
            verdict = await verifier.finish()
        assert (verdict.verdict, found_kinds(verdict)) == ("pass", {})
        assert verdict.totals.acknowledged == 240
        assert verdict.totals.verified == 240


async def talk(script: Script, turns: int) -> None:
    for turn in range(turns):
        await script.say(TALK, writer=turn % 2)
        await script.say("other-chat")
        if turn % 30 == 7:
            await script.say(TALK, outcome=Outcome.UNKNOWN, stored=turn % 4 == 3)
        await asyncio.sleep(0.015)
    await script.say(TALK, writer=1, outcome=None)  # as when the load dies before it could tell


@pytest.mark.parametrize("pause", [0.0, 0.15, 0.3])
async def test_sigkill_between_confirmation_and_checkpoint_neither_loses_nor_doubles(
    pause: float, soaking: Soaking, tmp_path: Path
) -> None:
    async with soaking(contract=STRICT) as script:
        said = await script.say(TALK, 10)
        for message in (said[2], said[5], said[7]):
            await script.remove(message)
        journal = tmp_path / "verifier" / "journal.jsonl"
        command, environment = sidecar_command(tmp_path, script.info.header.run), sidecar_environment(script)
        log = (tmp_path / "log.txt").open("wb")
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        try:
            deadline = time.monotonic() + SECONDS_MAX
            while not journal.exists():
                assert time.monotonic() < deadline
                await asyncio.sleep(0.005)
            await asyncio.sleep(pause)
        finally:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            log.close()
        await script.end()
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=SECONDS_MAX * 2, check=False
        )
        assert done.stdout, done.stderr
        told = json.loads(done.stdout)
        counts = {entry["kind"]: entry["count"] for entry in told["result"]["violations_by"]}
        assert (done.returncode, counts) == (1, {"lost": 3})


# -- retired sessions --


async def test_a_retired_session_is_erased_from_the_store_and_a_wrong_one_is_kept(soaking: Soaking) -> None:
    async with soaking(contract=STRICT) as script:
        for session in (TALK, "wrong-chat"):
            await script.say(session, 3)
        await script.push("wrong-chat", b"garbage")
        async with verifying(script, recall_ages=[0.3]) as verifier:
            await verifier.until_found()
            for session in (TALK, "wrong-chat"):
                script.close(session)
            await verifier.until(lambda status: status["sessions_live"] == 0)
            deadline = time.monotonic() + SECONDS_MAX
            while await script.redis.exists(script.key(TALK)):
                assert time.monotonic() < deadline
                await asyncio.sleep(0.02)
            assert await script.redis.llen(script.key("wrong-chat")) == 4
            verdict = await verifier.finish()
        assert found_kinds(verdict) == {"undecodable": 1}


async def test_a_session_is_erased_only_after_a_checkpoint_that_has_let_go_of_it(
    soaking: Soaking, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_encoded, may_write = threading.Event(), threading.Event()
    write = checkpoint.write

    def write_slowly(folder: Path, blob: bytes) -> None:
        if TALK.encode() in blob:
            is_encoded.set()
            assert may_write.wait(SECONDS_MAX)
        write(folder, blob)

    async with soaking(contract=STRICT) as script:
        await script.say(TALK, 6)
        monkeypatch.setattr(checkpoint, "write", write_slowly)
        async with verifying(script, recall_ages=[]) as verifier:
            await verifier.until(lambda _: is_encoded.is_set())
            await verifier.until_verified(6)
            script.close(TALK)
            await verifier.until(lambda status: status["sessions_live"] == 0)
            may_write.set()
            deadline = time.monotonic() + SECONDS_MAX
            while await script.redis.exists(script.key(TALK)):
                assert time.monotonic() < deadline
                await asyncio.sleep(0.002)
            saved = (verifier.folder / checkpoint.FILE_NAME).read_bytes()
            await verifier.kill()
        assert TALK.encode() not in saved


async def test_when_too_many_are_to_be_erased_none_is_that_no_checkpoint_has_let_go_of(
    soaking: Soaking, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, later = ["one-chat", "two-chat"], ["three-chat", "four-chat"]
    is_encoded, may_write = threading.Event(), threading.Event()
    write = checkpoint.write

    def write_slowly(folder: Path, blob: bytes) -> None:
        if not any(session.encode() in blob for session in first) and later[0].encode() in blob:
            is_encoded.set()
            assert may_write.wait(SECONDS_MAX)
        write(folder, blob)

    monkeypatch.setattr(sweeper, "ERASE_MAX", len(first))
    async with soaking(contract=STRICT) as script:
        for session in (*first, *later):
            await script.say(session, 3)
        async with verifying(script, recall_ages=[], checkpoint=0.5) as verifier:
            await verifier.until_verified(12)
            monkeypatch.setattr(checkpoint, "write", write_slowly)
            for session in first:
                script.close(session)
            await verifier.until(lambda _: is_encoded.is_set())
            for session in later:
                script.close(session)
            await verifier.until(lambda status: status["sessions_live"] == 0)
            may_write.set()
            await asyncio.sleep(0.3)
            await verifier.kill()
        monkeypatch.undo()
        async with verifying(script) as verifier:
            verdict = await verifier.finish()
        assert (verdict.verdict, found_kinds(verdict)) == ("pass", {})


async def test_a_kill_after_a_session_was_erased_is_no_loss(soaking: Soaking) -> None:
    async with soaking(contract=STRICT) as script:
        for number in range(20):
            await script.open(f"{number}-chat")
            await script.say(f"{number}-chat", 3)
        async with verifying(script, recall_ages=[]) as verifier:
            await verifier.until_verified(60)
            for number in range(20):
                script.close(f"{number}-chat")
                await asyncio.sleep(0.02)
            await verifier.until(lambda status: status["sessions_live"] < 10)
            await verifier.kill()
        async with verifying(script, recall_ages=[]) as verifier:
            verdict = await verifier.finish()
        assert (verdict.verdict, found_kinds(verdict)) == ("pass", {})


async def test_sessions_behind_a_gap_are_not_erased_while_their_load_still_uses_them(soaking: Soaking) -> None:
    async with soaking(contract=STRICT) as script:
        await script.say(TALK, 6)
        async with verifying(script) as verifier:
            await verifier.until_verified(6)
            script.writer._number += 1  # a batch that never arrives
            await script.say(TALK, 2)
            await verifier.until(lambda status: status["totals"]["unverifiable"] > 0)
            await asyncio.sleep(1.5)  # longer than the coverage and a checkpoint
            assert len(await script.memory.history(TALK)) == 8
            verdict = await verifier.finish()
        assert (verdict.verdict, found_kinds(verdict)) == ("inconclusive", {})
