"""A ledger that was cut, altered, mixed up or written by someone else: it is said, counted, and accuses nobody.

One rich and honest run is written down once: several writers, leases, refusals, unknown outcomes, forgets, a crash
that took a tolerated tail. Its store is right. Then its ledger is damaged in every way, and a verifier reads it anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import subprocess
import zlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from redis.asyncio import Redis

from soak.checker.contract import Contract
from soak.checker.outcome import Outcome
from soak.errors import ExitCode, UsageError
from soak.ledger.connection import keys_of
from soak.ledger.records import FORMAT_VERSION, Batch, decode_batch, encode_batch, seal
from soak.settings import SoakSettings, VerifierSettings
from soak.verifier import checkpoint, process, result
from soak.verifier.canary import CanaryNumbers
from soak.verifier.state import State
from tests.support.command import soak
from tests.support.verifying import (
    QUICK,
    SECONDS_MAX,
    Script,
    Soaking,
    altered,
    found_kinds,
    scripting,
    sidecar_command,
    sidecar_environment,
    verifying,
)

Fields = dict[bytes, bytes]
Records = list[tuple[bytes, Fields]]

TALK, SHARED, GONE, RACED, TAIL = "talk-chat", "shared-chat", "gone-chat", "raced-chat", "tail-chat"
LENIENT = Contract(crash_loss_seconds=30.0, power_loss_seconds=30.0)
STRICT = Contract()
FUZZ_TRIALS = 24


async def write_down(script: Script) -> None:
    """Tell an honest run in many small batches."""
    for session, writers in ((TALK, 1), (SHARED, 3), (GONE, 1), (RACED, 2), (TAIL, 1)):
        await script.open(session, writers)
    for turn in range(6):
        await script.say(TALK, 3)
        await script.say(SHARED, 2, writer=turn % 3)
        await script.say(GONE, 1)
        await script.say(RACED, 1, writer=turn % 2)
        await script.say(SHARED, outcome=Outcome.UNKNOWN, stored=turn % 2 == 0, writer=2)
        await script.say(TALK, outcome=Outcome.FAILED, stored=False)
        await flush(script)
    await script.forget(GONE)
    await script.forget(RACED, outcome=Outcome.UNKNOWN)
    await script.say(TAIL, 4)
    await flush(script)
    lost = await script.say(TAIL, 2, stored=False)
    await flush(script)
    await script.fault("crash-1", "start")
    assert lost
    await script.fault("crash-1", "end")
    await script.say(TALK, 30)  # beyond the first lease
    await flush(script)
    script.close(GONE)
    await script.say("later-chat", 2)
    await script.end()


async def flush(script: Script) -> None:
    """See to it that what was said so far is written, in a batch of its own."""
    await script.writer.lease(script.numbers[TALK], 0, script.writer.lease_messages)


class Told:
    """The run as it was written down, to be damaged over and over."""

    def __init__(self, script: Script, redis: Any, records: Records, folder: Path) -> None:
        self.script = script
        self.records = records
        self._redis = redis
        self._folder = folder
        self._trials = 0

    async def verify(self, records: Records) -> result.Result:
        """Put these records into the ledger and let a verifier read them from the start."""
        key = keys_of(self.script.info.header.run).batches
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.delete(key)
            for at, (_, fields) in enumerate(records, start=1):
                pipe.xadd(key, fields, id=f"{at}-0")
            await pipe.execute()
        return await self.verify_as_it_is()

    async def verify_as_it_is(self, **settings: Any) -> result.Result:
        self._trials += 1
        folder = self._folder / str(self._trials)
        told = SoakSettings(verifier=VerifierSettings(**(QUICK | {"drain": 5.0} | settings)))
        run = process.run(self.script.info, told, folder, "127.0.0.1", 0)
        code = await asyncio.wait_for(run, SECONDS_MAX * 2)
        verdict = result.read(folder / "verifier")
        assert verdict is not None
        assert code in (ExitCode.PASS, ExitCode.VIOLATION, ExitCode.INCONCLUSIVE)
        return verdict

    def of_workers(self) -> list[int]:
        return [index for index, (_, fields) in enumerate(self.records) if b"w" in fields]

    def of_kind(self, kind: bytes) -> list[int]:
        return [index for index, (_, fields) in enumerate(self.records) if fields.get(b"k") == kind]

    def holding(self, part: Callable[[Batch], object]) -> int:
        """Return the first batch in which something of this sort stands."""
        return next(i for i in self.of_workers() if part(decode(self.records[i][1])))

    def with_fields(self, index: int, **changed: bytes) -> Records:
        at, fields = self.records[index]
        new = fields | {name.encode(): value for name, value in changed.items()}
        return [*self.records[:index], (at, new), *self.records[index + 1 :]]


def decode(fields: Fields) -> Batch:
    return decode_batch(fields[b"b"], int(fields[b"c"]))


@pytest.fixture
async def told(redis_url: str, ledger_url: str, tmp_path: Path) -> AsyncIterator[Told]:
    async with scripting(redis_url, ledger_url, contract=LENIENT) as script:
        await write_down(script)
        redis: Any
        async with contextlib.aclosing(Redis.from_url(ledger_url)) as redis:
            records: Records = await redis.xrange(keys_of(script.info.header.run).batches)
            yield Told(script, redis, records, tmp_path)


def is_told_and_accuses_nobody(verdict: result.Result) -> None:
    assert (verdict.verdict, found_kinds(verdict)) == ("inconclusive", {}), verdict
    assert verdict.totals.unverifiable > 0
    assert any("the ledger has gaps" in reason for reason in verdict.reasons)


def flipped(value: bytes, at: int, bit: int = 0) -> bytes:
    changed = bytearray(value)
    changed[at] ^= 1 << bit
    return bytes(changed)


async def test_the_run_as_it_was_written_passes(told: Told) -> None:
    for _ in range(2):
        verdict = await told.verify(told.records)
        assert (verdict.verdict, verdict.reasons, found_kinds(verdict)) == ("pass", [], {})
        assert (verdict.totals.unverifiable, verdict.totals.tolerated) == (0, 2)


@pytest.mark.long
async def test_one_flipped_bit_in_any_field_of_any_sort_of_batch(told: Told) -> None:
    sorts: list[Callable[[Batch], object]] = [
        lambda batch: batch.opens,
        lambda batch: batch.attempts,
        lambda batch: batch.forget_intents,
        lambda batch: batch.forget_outcomes,
        lambda batch: batch.farewell,
    ]
    for number, name in enumerate(("w", "h", "o", "n", "c", "s", "b")):
        index = told.holding(sorts[number % len(sorts)])
        value = told.records[index][1][name.encode()]
        for at in (0, len(value) - 1):
            is_told_and_accuses_nobody(await told.verify(told.with_fields(index, **{name: flipped(value, at)})))


async def test_a_batch_whose_number_says_it_came_before_is_not_taken_for_a_repeated_one(told: Told) -> None:
    """The last one of a worker: nothing after it would show the gap."""
    index = told.of_workers()[-1]
    is_told_and_accuses_nobody(await told.verify(told.with_fields(index, n=b"1")))


async def test_a_batch_cut_in_the_middle_of_a_record(told: Told) -> None:
    for index in (told.holding(lambda batch: batch.opens), told.holding(lambda batch: batch.forget_intents)):
        blob = told.records[index][1][b"b"]
        for size in (0, 1, len(blob) // 2, len(blob) - 1):
            is_told_and_accuses_nobody(await told.verify(told.with_fields(index, b=blob[:size])))


async def test_a_forget_that_nobody_can_read_is_no_loss(told: Told) -> None:
    """It was the worker's last word, and its name is damaged too."""
    index = told.holding(lambda batch: batch.forget_intents)
    cut = [*told.with_fields(index, w=b"w\xff", b=b"")[: index + 1], *[told.records[i] for i in told.of_kind(b"end")]]
    is_told_and_accuses_nobody(await told.verify(cut))


