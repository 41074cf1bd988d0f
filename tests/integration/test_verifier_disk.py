"""A disk that does not take evidence does not stop the soak: it goes on, counts, and says so."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from soak.checker.contract import Contract
from soak.verifier.evidence import EvidenceFolder, Violation, violation_id
from tests.support.verifying import (
    Soaking,
    altered,
    found_kinds,
    sidecar_command,
    sidecar_environment,
    verifying,
)

TALK = "talk-chat"
STRICT = Contract()

# The limit on the size of a file strikes in the middle of a write, just as a full disk does.
LIMITED = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
os.execv(sys.executable, [sys.executable, *sys.argv[2:]])
"""

CUT_LINE = """
import resource, sys
from pathlib import Path
from soak.verifier.evidence import EvidenceFolder, Violation, violation_id

def violation(seq):
    message = f"t/0/{seq}"
    return Violation(id=violation_id("", "s", "t", "lost", message), kind="lost", store="s", session="t",
                     message=message, writer=0, seq=seq, detail="gone", at_wall_seconds=0.0)

folder = EvidenceFolder(Path(sys.argv[1]), 10)
assert folder.write([violation(1)], b'{}')
limit = folder.journal_size() + 20
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
assert not folder.write([violation(2)], b'{}')
assert folder.failure
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
assert folder.write([violation(3)], b'{}')
assert not folder.failure
again = EvidenceFolder(Path(sys.argv[1]), 10)
again.repair()
print([found.seq for found in again.since(0)])
"""


async def test_evidence_that_cannot_be_written_is_said_and_the_violation_counts(soaking: Soaking) -> None:
    async with soaking(contract=STRICT) as script:
        said = await script.say(TALK, 6)
        async with verifying(script) as verifier:
            await verifier.until_verified(6)
            shutil.rmtree(verifier.folder / "evidence")
            (verifier.folder / "evidence").write_text("no folder")
            await script.replace(said[3], altered(said[3]))
            status = await verifier.until_found()
            assert any("evidence cannot be written" in warning for warning in status["warnings"])
            assert await verifier.metric("soak_evidence_write_failures_total") == 1
            assert await verifier.metric("soak_consistency_violations_total", kind="corrupted") == 1
            await script.say(TALK, 3)
            await verifier.until_verified(9)
            verdict = await verifier.finish()
        assert (verdict.verdict, found_kinds(verdict)) == ("violation", {"corrupted": 1})
        assert any("evidence cannot be written" in reason for reason in verdict.reasons)


async def test_a_folder_for_evidence_that_cannot_be_made_does_not_stop_the_verifier(
    soaking: Soaking, tmp_path: Path
) -> None:
    async with soaking(contract=STRICT) as script:
        said = await script.say(TALK, 6)
        await script.remove(said[2])
        (tmp_path / "verifier").mkdir()
        (tmp_path / "verifier" / "evidence").write_text("no folder")
        async with verifying(script) as verifier:
            await verifier.until_found()
            verdict = await verifier.finish()
        assert found_kinds(verdict) == {"lost": 1}


async def test_a_disk_that_is_full_from_the_beginning_leaves_the_soak_running(soaking: Soaking, tmp_path: Path) -> None:
    """Nothing larger than a few bytes can be written: no evidence, no checkpoint, no trimming of the ledger."""
    async with soaking(contract=STRICT) as script:
        said = await script.say(TALK, 6)
        await script.remove(said[2])
        await script.end()
        command = sidecar_command(tmp_path, script.info.header.run)[1:]
        limited = [sys.executable, "-c", LIMITED, "6000", *command]
        done = subprocess.run(
            limited, env=sidecar_environment(script), capture_output=True, text=True, timeout=60, check=False
        )
        assert done.stdout, done.stderr
        told = json.loads(done.stdout)
        assert (done.returncode, told["verdict"]) == (1, "violation"), done.stderr
        assert any("cannot be" in reason for reason in told["reasons"])


def test_a_journal_line_that_a_full_disk_cut_short_spoils_no_other(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CUT_LINE, str(tmp_path)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout.splitlines()[-1:], done.returncode) == (["[1, 3]"], 0), done.stderr[-600:]


KILLED = """
import os, signal, sys
from pathlib import Path
from soak.verifier.evidence import EvidenceFolder, Violation, violation_id

moment, folder = sys.argv[1], Path(sys.argv[2])
found = Violation(id=violation_id("r", "s", "t", "lost", "t/0/1"), run="r", kind="lost", store="s", session="t",
                  message="t/0/1", writer=0, seq=1, detail="gone", at_wall_seconds=0.0)
open_file, replace = Path.open, Path.replace

def kill(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

if moment == "before the file is in place":
    Path.replace = kill
else:
    Path.open = lambda path, *words, **more: kill() if path.suffix == ".jsonl" else open_file(path, *words, **more)
EvidenceFolder(folder, 10).write([found], b"{}")
"""


@pytest.mark.parametrize("moment", ["before the file is in place", "before the journal has it"])
def test_a_kill_while_evidence_is_written_never_leaves_a_counted_violation_without_it(
    moment: str, tmp_path: Path
) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, moment, str(tmp_path)], timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL
    folder = EvidenceFolder(tmp_path, 10)
    folder.repair()
    counted = {line.id for line in folder.since(0)}
    files = {path.name for path in (tmp_path / "evidence").iterdir()}
    # Nothing counts yet, and nothing is left behind: it is found again.
    assert (counted, files) == (set(), set())


def test_the_evidence_of_what_the_journal_has_stays_where_it_is(tmp_path: Path) -> None:
    folder = EvidenceFolder(tmp_path, 10)
    identity = violation_id("r", "s", "t", "lost", "t/0/1")
    found = Violation(
        id=identity,
        run="r",
        kind="lost",
        store="s",
        session="t",
        message="t/0/1",
        writer=0,
        seq=1,
        detail="gone",
        at_wall_seconds=0.0,
    )
    assert folder.write([found], b"{}")
    (tmp_path / "evidence" / "lost.0123456789ab.json").write_bytes(b"{}")
    (tmp_path / "evidence" / f"lost.{identity}.part").write_bytes(b"{")
    EvidenceFolder(tmp_path, 10).repair()
    assert [path.name for path in (tmp_path / "evidence").iterdir()] == [f"lost.{identity}.json"]
