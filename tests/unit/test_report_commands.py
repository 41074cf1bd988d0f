"""What is on record reaches the person who asks for it: the right run, on any terminal, into any pipe."""

from __future__ import annotations

import io
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from soak import cli
from soak.errors import ExitCode
from soak.report.story import next_steps
from soak.report.story_text import print_story
from soak.report.text import OutputConsole
from soak.report.violation_records import verifier_folders
from soak.verifier import result as results
from soak.verifier.evidence_file import EvidenceFile
from soak.verifier.findings import FindingResult, ViolationGroups, finding_id
from soak.verifier.journal import encode_lines
from soak.verifier.result import Result, StoreResult, Totals
from tests.support.recorded_run import recorded
from tests.support.violations import a_violation

CLEAR_SCREEN = "\x1b[2J"


def data_folder(path: Path, count: int) -> Path:
    (path / "verifier").mkdir(parents=True)
    (path / "verifier" / "journal.jsonl").write_bytes(encode_lines([a_violation(seq + 1) for seq in range(count)]))
    return path


def test_a_filter_that_nothing_fits_says_so_and_how_many_there_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = data_folder(tmp_path / "run", 3)
    assert cli.main(["violations", "--data-dir", str(folder), "--store", "postgres"]) == ExitCode.PASS
    told = f"all 3 violations are on redis-list, none on postgres, in {folder}\n"
    assert capsys.readouterr().out == told
    assert cli.main(["violations", "--data-dir", str(folder), "--kind", "stale"]) == ExitCode.PASS
    assert capsys.readouterr().out == f"no violation fits, of 3 on record in {folder}\n"


def test_a_folder_without_violations_is_said_to_have_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["violations", "--data-dir", str(tmp_path)]) == ExitCode.PASS
    assert capsys.readouterr().out == f"no violations on record in {tmp_path}\n"


def test_an_empty_moment_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["violations", "--data-dir", str(tmp_path), "--since", ""]) == ExitCode.USAGE
    assert "--since '' is no moment" in capsys.readouterr().err