@pytest.mark.parametrize("phase", [0, 1], ids=["start", "end"])
async def test_a_fault_that_nobody_can_read_makes_its_loss_no_violation(phase: int, told: Told) -> None:
    index = told.of_kind(b"fault")[phase]
    fields = told.records[index][1]
    for name in ("k", "b", "c", "s"):
        damaged = told.with_fields(index, **{name: flipped(fields[name.encode()], 0)})
        is_told_and_accuses_nobody(await told.verify(damaged))


async def test_a_fault_whose_beginning_is_gone_makes_its_loss_no_violation(told: Told) -> None:
    index = told.of_kind(b"fault")[0]
    is_told_and_accuses_nobody(await told.verify([*told.records[:index], *told.records[index + 1 :]]))


async def test_a_damaged_end_of_the_load_still_ends_it(told: Told) -> None:
    (index,) = told.of_kind(b"end")
    for name in ("b", "c", "s"):
        value = told.records[index][1][name.encode()]
        is_told_and_accuses_nobody(await told.verify(told.with_fields(index, **{name: flipped(value, 0)})))


async def test_records_of_an_older_version_in_the_stream_are_not_trusted(told: Told) -> None:
    """The first format had no seal around a batch."""
    old = [(at, {name: value for name, value in fields.items() if name != b"s"}) for at, fields in told.records]
    verdict = await told.verify(old)
    is_told_and_accuses_nobody(verdict)
    assert verdict.totals.verified == 0


