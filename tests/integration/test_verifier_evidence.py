"""What is found can be listed, explained, derived again without a server, and handed to another checker."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from soak import cli
from soak.checker.case import CannotDeriveError, Case, FullRead, derive, replay
from soak.checker.contract import Contract, Reads
from soak.checker.intervals import Intervals
from soak.checker.kinds import Kind
from soak.checker.message import Message, Stored, decode_history
from soak.checker.outcome import Outcome
from soak.checker.read import SavedItem
from soak.errors import ExitCode
from soak.stores.redis_stores import RedisListStore
from soak.verifier import evidence_file
from tests.support.list_append import anomalies, operations, read_edn
from tests.support.verifying import QUICK, Script, Soaking, Verifying, altered, found_kinds, scripting, verifying

TALK, TWIN = "talk-chat", "twin-chat"
MESSAGES = 6
NEVER = 3_600.0
STRICT = Contract()

Plant = Callable[[Script, list[Message]], Awaitable[None]]


async def remove(script: Script, said: list[Message]) -> None:
    await script.remove(said[2])


async def swap(script: Script, said: list[Message]) -> None:
    await script.swap(said[2], said[3])


async def duplicate(script: Script, said: list[Message]) -> None:
    await script.push(TALK, said[-1].to_bytes())


async def alter(script: Script, said: list[Message]) -> None:
    await script.replace(said[3], altered(said[3]))


async def garble(script: Script, said: list[Message]) -> None:
    await script.push(TALK, b"\xc1garbage")


async def nothing(script: Script, said: list[Message]) -> None:
    return


async def soaked(
    redis_url: str, ledger_url: str, data_dir: Path, plant: Plant, *, contract: Contract = STRICT, seen: bool = True
) -> Verifying:
    """Let a session be verified, do something to it, and wait for the verdict."""
    async with scripting(redis_url, ledger_url, contract=contract) as script:
        for session in (TALK, TWIN):
            await script.open(session, writers=2)
        said = await script.say(TALK, MESSAGES)
        await script.say(TWIN, MESSAGES)
        await script.say(TALK, outcome=Outcome.UNKNOWN, stored=False, writer=1)
        async with verifying(script, data_dir) as verifier:
            if seen:
                await verifier.until_verified(2 * MESSAGES)
            await plant(script, said)
            if plant is not nothing:
                await verifier.until_found()
            await script.say(TALK, 2, writer=1)
            await verifier.finish()
    return verifier


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    capsys.readouterr()  # what the verifier has said until now
    code = cli.main(words)
    said = capsys.readouterr()
    return code, said.out, said.err


def listed(capsys: pytest.CaptureFixture[str], data_dir: Path, *words: str) -> list[dict[str, Any]]:
    code, out, _ = run(capsys, "violations", "--each", "--json", "--data-dir", str(data_dir), *words)
    assert code == ExitCode.PASS
    found: list[dict[str, Any]] = json.loads(out)
    return found


def only_file(data_dir: Path) -> Path:
    (path,) = (data_dir / "verifier" / "evidence").glob("*.json")
    return path


def rewrite(path: Path, change: Callable[[Case], Case]) -> None:
    """Alter the case of an evidence file, as somebody who wants another verdict would."""
    file = evidence_file.read(path)
    assert file.case is not None
    story = {key: value for key, value in file.story.items() if key not in {"format", "seal", "case_missing"}}
    path.write_bytes(evidence_file.encode(story, change(file.case)))


# -- replay --


@pytest.mark.parametrize("plant", [remove, swap, duplicate, alter, garble])
async def test_a_verdict_is_reached_again_from_its_evidence_alone(
    plant: Plant, redis_url: str, ledger_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await soaked(redis_url, ledger_url, tmp_path, plant)
    path = only_file(tmp_path)
    code, out, err = run(capsys, "replay", str(path))
    assert (code, err) == (ExitCode.PASS, "")
    assert out.startswith("same ")
    (found,) = listed(capsys, tmp_path)
    assert run(capsys, "replay", found["id"], "--data-dir", str(tmp_path))[0] == ExitCode.PASS
    assert run(capsys, "replay", str(path.parent))[0] == ExitCode.PASS
    (tmp_path / "other.json").write_text("{}")  # what else lies in a data folder is no evidence
    assert run(capsys, "replay", str(tmp_path))[0] == ExitCode.PASS


def put_back(case: Case) -> Case:
    """Put the lost message into the second read."""
    assert isinstance(case.basis, FullRead)
    kept = case.basis.read
    read = msgspec.structs.replace(kept, items=[(0, 1, MESSAGES), *kept.items[2:]], count=kept.count + 1)
    return msgspec.structs.replace(case, basis=msgspec.structs.replace(case.basis, read=read))


def put_back_first(case: Case) -> Case:
    """Put the lost message into the first read."""
    (known,) = case.book.suspicions or []
    assert known.shown is not None
    first = msgspec.structs.replace(known.shown, items=[(0, 1, MESSAGES)], count=MESSAGES)
    suspicion = msgspec.structs.replace(known, shown=first)
    assert case.book.incidents is not None
    incidents = msgspec.structs.replace(case.book.incidents, suspicions=[suspicion])
    return msgspec.structs.replace(case, book=msgspec.structs.replace(case.book, incidents=incidents))


def refuse(case: Case) -> Case:
    """Let the store have refused the message: it need not be there."""
    first, *others = case.book.writers
    writers = [msgspec.structs.replace(first, failed=Intervals([3, 3])), *others]
    return msgspec.structs.replace(case, book=msgspec.structs.replace(case.book, writers=writers))


def promise_nothing(case: Case) -> Case:
    contract = Contract(eviction_allowed=True)
    return msgspec.structs.replace(case, rules=msgspec.structs.replace(case.rules, contract=contract))


@pytest.mark.parametrize("change", [put_back, put_back_first, refuse, promise_nothing])
async def test_evidence_without_the_loss_does_not_give_the_loss(
    change: Callable[[Case], Case], redis_url: str, ledger_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await soaked(redis_url, ledger_url, tmp_path, remove)
    path = only_file(tmp_path)
    rewrite(path, change)
    code, out, _ = run(capsys, "replay", str(path))
    assert code == ExitCode.VIOLATION
    assert out == f"differs  rolled_back {TALK}/0/3: not derived again: {TALK}/0/3\n"


async def test_evidence_with_other_bytes_does_not_give_the_same_verdict(
    redis_url: str, ledger_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await soaked(redis_url, ledger_url, tmp_path, alter)
    path = only_file(tmp_path)
    before = path.read_bytes()
    case = evidence_file.read(path).case
    assert case is not None
    assert isinstance(case.basis, FullRead)
    (spoiled,) = [item for item in case.basis.read.items if isinstance(item, SavedItem)]
    assert spoiled.message is not None
    other = Message.from_bytes(spoiled.message)

    def with_bytes(raw: bytes) -> Callable[[Case], Case]:
        def change(case: Case) -> Case:
            assert isinstance(case.basis, FullRead)
            items = [item if item != spoiled else SavedItem(message=raw) for item in case.basis.read.items]
            read = msgspec.structs.replace(case.basis.read, items=items)
            return msgspec.structs.replace(case, basis=msgspec.structs.replace(case.basis, read=read))

        return change

    rewrite(path, with_bytes(msgspec.structs.replace(other, content=other.content[:-1]).to_bytes()))
    assert run(capsys, "replay", str(path))[:2] == (
        ExitCode.VIOLATION,
        f"differs  corrupted {TALK}/0/4: not derived again: {TALK}/0/4\n",
    )
    path.write_bytes(before)
    rewrite(path, with_bytes(msgspec.structs.replace(other, role="tool").to_bytes()))
    code, out, _ = run(capsys, "replay", str(path))
    assert code == ExitCode.VIOLATION
    assert "now it says" in out


async def test_evidence_that_was_altered_without_changing_the_verdict_is_refused(
    redis_url: str, ledger_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await soaked(redis_url, ledger_url, tmp_path, remove)
    path = only_file(tmp_path)
    good = path.read_bytes()
    for was, now in ((b'"targets":{"redis-list":', b'"targets":{"redis-lost":'), (b'"cause": "', b'"cause": "not ')):
        path.write_bytes(good.replace(was, now, 1))
        assert path.read_bytes() != good
        code, out, err = run(capsys, "replay", str(path))
        assert (code, out) == (ExitCode.USAGE, "")
        assert "was altered after it was written" in err


async def test_evidence_that_cannot_be_read_gets_one_line_and_exit_code_2(
    redis_url: str, ledger_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await soaked(redis_url, ledger_url, tmp_path, remove)
    path = only_file(tmp_path)
    good = path.read_bytes()
    for content, expected in (
        (b"", "is damaged, or no evidence"),
        (good[: len(good) // 2], "is damaged, or no evidence"),
        (b"[1, 2]", "is damaged, or no evidence"),
        (b'{"some": "file"}', "is no evidence of a violation"),
        (good.replace(b'"format": 6', b'"format": 5'), "is of format 5; this soak reads format 6"),
        (good.replace(b'"basis":', b'"bases":'), "its case makes no sense"),
        (good[: good.index(b'"case": {')] + b'"case": null}', "cannot be replayed"),
    ):
        path.write_bytes(content)
        code, out, err = run(capsys, "replay", str(path))
        assert (code, out) == (ExitCode.USAGE, ""), expected
        assert expected in err
        assert err.count("\n") == 1
    path.unlink()
    assert run(capsys, "replay", str(path))[0] == ExitCode.USAGE


async def test_a_read_too_large_to_be_kept_is_not_judged_by_half(
    soaking: Soaking, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def flood(script: Script, said: list[Message]) -> None:
        await script.push(TALK, b"x" * 1_500_000)

    async with soaking(contract=STRICT) as script:
        said = await script.say(TALK, MESSAGES)
        await flood(script, said)
        async with verifying(script) as verifier:
            await verifier.until_found()
    case = evidence_file.read(only_file(tmp_path)).case
    assert case is not None
    with pytest.raises(CannotDeriveError):
        derive(case)
    code, _, err = run(capsys, "replay", str(only_file(tmp_path)))
    assert code == ExitCode.USAGE
    assert "too large to be kept whole" in err


async def test_a_loss_that_the_contract_excuses_is_not_derived_although_its_twin_is(
    soaking: Soaking, tmp_path: Path
) -> None:
    """A hole and a tail, lost in one crash: the evidence of the hole holds the tail too, and does not accuse it."""
    lenient = Contract(crash_loss_seconds=30.0)
    async with soaking(contract=lenient) as script:
        said = await script.say(TALK, MESSAGES)
        async with verifying(script) as verifier:
            await verifier.until_verified(MESSAGES)
            await script.fault("crash-1", "start")
            for message in (said[1], said[-1]):
                await script.remove(message)
            await script.fault("crash-1", "end")
            await verifier.until(lambda now: now["totals"]["tolerated"] == 1 and now["totals"]["violations"] == 1)
            await verifier.finish()
    case = evidence_file.read(only_file(tmp_path)).case
    assert case is not None
    assert [(one.kind, one.message) for one in derive(case)] == [(Kind.ROLLED_BACK, f"{TALK}/0/2")]
    without_fault = msgspec.structs.replace(case, faults=[])
    assert len(derive(without_fault)) == 2


async def test_staleness_is_derived_again_and_not_under_a_contract_that_allows_it(
    soaking: Soaking, tmp_path: Path
) -> None:
    async with soaking(contract=STRICT) as script:
        said = await script.say(TALK, MESSAGES)
        async with verifying(script, settle=5.0) as verifier:
            await verifier.until_verified(MESSAGES)
            await script.say(TALK, 1, stored=False)
            await verifier.until(lambda status: status["suspicions_open"] == 1)
            await script.push(TALK, script.author.write(TALK, 0, MESSAGES + 1).to_bytes())
            await verifier.until_found()
            verdict = await verifier.finish()
    assert found_kinds(verdict) == {"stale": 1}
    assert said
    case = evidence_file.read(only_file(tmp_path)).case
    assert case is not None
    assert replay(case).is_same
    relaxed = msgspec.structs.replace(case.rules, contract=Contract(reads=Reads.EVENTUAL))
    assert derive(msgspec.structs.replace(case, rules=relaxed)) == []


class Mirrored(RedisListStore):
    """A list that is read from a copy, which a hand has to bring up to date; the primary is the list itself."""

    layout = "mirrored"
    contract = Contract(reads=Reads.BOUNDED_STALENESS, staleness_seconds=0.2)

    def mirror(self, session: str) -> bytes:
        return self.key(session) + b":mirror"

    async def history(self, session: str, last: int | None = None) -> Sequence[Stored]:
        rows = await self._client.execute("LRANGE", self.mirror(session), -last if last else 0, -1)
        return decode_history(rows)

    async def primary_history(self, session: str) -> Sequence[Stored]:
        return await super().history(session)


@pytest.mark.parametrize(("is_on_primary", "kind"), [(True, "stale"), (False, "lost")])
async def test_what_a_copy_lacks_is_lost_only_if_the_primary_lacks_it_too(
    is_on_primary: bool, kind: str, soaking: Soaking, tmp_path: Path
) -> None:
    async with soaking(store=f"{__name__}:Mirrored") as script:
        said = await script.say(TALK, MESSAGES)
        for message in said[:-1]:
            await script.redis.rpush(script.memory.mirror(TALK), message.to_bytes())  # type: ignore[attr-defined]
        if not is_on_primary:
            await script.remove(said[-1])
        async with verifying(script) as verifier:
            await verifier.until_found()
            await script.redis.rpush(script.memory.mirror(TALK), said[-1].to_bytes())  # type: ignore[attr-defined]
            verdict = await verifier.finish()
        assert found_kinds(verdict) == {kind: 1}
    case = evidence_file.read(only_file(tmp_path)).case
    assert case is not None
    assert isinstance(case.basis, FullRead)
    assert case.basis.primary is not None
    assert case.basis.primary.count == (MESSAGES if is_on_primary else MESSAGES - 1)


# -- the list and the story --


async def test_violations_are_listed_with_what_became_of_them(
    soaking: Soaking, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with soaking(contract=STRICT) as script:
        said = await script.say(TALK, MESSAGES)
        async with verifying(script) as verifier:
            await verifier.until_verified(MESSAGES)
            await script.remove(said[2])
            await verifier.until_found()
            await script.push(TALK, b"\xc1garbage")
            await verifier.until_found(2)
            found = {one["kind"]: one for one in listed(capsys, tmp_path)}
            assert {kind: one["state"] for kind, one in found.items()} == {"rolled_back": "open", "undecodable": "open"}
            # It is gone, comes back, and goes again: one violation all the time.
            await script.put_before(said[2], said[3])
            await verifier.until_metric(1, "soak_healed_violations_total", kind="rolled_back")
            assert [one["kind"] for one in listed(capsys, tmp_path, "--healed")] == ["rolled_back"]
            await script.remove(said[2])
            await verifier.until_metric(2, "soak_open_violations")
            assert [one["kind"] for one in listed(capsys, tmp_path, "--healed")] == []
            await script.put_before(said[2], said[3])
            await verifier.until_metric(1, "soak_open_violations")
            await verifier.finish()
    assert [one["kind"] for one in listed(capsys, tmp_path, "--open")] == ["undecodable"]
    assert [one["kind"] for one in listed(capsys, tmp_path, "--healed")] == ["rolled_back"]
    assert [one["kind"] for one in listed(capsys, tmp_path, "--kind", "undecodable")] == ["undecodable"]
    assert listed(capsys, tmp_path, "--store", "postgres") == []
    assert len(listed(capsys, tmp_path, "--since", "1h")) == 2
    assert listed(capsys, tmp_path, "--until", "1h") == []
    assert listed(capsys, tmp_path, "--until", "2020-01-01T00:00") == []
    assert [one["kind"] for one in listed(capsys, tmp_path, "--limit", "1")] == ["undecodable"]
    code, out, _ = run(capsys, "violations", "--each", "--data-dir", str(tmp_path))
    assert code == ExitCode.PASS
    assert all(one["id"] in out for one in listed(capsys, tmp_path))
    code, out, _ = run(capsys, "violations", "--data-dir", str(tmp_path))
    assert all(one["id"] in out for one in listed(capsys, tmp_path)), "each is the example of a finding of its own"
    assert out.count(" open, ") == 2
    assert "\x1b" not in out


async def test_what_became_of_a_violation_is_remembered_over_kills(
    soaking: Soaking, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with soaking(contract=STRICT) as script:
        said = await script.say(TALK, MESSAGES)
        async with verifying(script, checkpoint=NEVER) as verifier:
            await verifier.until_verified(MESSAGES)
            await script.remove(said[2])
            await verifier.until_found()
            await script.put_before(said[2], said[3])
            await verifier.until_metric(1, "soak_healed_violations_total")
            await verifier.kill()
        async with verifying(script) as verifier:
            await verifier.until_verified(MESSAGES)
            await verifier.until_saved()
            assert await verifier.metric("soak_healed_violations_total") == 1
            assert await verifier.metric("soak_open_violations") == 0
            await verifier.kill()
        # It goes once more, comes back, and goes: still the same violation, whatever is killed in between.
        for is_back in (False, True, False):
            async with verifying(script, checkpoint=NEVER) as verifier:
                await verifier.until(lambda status: status["totals"]["violations"] == 1)
                await (script.put_before(said[2], said[3]) if is_back else script.remove(said[2]))
                await verifier.until_metric(0 if is_back else 1, "soak_open_violations")
                await verifier.kill()
        async with verifying(script) as verifier:
            verdict = await verifier.finish()
    assert found_kinds(verdict) == {"rolled_back": 1}
    (found,) = listed(capsys, tmp_path)
    assert found["state"] == "open"


async def test_lines_of_the_journal_that_cannot_be_read_are_said_and_hide_no_other(
    redis_url: str, ledger_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await soaked(redis_url, ledger_url, tmp_path, remove)
    journal = tmp_path / "verifier" / "journal.jsonl"
    good = journal.read_bytes()
    journal.write_bytes(good.replace(b'"kind":"rolled_back"', b'"kind":"lost"') + good + b'{"half": ')
    code, out, err = run(capsys, "violations", "--each", "--data-dir", str(tmp_path))
    assert (code, out.count("rolled_back")) == (ExitCode.PASS, 1)
    assert err == f"soak: 1 lines of {journal} cannot be read: damaged, or written by an older soak\n"


async def test_runs_that_were_put_aside_are_listed_and_explained_too(
    redis_url: str, ledger_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await soaked(redis_url, ledger_url, tmp_path, remove)
    (before,) = listed(capsys, tmp_path)
    (tmp_path / "runs" / before["run"]).mkdir(parents=True)
    (tmp_path / "verifier").rename(tmp_path / "runs" / before["run"] / "verifier")
    (tmp_path / "verifier").mkdir()
    (after,) = listed(capsys, tmp_path)
    assert after["id"] == before["id"]
    assert run(capsys, "explain", before["id"], "--data-dir", str(tmp_path))[0] == ExitCode.PASS
    assert run(capsys, "replay", before["id"], "--data-dir", str(tmp_path))[0] == ExitCode.PASS


async def test_the_story_of_a_loss_tells_what_happened_when_and_what_to_do_next(
    redis_url: str, ledger_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await soaked(redis_url, ledger_url, tmp_path, remove)
    (found,) = listed(capsys, tmp_path)
    code, out, _ = run(capsys, "explain", found["id"][:8], "--data-dir", str(tmp_path))
    assert code == ExitCode.PASS
    for expected in (
        "rolled_back",
        f"{TALK}/0/3",
        "sent",
        "acknowledged by the store after",
        "showed it",
        "first read without it",
        "read again",
        "it is not there",
        "What was written",
        "What is around it",
        f"{TALK}/0/2",
        "durability",
        "← broken",
        "Probable cause:",
        f"soak replay {found['id']}",
        "soak export --jepsen",
    ):
        assert expected in out, (expected, out)
    assert "\x1b" not in out
    told = json.loads(run(capsys, "explain", found["id"], "--json", "--data-dir", str(tmp_path))[1])
    whats = [moment["what"] for moment in told["timeline"]]
    assert whats.index("sent") < next(at for at, what in enumerate(whats) if what.startswith("first read without"))
    assert told["probable_cause"]["cause"] == told["cause"]
    assert told["state"] == "open"
    # The times are those on the wall.
    timed = [moment["at_wall_seconds"] for moment in told["timeline"] if moment["at_us"] is not None]
    assert timed == sorted(timed)
    assert abs(timed[-1] - told["found_at_wall_seconds"]) < 60


async def test_the_story_of_bytes_that_are_no_message_shows_them(
    redis_url: str, ledger_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await soaked(redis_url, ledger_url, tmp_path, garble)
    (found,) = listed(capsys, tmp_path)
    out = run(capsys, "explain", found["id"], "--data-dir", str(tmp_path))[1]
    assert "c1 67 61 72 62 61 67 65" in out
    assert ".garbage" in out


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("violations", "--data-dir", "nowhere"), "there is no data folder nowhere"),
        (("violations", "--kind", "losst"), "--kind losst: there is no such kind; did you mean lost?"),
        (("violations", "--since", "soon"), "--since 'soon' is no moment"),
        (("violations", "--limit", "0"), "--limit 0: should be at least 1"),
        (("explain", "12ab34cd56ef", "--data-dir", "here"), "no violation 12ab34cd56ef is on record"),
        (("explain", "1", "--data-dir", "here"), "too short for the id"),
        (("replay", "here", "--data-dir", "here"), "holds no evidence"),
        (("export", "--jepsen", "x.edn", "--data-dir", "here"), "no session with a history in here"),
        (("export", "--data-dir", "here"), "required: --jepsen"),
    ],
)
def test_what_cannot_be_listed_or_explained_gets_one_line_and_exit_code_2(
    words: tuple[str, ...],
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here" / "verifier").mkdir(parents=True)
    code, out, err = run(capsys, *words)
    assert (code, out, err.count("\n")) == (ExitCode.USAGE, "", 1)
    assert expected in err


# -- the history, for another checker --


def exported(capsys: pytest.CaptureFixture[str], data_dir: Path, *words: str) -> set[str]:
    """Export the history, and say what a checker that knows nothing of soak finds wrong with it."""
    path = data_dir / "history.edn"
    code, out, err = run(capsys, "export", "--jepsen", str(path), "--data-dir", str(data_dir), *words)
    assert code == ExitCode.PASS, err
    assert out.startswith(str(path))
    return anomalies(operations(read_edn(path.read_text())))


@pytest.mark.parametrize("recorded", [4, 0])
@pytest.mark.parametrize(
    ("plant", "expected"), [(remove, "missing"), (swap, "incompatible"), (duplicate, "duplicate"), (garble, "garbage")]
)
async def test_another_checker_finds_what_was_planted_in_the_exported_history(
    plant: Plant,
    expected: str,
    recorded: int,
    redis_url: str,
    ledger_url: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(QUICK, "history_sessions", recorded)
    await soaked(redis_url, ledger_url, tmp_path, plant)
    assert expected in exported(capsys, tmp_path, "--session", TALK)
    if recorded:
        # Its twin, in which nothing is wrong, gives that checker nothing to complain of.
        assert exported(capsys, tmp_path, "--session", TWIN) == set()


async def test_another_checker_finds_nothing_in_the_history_of_a_correct_store(
    soaking: Soaking, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with soaking(contract=STRICT) as script:
        await script.open(TALK, writers=3)
        async with verifying(script) as verifier:
            await asyncio.gather(*(talk(script, writer) for writer in range(3)))
            await verifier.kill()
        async with verifying(script) as verifier:
            await asyncio.gather(*(talk(script, writer) for writer in range(3)))
            verdict = await verifier.finish()
        assert verdict.verdict == "pass"
    assert exported(capsys, tmp_path) == set()
    history = operations(read_edn((tmp_path / "history.edn").read_text()))
    assert {operation.type for operation in history if operation.f == ":append"} == {":ok", ":info", ":fail"}
    assert sum(operation.f == ":append" and operation.type == ":ok" for operation in history) == 3 * 2 * 10
    assert sum(operation.f == ":r" for operation in history) > 2


async def talk(script: Script, writer: int) -> None:
    for turn in range(10):
        await script.say(TALK, writer=writer)
        if turn == 5:
            await script.say(TALK, writer=writer, outcome=Outcome.UNKNOWN, stored=writer % 2 == 0)
            await script.say(TALK, writer=writer, outcome=Outcome.FAILED, stored=False)
        await asyncio.sleep(0.05)


async def test_a_forgotten_session_is_left_out_of_the_history_and_named(
    soaking: Soaking, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with soaking(contract=STRICT) as script:
        for session in (TALK, TWIN):
            await script.say(session, MESSAGES)
        async with verifying(script) as verifier:
            await verifier.until_verified(2 * MESSAGES)
            await script.forget(TALK)
            await verifier.finish()
    path = tmp_path / "history.edn"
    code, out, err = run(capsys, "export", "--jepsen", str(path), "--data-dir", str(tmp_path))
    assert code == ExitCode.PASS
    assert "1 sessions" in out
    assert f"left out: {TALK} was forgotten" in err