def test_many_violations_of_one_bug_are_listed_as_one_finding_and_each_behind_a_flag(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = data_folder(tmp_path / "run", 161)
    words = ["violations", "--data-dir", str(folder)]
    assert cli.main(words) == ExitCode.PASS
    listed = capsys.readouterr().out
    assert "161 messages lost on redis-list in 1 session, cause unknown" in listed
    assert listed.count("\n") == 4
    assert cli.main([*words, "--json"]) == ExitCode.PASS
    (finding,) = msgspec.json.decode(capsys.readouterr().out, type=list[FindingResult])
    assert (finding.count, finding.open, finding.acknowledged) == (161, 161, None)
    for flags in (["--each"], ["--finding", finding.id]):
        assert cli.main([*words, *flags, "--json"]) == ExitCode.PASS
        assert len(json.loads(capsys.readouterr().out)) == 161
    assert cli.main([*words, "--finding", "0123456789ab"]) == ExitCode.PASS
    assert "no violation fits, of 161 on record" in capsys.readouterr().out


def test_a_finding_is_explained_by_its_clearest_example(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = data_folder(tmp_path / "run", 3)
    finding = finding_id("r1", "redis-list", "lost", "unknown")
    assert cli.main(["explain", finding, "--data-dir", str(folder)]) == ExitCode.PASS
    told = capsys.readouterr().out
    assert told.startswith("3 messages lost on redis-list in 1 session, cause unknown (first ")
    assert a_violation(1).id in told
    assert cli.main(["explain", finding[:8], "--json", "--data-dir", str(folder)]) == ExitCode.PASS
    document = json.loads(capsys.readouterr().out)
    assert (document["id"], document["finding"]["id"]) == (a_violation(1).id, finding)
    assert cli.main(["explain", a_violation(2).id, "--json", "--data-dir", str(folder)]) == ExitCode.PASS
    assert "finding" not in json.loads(capsys.readouterr().out)
    assert cli.main(["explain", a_violation(2).message, "--json", "--data-dir", str(folder)]) == ExitCode.PASS
    assert json.loads(capsys.readouterr().out)["id"] == a_violation(2).id, "the name that a story shows first"


def test_numbers_of_the_verifier_count_where_its_journal_was_thinned_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = data_folder(tmp_path / "run", 3)
    groups = ViolationGroups.of((a_violation(seq), True) for seq in range(1, 5001))
    results.write(folder / "verifier", an_empty_result(groups.listed({"redis-list": 10_000})))
    words = ["violations", "--data-dir", str(folder)]
    assert cli.main(words) == ExitCode.PASS
    assert "5,000 of 10,000 messages (50 %) lost" in capsys.readouterr().out
    assert cli.main([*words, "--until", "2027-01-15T08:00:02+00:00"]) == ExitCode.PASS
    assert "2 of 10,000 messages (0.02 %) lost" in capsys.readouterr().out, "a filter counts what it lets through"


def an_empty_result(findings: list[FindingResult]) -> Result:
    totals = Totals(
        attempts={},
        acknowledged=10_000,
        verified=0,
        released=0,
        violations=5_000,
        tolerated=0,
        unverifiable=0,
        indeterminate=0,
        reads=0,
        messages_read=0,
        sessions=1,
    )
    store = StoreResult(store="redis-list", acknowledged=10_000, verified=0, released=0, violations=5_000, tolerated=0)
    return Result(
        run="r1",
        verdict="violation",
        reasons=[],
        started_wall_seconds=0.0,
        ended_wall_seconds=1.0,
        totals=totals,
        violations_by=[],
        by_store=[store],
        oldest_unverified_seconds=0.0,
        evidence=[],
        findings=findings,
    )


def test_a_reader_who_leaves_is_no_violation(tmp_path: Path) -> None:
    folder = data_folder(tmp_path, 500)
    reads, writes = os.pipe()
    os.close(reads)
    command = [sys.executable, "-m", "soak", "violations", "--each", "--limit", "500", "--data-dir", str(folder)]
    try:
        ended = subprocess.run(command, stdout=writes, stderr=subprocess.PIPE, check=False)
    finally:
        os.close(writes)
    assert (ended.returncode, ended.stderr) == (ExitCode.PASS, b"")


def test_a_page_leaves_a_reader_who_is_gone_to_the_command() -> None:
    with pytest.raises(BrokenPipeError):
        OutputConsole().on_broken_pipe()


def test_the_latest_of_the_runs_put_aside_comes_first(tmp_path: Path) -> None:
    folders = [tmp_path / "runs" / run / "verifier" for run in ("rb", "ra", "rc")]
    for age, folder in enumerate(folders):
        folder.mkdir(parents=True)
        os.utime(folder, (1_800_000_000 - age, 1_800_000_000 - age))
    assert verifier_folders(tmp_path) == [tmp_path / "verifier", *folders]


def test_the_next_commands_can_be_copied_whatever_the_names_are(tmp_path: Path) -> None:
    folder = tmp_path / "my runs" / ".soak"
    (command,) = [command for command, _ in next_steps(recorded(folder, a_violation(store="my.memory:Class")))]
    words = shlex.split(command)
    assert words[words.index("--data-dir") + 1] == str(folder)
    assert words[words.index("--store") + 1] == "my.memory:Class"


def test_the_folder_that_is_looked_in_anyway_is_not_named() -> None:
    assert all("--data-dir" not in command for command, _ in next_steps(recorded(Path(".soak"), a_violation())))


def test_nothing_in_a_story_can_speak_to_the_terminal(tmp_path: Path) -> None:
    story = {
        "meaning": CLEAR_SCREEN,
        "neighbours": [{"position": 0, "name": CLEAR_SCREEN, "content": CLEAR_SCREEN}],
        "faults": [{"kind": CLEAR_SCREEN, "target": CLEAR_SCREEN, "telemetry_before": {"keys": CLEAR_SCREEN}}],
        "clause": {"broken": "durability", "contract": {"durability": CLEAR_SCREEN}},
        "probable_cause": {"cause": CLEAR_SCREEN, "facts": [CLEAR_SCREEN], "against": [CLEAR_SCREEN]},
    }
    page = io.StringIO()
    file = EvidenceFile(tmp_path, story, None, is_sealed=True)
    print_story(recorded(tmp_path, a_violation(session=CLEAR_SCREEN)), file, Console(file=page, width=80))
    assert "\x1b" not in page.getvalue()


def test_trials_without_a_place_to_run_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["selftest", "--jobs", "0"]) == ExitCode.USAGE
    assert capsys.readouterr().err == "soak: --jobs 0: should be at least 1\n"