async def test_batches_in_another_order(told: Told) -> None:
    workers = told.of_workers()
    for one, other in ((0, 1), (3, 4), (2, len(workers) - 2)):
        records = list(told.records)
        i, j = workers[one], workers[other]
        records[i], records[j] = records[j], records[i]
        is_told_and_accuses_nobody(await told.verify(records))


async def test_repeated_batches_change_nothing(told: Told) -> None:
    (end,) = told.of_kind(b"end")
    doubled = [record for i in told.of_workers() for record in (told.records[i], told.records[i])]
    faults = [told.records[i] for i in told.of_kind(b"fault")]
    records = [*doubled, *faults, *doubled, told.records[end]]
    verdict = await told.verify(records)
    assert (verdict.verdict, found_kinds(verdict), verdict.totals.unverifiable) == ("pass", {}, 0)


async def test_any_missing_record_is_told(told: Told) -> None:
    for index in told.of_workers()[:-1:3]:
        is_told_and_accuses_nobody(await told.verify([*told.records[:index], *told.records[index + 1 :]]))


async def test_records_removed_from_the_end_of_a_worker_are_missed_before_anyone_is_accused(told: Told) -> None:
    """No later number shows the gap; but the ledger knows how many records it was ever given."""
    index = told.holding(lambda batch: batch.forget_intents)
    (end,) = told.of_kind(b"end")
    key = keys_of(told.script.info.header.run).batches
    async with told._redis.pipeline(transaction=True) as pipe:
        pipe.delete(key)
        for at, (_, fields) in enumerate(told.records, start=1):
            pipe.xadd(key, fields, id=f"{at}-0")
        for at in range(index + 1, end + 1):
            pipe.xdel(key, f"{at}-0")
        await pipe.execute()
    is_told_and_accuses_nobody(await told.verify_as_it_is())


@pytest.mark.parametrize(
    "fields",
    [
        {"something": "else"},
        {"k": "weather", "c": zlib.crc32(b"{}"), "s": seal("weather", zlib.crc32(b"{}")), "b": b"{}"},
        {"w": "w1", "n": "1" * 5_000, "h": "h", "o": 0, "c": 0, "s": 0, "b": b""},
        {"w": "w1", "n": -1, "h": "h", "o": 0, "c": 0, "s": 0, "b": b""},
        {"w": b"\xff", "n": 1, "h": b"\xff", "o": b"\xff", "c": b"\xff", "s": b"\xff", "b": b"\xff"},
        {"b": b"\x00" * 100_000},
    ],
    ids=["another producer", "an unknown kind", "a huge number", "a negative number", "no text", "zeros"],
)
async def test_garbage_in_the_stream_is_told_and_later_sessions_are_whole(
    fields: dict[Any, Any], soaking: Soaking, ledger_url: str
) -> None:
    async with soaking(contract=STRICT) as script:
        await script.say(TALK, 3)
        async with contextlib.aclosing(Redis.from_url(ledger_url)) as redis:
            await redis.xadd(keys_of(script.info.header.run).batches, fields)
        await script.say("later-chat", 4)
        async with verifying(script) as verifier:
            await verifier.until_verified(4)
            verdict = await verifier.finish()
        is_told_and_accuses_nobody(verdict)


def sealed(worker: str, number: int, batch: Batch) -> dict[str, Any]:
    blob = encode_batch(batch)
    crc = zlib.crc32(blob)
    return {"w": worker, "h": "h", "o": 0, "n": number, "c": crc, "s": seal(worker, "h", 0, number, crc), "b": blob}


