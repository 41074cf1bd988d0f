"""The page of a past run, from its folder alone: whole where the folder is, and one line where it is not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from soak import cli
from soak.api.http import serving
from soak.api.status import InjectedFault, ServerStatus, SoakStatus
from soak.errors import ExitCode, UsageError
from soak.page.ended import FILE_NAME, ended, save
from soak.page.past import PastPage
from soak.report import outcome as outcomes
from soak.report.outcome import RunOutcome
from soak.report.series import Point, SeriesFile
from soak.verifier.result import FaultResult, Result, read_so_far, write
from tests.support.statuses import soak_status
from tests.support.violations import a_violation

RUN = "r0a1b2c3d"
STORE = "redis-list"
BEGAN, KILLED = 1_700_000_000.0, 1_700_000_060.0


def a_status(**changes: Any) -> SoakStatus:
    """Make the status of a run as its daemon last saved it, with a fault under way."""
    fault = InjectedFault(
        name="crash", target="redis", by="schedule", began_wall_seconds=KILLED - 1, hold_seconds=5, state="active"
    )
    server = ServerStatus(kind="redis", embedded=True, state="stopped", pid=7, restarts=0, address="redis://h:1")
    verifier = {
        "at_wall_seconds": KILLED - 3,
        "totals": {"acknowledged": 90, "verified": 80, "violations": 1},
        "by_store": [{"store": STORE, "acknowledged": 90, "verified": 80, "violations": 1}],
    }
    status = soak_status(
        verifier,
        run=RUN,
        stores=[STORE],
        servers=[server],
        faults_recent=[fault],
        faults_active=["crash of redis"],
        not_ready=["server redis is stopped"],
        active_seconds=60.0,
    )
    return msgspec.structs.replace(status, **changes)


def a_result(status: SoakStatus, *, finished: bool) -> Result:
    assert status.verifier is not None
    totals = msgspec.structs.replace(status.verifier.totals, acknowledged=100, verified=95)
    window = FaultResult(
        fault="crash-redis-1", kind="crash", server="redis", planned=True, at_wall_seconds=KILLED - 1,
        ended_wall_seconds=KILLED + 1 if finished else None,
    )  # fmt: skip
    return Result(
        run=RUN,
        finished=finished,
        verdict="violation",
        reasons=["1 violations of the contract"],
        started_wall_seconds=BEGAN,
        ended_wall_seconds=KILLED,
        totals=totals,
        violations_by=[],
        by_store=status.verifier.by_store,
        oldest_unverified_seconds=0.0,
        evidence=[],
        faults=[window],
    )


def leave_run(folder: Path, *, finished: bool = False, found: int = 2) -> Path:
    """Write what a run leaves behind: a daemon that was killed, or one that ended."""
    status = a_status()
    (folder / "verifier").mkdir(parents=True)
    result = a_result(status, finished=finished)
    write(folder / "verifier", result)
    outcomes.write(
        folder,
        RunOutcome(
            run=RUN, verdict="violation", exit_code=1, reasons=[], data_dir="/gone", finished=finished, result=result
        ),
    )
    lines = [a_violation(number, run=RUN, store=STORE) for number in range(found)]
    journal = b"".join(msgspec.json.encode(one) + b"\n" for one in lines)
    (folder / "verifier" / "journal.jsonl").write_bytes(journal)
    series = SeriesFile(folder / "series.jsonl", RUN, [STORE])
    series.rewrite({STORE: [a_point(BEGAN + second, second) for second in range(1, 30)]})
    save(folder, status, KILLED - 3)
    return folder


def a_point(at: float, violations: int) -> Point:
    return Point(
        at_wall_seconds=at, acknowledged_rate=3.0, read_rate=2.0, error_rate=0.0, append_p50_seconds=0.001,
        append_p99_seconds=0.01, read_p50_seconds=0.001, read_p99_seconds=0.01, verified_rate=3.0,
        violations=violations, unverified_seconds=0.5,
    )  # fmt: skip


async def asked(folder: Path, *paths: str) -> list[tuple[int, str]]:
    """Serve the page of a run, and return what it answers."""
    answers = []
    async with (
        serving(PastPage(folder).application(), "127.0.0.1", 0) as address,
        aiohttp.ClientSession() as client,
    ):
        for path in paths:
            async with client.get(address + path) as answer:
                answers.append((answer.status, await answer.text()))
    return answers


def event(text: str) -> dict[str, Any]:
    name, data = text.strip().split("\n")
    assert name == "event: end", "nothing comes after it"
    told: dict[str, Any] = json.loads(data.removeprefix("data: "))
    return told


async def test_a_killed_run_is_interrupted_and_what_was_found_is_certain(tmp_path: Path) -> None:
    folder = leave_run(tmp_path, found=3)
    before = sorted((path, path.stat().st_mtime_ns) for path in folder.rglob("*"))
    (_, text), (_, series), (_, listed), (status, _), (refused, _) = await asked(
        folder, "/events", "/series", "/violations", "/", "/metrics"
    )
    told = event(text)
    soak = told["soak"]
    assert (told["end"]["finished"], soak["phase"], told["standing"]["word"]) == (False, "interrupted", "violation")
    assert soak["verifier"]["totals"]["verified"] == 95, "the verifier wrote later than the daemon"
    assert soak["verifier"]["totals"]["violations"] == 3, "the journal has more than both"
    assert [one["count"] for one in soak["verifier"]["findings"]] == [3]
    assert (soak["servers"][0]["state"], soak["faults_active"], soak["not_ready"]) == ("ended", [], [])
    assert [(one["name"], one["state"]) for one in soak["faults_recent"]] == [("crash", "cut off")]
    assert len(json.loads(series)["stores"][STORE]) == 29
    assert len(json.loads(listed)["violations"]) == 3
    assert (status, refused) == (200, 404)
    assert sorted((path, path.stat().st_mtime_ns) for path in folder.rglob("*")) == before, "it only reads"


async def test_a_long_journal_is_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("soak.page.violation_index.READ_BYTES_MAX", 1_000)
    _, (_, listed) = await asked(leave_run(tmp_path, found=40), "/events", "/violations")
    assert len(json.loads(listed)["violations"]) == 40


async def test_a_finished_run_is_final(tmp_path: Path) -> None:
    ((_, text),) = await asked(leave_run(tmp_path, finished=True), "/events")
    told = event(text)
    assert (told["end"]["finished"], told["end"]["verdict"], told["soak"]["phase"]) == (True, "violation", "done")
    assert [(one["fault"], one["state"]) for one in told["soak"]["faults_recent"]] == [("crash-redis-1", "healed")]
    assert "go on" not in told["end"]["commands"]


async def test_another_site_and_a_foreign_name_are_refused(tmp_path: Path) -> None:
    page = PastPage(leave_run(tmp_path)).application()
    async with serving(page, "127.0.0.1", 0) as address, aiohttp.ClientSession() as client:
        for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Host": "rebound.example.org"}):
            async with client.get(f"{address}/events", headers=headers) as answer:
                assert answer.status == 403


def test_what_is_over_has_nothing_under_way_and_is_the_same_when_it_is_ended_again() -> None:
    status = a_status()
    result = a_result(status, finished=True)
    outcome = RunOutcome(
        run=RUN, verdict="violation", exit_code=1, reasons=[], data_dir="/x", finished=True, result=result
    )
    once = ended(status, outcome)
    assert once.verifier is not None
    assert (once.fault_next, once.remaining_seconds, once.verifier.recovering) == (None, None, [])
    assert ended(once, outcome) == once


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (lambda folder: (folder / FILE_NAME).unlink(), "holds no status for the page"),
        (
            lambda folder: (folder / FILE_NAME).write_bytes(b'{"schema": 1, "status"'),
            "is damaged, or of another version",
        ),
        (lambda folder: (folder / FILE_NAME).write_bytes(b'{"schema": 99}'), "was written by a newer soak"),
        (lambda folder: save(folder, a_status(run="r99999999"), KILLED), "is damaged, or of another version"),
    ],
)
def test_a_damaged_run_or_one_of_another_version_is_one_line(tmp_path: Path, damage: Any, complaint: str) -> None:
    folder = leave_run(tmp_path)
    damage(folder)
    with pytest.raises(UsageError, match=complaint) as caught:
        PastPage(folder)
    assert "\n" not in str(caught.value)


def test_the_command_says_in_one_line_why_there_is_nothing_to_show(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words, complaint in (
        (("--data-dir", str(tmp_path)), "there is no run in"),
        (("nothing", "--data-dir", str(tmp_path)), "neither a folder nor a run"),
        (("--port", "70000"), "should be from 0 to 65535"),
    ):
        assert cli.main(["page", *words]) == ExitCode.USAGE
        told = capsys.readouterr().err
        assert complaint in told
        assert told.count("\n") == 1


def test_runs_are_listed_with_verdict_store_and_time_also_damaged_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["runs", "--data-dir", str(tmp_path / "none")]) == ExitCode.PASS
    assert "no runs in" in capsys.readouterr().out
    leave_run(tmp_path / "data")
    leave_run(tmp_path / "data" / "runs" / RUN, finished=True)
    (tmp_path / "data" / "runs" / "r00000000").mkdir()
    assert cli.main(["runs", "--data-dir", str(tmp_path / "data")]) == ExitCode.PASS
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["run", "verdict", "violations", "began", "lasted", "stores"]
    assert [line.split()[:2] for line in lines[1:]] == [
        [RUN, "interrupted,"],
        ["r00000000", "damaged"],
        [RUN, "violation"],
    ]
    assert STORE in lines[1]
    assert cli.main(["runs", "--json", "--data-dir", str(tmp_path / "data")]) == ExitCode.PASS
    listed = json.loads(capsys.readouterr().out)
    assert {one["state"] for one in listed} == {"interrupted", "finished", "damaged"}
    assert read_so_far(tmp_path / "data" / "verifier") is not None
