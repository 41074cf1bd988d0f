"""Records of a run that were altered anyhow: whoever asks about them gets an answer or one line."""

from __future__ import annotations

import os
import random
import shutil
import time
from pathlib import Path

import pytest

from soak import cli
from soak.checker.contract import Contract
from soak.errors import ExitCode
from soak.report import outcome as outcomes
from soak.report.outcome import RunOutcome
from tests.support.verifying import Script, Soaking, altered, verifying

pytestmark = pytest.mark.long

TALK = "talk-chat"
CASES = int(os.environ.get("SOAK_FUZZ_CASES", "300"))
SECONDS_MAX = CASES / 40
SEED = int(os.environ.get("SOAK_FUZZ_SEED", "0")) or random.SystemRandom().randrange(10**6)
ODD_VALUES = [
    b"null",
    b"-1",
    b"1e999",
    b'"\\ud800"',
    b"[]",
    b"{}",
    b"true",
    b"99999999999999999999",
    b'""',
    b'"\xff"',
    b"0",
]


async def record(script: Script, folder: Path) -> None:
    said = await script.say(TALK, 8)
    await script.replace(said[1], altered(said[1]))
    await script.say(TALK, 2, stored=False)
    async with verifying(script, folder) as verifier:
        await verifier.until_found(3)
        found = await verifier.finish()
    outcomes.write(
        folder,
        RunOutcome(
            run=found.run,
            verdict=found.verdict,
            exit_code=1,
            reasons=found.reasons,
            data_dir=str(folder),
            finished=True,
            result=found,
        ),
    )


def spoil(content: bytes, source: random.Random) -> bytes:
    """Change a file as a disk or a person might."""
    if not content:
        return b"x"
    at = source.randrange(len(content))
    how = source.randrange(6)
    if how == 0:
        return content[:at]
    if how == 1:
        return content[:at] + bytes([content[at] ^ 1 << source.randrange(8)]) + content[at + 1 :]
    if how == 2:
        return content[:at] + content[at + source.randrange(40) :]
    if how == 3:
        return content[:at] + source.randbytes(source.randrange(1, 9)) + content[at:]
    # Another value in place of one: still JSON, and not what anybody wrote.
    colon = content.find(b":", at)
    end = min((found for mark in b",}]\n" if (found := content.find(bytes([mark]), colon)) > 0), default=-1)
    return content if min(colon, end) < 0 else content[: colon + 1] + source.choice(ODD_VALUES) + content[end:]


def commands(folder: Path, identity: str, evidence: Path) -> list[list[str]]:
    where = ["--data-dir", str(folder)]
    return [
        *(["report", *where], ["report", *where, "--format", "html"], ["report", *where, "--format", "markdown"]),
        *(["report", *where, "--format", "json"], ["report", *where, "--format", "junit"], ["violations", *where]),
        *(["explain", identity, *where], ["explain", identity, *where, "--json"], ["replay", str(evidence), *where]),
        *(["replay", identity, *where, "--json"], ["violations", *where, "--json"], ["report", *where, "--exit-code"]),
    ]


async def test_altered_records_are_no_internal_error(
    soaking: Soaking, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    async with soaking(contract=Contract()) as script:
        await record(script, tmp_path / "data")
    whole = tmp_path / "data"
    evidence = sorted((whole / "verifier" / "evidence").glob("*.json"))
    files = [whole / "result.json", whole / "verifier" / "result.json", whole / "verifier" / "journal.jsonl", *evidence]
    source = random.Random(SEED)
    broken: list[tuple[int, list[str], str]] = []
    deadline = time.monotonic() + SECONDS_MAX
    done = 0
    for case in range(CASES):
        if time.monotonic() > deadline:
            break  # a slow machine tries fewer of them
        folder = tmp_path / "altered"
        shutil.copytree(whole, folder)
        for path in source.sample(files, source.choice([1, 1, 2])):
            copy = folder / path.relative_to(whole)
            copy.write_bytes(spoil(copy.read_bytes(), source))
        chosen = source.choice(evidence)
        identity = chosen.name.split(".")[1]
        words = source.choice(commands(folder, identity, folder / chosen.relative_to(whole)))
        code = cli.main(words)
        told = capfd.readouterr()
        if code == ExitCode.INTERNAL or "Traceback" in told.err:
            broken.append((case, words, told.err))
        shutil.rmtree(folder)
        done += 1
    print(f"SOAK_FUZZ_SEED={SEED}, {done} cases")
    assert not broken, "\n".join(f"seed {SEED}, case {case}: {words}: {err}" for case, words, err in broken[:5])


async def test_evidence_of_an_older_format_is_one_clear_line(
    soaking: Soaking, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    async with soaking(contract=Contract()) as script:
        await record(script, tmp_path)
    path = next((tmp_path / "verifier" / "evidence").glob("*.json"))
    path.write_bytes(path.read_bytes().replace(b'"format": ', b'"format": 1000', 1))
    identity = path.name.split(".")[1]
    for words in (["replay", str(path)], ["explain", identity]):
        capfd.readouterr()
        assert cli.main([*words, "--data-dir", str(tmp_path)]) == ExitCode.USAGE
        assert len(capfd.readouterr().err.splitlines()) == 1