@pytest.mark.parametrize(
    "blob",
    [
        [[], [], [[1, 2**40, 1, 0, 1, 2]]],
        [[], [], [[1, -1, 1, 0, 1, 2]]],
        [[], [], [[1, 0, 2**60, 0, 1, 2]]],
        [[], [], [[1, 0, 1, 9, 1, 2]]],
        [[], [[1, 2**40, 32]]],
        [[], [], [], [], [[1, 7, 1, 2]]],
        [[], [], [], [], [], [], [], [["redis-list", "append", [1, 2], 0.1, 0]]],
        {"opens": 1},
    ],
    ids=["a writer of millions", "no writer", "a seq of another world", "a fourth outcome", "a lease of millions",
         "a fourth outcome of a forget", "other buckets", "no list"],
)  # fmt: skip
async def test_a_sealed_batch_that_says_what_no_batch_can_say_is_a_damaged_one(
    blob: Any, soaking: Soaking, ledger_url: str
) -> None:
    async with soaking(contract=STRICT) as script:
        await script.say(TALK, 3)
        await flush(script)
        number = script.writer._number + 1
        script.writer._number = number
        fields: dict[Any, Any] = sealed(script.writer.worker, number, Batch())
        raw = msgspec.msgpack.encode(blob)
        crc = zlib.crc32(raw)
        fields |= {"b": raw, "c": crc, "s": seal(script.writer.worker, "h", 0, number, crc)}
        async with contextlib.aclosing(Redis.from_url(ledger_url)) as redis:
            await redis.xadd(keys_of(script.info.header.run).batches, fields)
        await script.say("later-chat", 4)
        async with verifying(script) as verifier:
            await verifier.until_verified(4)
            verdict = await verifier.finish()
        is_told_and_accuses_nobody(verdict)


@pytest.mark.long
@pytest.mark.slow
async def test_random_damage_anywhere_ends_in_a_verdict_and_never_in_an_accusation(told: Told) -> None:
    for seed in range(FUZZ_TRIALS):
        source = random.Random(seed)
        records = list(told.records)
        for _ in range(source.choice((1, 1, 2, 5))):
            index = source.randrange(len(records) - 1)  # the end of the load has tests of its own
            at, fields = records[index]
            records[index] = (at, damage(fields, source))
        verdict = await told.verify(records)
        is_changed = records != told.records
        assert found_kinds(verdict) == {}, f"seed {seed}"
        assert verdict.verdict == ("inconclusive" if is_changed else "pass"), f"seed {seed}: {verdict}"
        assert bool(verdict.totals.unverifiable) == is_changed, f"seed {seed}"


def damage(fields: Fields, source: random.Random) -> Fields:
    """Flip a bit, cut, zero, or garble one value; or lose or rename one field."""
    name = source.choice(sorted(fields))
    value = fields[name]
    how = source.randrange(6)
    if how == 0 and len(fields) > 1:
        return {other: content for other, content in fields.items() if other != name}
    if how == 1:
        return {(flipped(other, 0) if other == name else other): content for other, content in fields.items()}
    changed = bytearray(value or b"\x00")
    at = source.randrange(len(changed))
    if how == 2:
        del changed[at:]
    elif how == 3:
        changed[at:] = bytes(len(changed) - at)
    else:
        changed[at] ^= 1 << source.randrange(8)
    return fields | {name: bytes(changed)}


# -- the head of the ledger: another version, another run --


def sidecar(script: Script, folder: Path, run: str | None = None) -> subprocess.CompletedProcess[str]:
    words = sidecar_command(folder, run or script.info.header.run)[3:]
    return soak(*words, cwd=folder, seconds_max=SECONDS_MAX * 2, **sidecar_environment(script))


def is_one_line_of_usage(done: subprocess.CompletedProcess[str], *words: str) -> None:
    assert done.returncode == ExitCode.USAGE, done
    (line,) = [line for line in done.stderr.splitlines() if line.strip()]
    assert all(word in line for word in words), line


async def test_a_ledger_of_another_version_or_run_ends_with_one_line(
    soaking: Soaking, ledger_url: str, tmp_path: Path
) -> None:
    async with soaking(contract=STRICT) as script:
        await script.say(TALK, 3)
        is_one_line_of_usage(sidecar(script, tmp_path, "r0ther"), "not r0ther")
        header = msgspec.structs.replace(script.info.header, version=FORMAT_VERSION - 1)
        async with contextlib.aclosing(Redis.from_url(ledger_url)) as redis:
            key = keys_of(header.run).header
            await redis.set(key, msgspec.json.encode(header))
            is_one_line_of_usage(sidecar(script, tmp_path), f"format {FORMAT_VERSION - 1}", f"format {FORMAT_VERSION}")
            await redis.set(key, msgspec.json.encode(header)[:-20])
            is_one_line_of_usage(sidecar(script, tmp_path), "cannot be read")


# -- what the verifier itself has put down --


async def save_a_checkpoint(script: Script, folder: Path) -> Path:
    await script.say(TALK, 6)
    async with verifying(script, folder) as verifier:
        await verifier.until_verified(6)
        await verifier.until_saved()
        await verifier.kill()
    return verifier.folder / checkpoint.FILE_NAME


async def until_trimmed(script: Script) -> None:
    """Wait until what a checkpoint has passed is dropped from the ledger: before that, nothing is lost with it."""
    key = keys_of(script.info.header.run).batches
    async with Redis.from_url(script.info.ledger_url) as redis, asyncio.timeout(SECONDS_MAX):
        while (stream := await redis.xinfo_stream(key))["length"] == stream["entries-added"]:
            await asyncio.sleep(0.02)


async def resume(script: Script, folder: Path) -> None:
    run = process.run(script.info, SoakSettings(verifier=VerifierSettings(**QUICK)), folder, "127.0.0.1", 0)
    await asyncio.wait_for(run, SECONDS_MAX * 2)


async def test_a_checkpoint_that_was_cut_or_altered_anywhere_is_known_to_be_damaged(
    soaking: Soaking, tmp_path: Path
) -> None:
    async with soaking(contract=STRICT) as script:
        path = await save_a_checkpoint(script, tmp_path)
        whole = path.read_bytes()
        source = random.Random(3)
        places = [0, 7, 8, 9, 13, 14, len(whole) - 1, *(source.randrange(len(whole)) for _ in range(200))]
        damaged = [flipped(whole, at, source.randrange(8)) for at in places]
        damaged += [whole[:size] for size in (0, 5, 14, len(whole) // 2, len(whole) - 1)]
        for content in damaged:
            path.write_bytes(content)
            with pytest.raises(checkpoint.DamagedCheckpointError):
                checkpoint.load(path.parent, State(script.info.header, {}, 1))
        path.write_bytes(whole)
        async with verifying(script) as verifier:
            verdict = await verifier.finish()
        assert (verdict.verdict, verdict.totals.verified) == ("pass", 6)


@pytest.mark.parametrize("how", ["flipped", "cut", "emptied", "deleted"])
async def test_a_verifier_without_its_checkpoint_goes_on_from_the_ledger_and_says_what_it_cannot_judge(
    how: str, soaking: Soaking, tmp_path: Path
) -> None:
    async with soaking(contract=STRICT) as script:
        path = await save_a_checkpoint(script, tmp_path)
        await flush(script)
        async with verifying(script) as verifier:
            await verifier.until_verified(6)
            await verifier.until_saved()
            await until_trimmed(script)
            await verifier.kill()
        whole = path.read_bytes()
        if how == "deleted":
            path.unlink()
        else:
            path.write_bytes({"flipped": flipped(whole, 30), "cut": whole[:40], "emptied": b""}[how])
        said = await script.say("later-chat", 3)
        await script.replace(said[1], altered(said[1]))
        await script.say(TALK, 2)  # in a session that only the checkpoint knew
        async with verifying(script) as verifier:
            await verifier.until_found(1)
            verdict = await verifier.finish()
        assert found_kinds(verdict) == {"corrupted": 1}
        assert verdict.totals.unverifiable >= 2
        assert any("checkpoint.mpk" in reason and "no longer be verified" in reason for reason in verdict.reasons)
        assert path.with_name("checkpoint.mpk.damaged").exists() == (how != "deleted")


async def test_a_run_whose_checkpoint_was_damaged_is_no_pass(soaking: Soaking, tmp_path: Path) -> None:
    async with soaking(contract=STRICT) as script:
        path = await save_a_checkpoint(script, tmp_path)
        await flush(script)
        async with verifying(script) as verifier:
            await verifier.until_verified(6)
            await until_trimmed(script)
            await verifier.kill()
        path.write_bytes(flipped(path.read_bytes(), 30))
        await script.say("later-chat", 3)
        async with verifying(script) as verifier:
            await verifier.until_verified(3)
            verdict = await verifier.finish()
        assert verdict.verdict == "inconclusive", (verdict.reasons, verdict.totals)
        assert verdict.totals.unverifiable > 0, (verdict.reasons, verdict.totals)


@pytest.mark.parametrize("how", ["deleted", "cut"])
async def test_violations_are_named_again_after_their_journal_was_lost(how: str, soaking: Soaking) -> None:
    async with soaking(contract=STRICT) as script:
        spoiled = await script.say(TALK, 6)
        for one in spoiled:
            await script.replace(one, altered(one))
        async with verifying(script, evidence_max=1) as verifier:
            await verifier.until_found(6)
            await verifier.until_saved()
            await asyncio.sleep(0.6)  # a checkpoint that has counted them
            await verifier.kill()
        journal = verifier.folder / "journal.jsonl"
        before = {line["id"] for line in verifier.journal()}
        if how == "deleted":
            journal.unlink()
        else:
            journal.write_bytes(journal.read_bytes()[:700])
        async with verifying(script, evidence_max=1) as verifier:
            verdict = await verifier.finish()
        assert found_kinds(verdict) == {"corrupted": 6}
        assert {line["id"] for line in verifier.journal() if "id" in line} == before
        assert any("journal of violations was deleted or cut" in reason for reason in verdict.reasons)
        assert len(verifier.evidence()) == 1


async def test_a_damaged_file_of_canaries_is_set_aside(soaking: Soaking, tmp_path: Path) -> None:
    async with soaking(contract=STRICT) as script:
        await script.say(TALK, 6)
        (tmp_path / "verifier").mkdir()
        numbers = CanaryNumbers(tmp_path / "verifier")
        numbers.take("redis-list")
        path = tmp_path / "verifier" / "canary.json"
        whole = path.read_bytes()
        source = random.Random(5)
        for content in (whole[:9], b"", b"\xff", *(flipped(whole, source.randrange(len(whole))) for _ in range(60))):
            path.write_bytes(content)
            assert "canary.json.damaged" in CanaryNumbers(path.parent).damage
        path.write_bytes(flipped(whole, 12, 7))
        async with verifying(script, canary=0.5) as verifier:
            await verifier.until_verified(6)
            verdict = await verifier.finish()
        assert verdict.verdict == "pass"
        assert any("canary.json was damaged" in reason for reason in verdict.reasons)


async def test_a_checkpoint_of_another_version_or_run_is_refused_with_one_line(
    soaking: Soaking, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with soaking(contract=STRICT) as script:
        await save_a_checkpoint(script, tmp_path)
        run = script.info.header.run
        async with soaking(contract=STRICT) as other:
            with pytest.raises(UsageError, match=f"belongs to run {run}, not {other.info.header.run}"):
                await resume(other, tmp_path)
        with monkeypatch.context() as patch:
            patch.setattr(checkpoint, "VERSION", checkpoint.VERSION + 1)
            with pytest.raises(UsageError, match=f"is of format {checkpoint.VERSION - 1}, this soak reads format"):
                await resume(script, tmp_path)


@pytest.mark.parametrize("how", ["flipped kind", "flipped seq", "flipped brace", "removed", "cut"])
async def test_a_journal_of_violations_that_was_cut_or_altered(how: str, soaking: Soaking, tmp_path: Path) -> None:
    """What it held beyond the checkpoint is found again, and never counted twice; an altered line is told besides."""
    async with soaking(contract=STRICT) as script:
        await save_a_checkpoint(script, tmp_path)
        (said,) = await script.say(TALK, 1)
        await script.replace(said, altered(said))
        async with verifying(script, checkpoint=3_600.0) as verifier:
            await verifier.until_found(1)
            await verifier.kill()
        journal = verifier.folder / "journal.jsonl"
        line = journal.read_bytes()
        changed = {
            "flipped kind": line.replace(b'"corrupted"', b'"corruptee"'),
            "flipped seq": line.replace(b'"seq":7', b'"seq":6'),
            "flipped brace": flipped(line, 0, 2),
            "removed": b"",
            "cut": line[: len(line) // 2],
        }[how]
        assert changed != line
        journal.write_bytes(changed)
        async with verifying(script) as verifier:
            verdict = await verifier.finish()
        assert found_kinds(verdict) == {"corrupted": 1}
        assert verdict.totals.unverifiable == (0 if how in ("removed", "cut") else 1)
