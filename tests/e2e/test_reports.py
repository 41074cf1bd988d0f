"""Reports of real soaks: the same in every format, however the soak ended."""

from __future__ import annotations

import contextlib
import html
import json
import os
import re
import shlex
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal, NamedTuple
from xml.etree import ElementTree as ET

import jsonschema
import pytest
from playwright.sync_api import Browser, sync_playwright

from soak.errors import ExitCode
from soak.report import schema
from soak.report.series import Series, read_series
from tests.support.checking import BUSY, RunningCheck, new_folder, processes_of, total, wait_until
from tests.support.command import soak
from tests.support.needs import missing
from tests.support.paths import ROOT

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

FAULTS = (
    *("--set", 'faults.rules=[{"fault":"crash","target":"redis","every":"4s","hold":"1s"}]'),
    *("--set", "faults.healthy_min=1s"),
)
LIMITS = ("--threshold", "append_p99=5m", "--threshold", "redis-list.recovery_time=5m")
IMPOSSIBLE = ("--threshold", "append_p99=0.001ms")
ORPHAN_SECONDS_MAX = 60.0
VERIFIED_SECONDS_MAX = 150.0
SIDE_BY_SIDE = 2
CHROMIUM = Path("/usr/bin/chromium")
CHROMIUM_FLAGS = [
    *("--no-sandbox", "--disable-gpu"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]


class Ended(NamedTuple):
    """A soak that is over, and what was reported of it."""

    folder: Path
    exit_code: int
    told: dict[str, Any]
    report_dir: Path
    summary: Path

    @property
    def data_dir(self) -> Path:
        return self.folder / "data"


def until_verified(check: RunningCheck, count: int) -> dict[str, Any]:
    return check.until(lambda status: total(status, "verified") >= count, VERIFIED_SECONDS_MAX)


def told_in(data_dir: Path) -> dict[str, Any]:
    told: dict[str, Any] = json.loads((data_dir / "result.json").read_text())
    return told


def run_to_its_end(folder: Path, *words: str) -> Ended:
    reports, summary = folder / "reports", folder / "summary.md"
    with RunningCheck(folder, *BUSY, "--report-dir", str(reports), *words, GITHUB_STEP_SUMMARY=str(summary)) as check:
        told = check.wait()
        return Ended(folder, check.process.returncode, told, reports, summary)


def interrupt(folder: Path, *words: str) -> Ended:
    reports, summary = folder / "reports", folder / "summary.md"
    with RunningCheck(folder, *BUSY, "--report-dir", str(reports), *words, GITHUB_STEP_SUMMARY=str(summary)) as check:
        until_verified(check, 20)
        check.process.send_signal(signal.SIGINT)
        told = check.wait()
        return Ended(folder, check.process.returncode, told, reports, summary)


def kill(folder: Path, *words: str) -> Ended:
    """Kill daemon, verifier and load at once, in the midst of it."""
    with RunningCheck(folder, *BUSY, *words) as check:
        check.until(lambda status: total(status, "violations") > 0, VERIFIED_SECONDS_MAX)
        wait_until(lambda: told_in(check.data_dir)["verdict"] == "violation")
        status = check.status()
        children = [child["pid"] for child in status["children"] if child["pid"]]
        for pid in (check.process.pid, *children):
            os.kill(pid, signal.SIGKILL)
        check.process.wait()
        wait_until(lambda: not processes_of(folder), ORPHAN_SECONDS_MAX)
        return Ended(folder, check.process.returncode, status, folder / "none", folder / "none")


@pytest.fixture(scope="module")
def soaks() -> Iterator[dict[str, Ended]]:
    """Several soaks side by side, for each has to wait more than to work."""
    with (
        new_folder() as clean,
        new_folder() as flawed,
        new_folder() as killed,
        new_folder() as doubtful,
        new_folder() as slow,
        ThreadPoolExecutor(SIDE_BY_SIDE) as pool,
    ):
        flaw = ("--store", "examples.overwriting_memory:OverwritingMemory")
        ending = {
            "clean": pool.submit(run_to_its_end, clean, "--store", "redis-list", "--duration", "10s", *FAULTS, *LIMITS),
            "flawed": pool.submit(run_to_its_end, flawed, *flaw, "--duration", "8s"),
            "slow": pool.submit(run_to_its_end, slow, "--store", "redis-list", "--duration", "4s", *IMPOSSIBLE),
            "killed": pool.submit(kill, killed, *flaw, "--duration", "120s"),
            "doubtful": pool.submit(
                interrupt, doubtful, "--store", "redis-list", "--set", "verifier.minimum_verified=100000000"
            ),
        }
        yield {name: one.result() for name, one in ending.items()}


def validated(text: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(text)
    jsonschema.Draft202012Validator(json.loads(schema.RESULT_FILE.read_bytes())).validate(document)
    return document


def check_same_numbers(folder: Path, document: dict[str, Any]) -> None:
    """Check that what the JSON says of each store stands in the other formats, too."""
    xml = ET.fromstring((folder / "junit.xml").read_text())  # noqa: S314  our own
    markdown, page = (folder / "report.md").read_text(), (folder / "report.html").read_text()
    assert f"soak: {document['verdict']}\n" in markdown
    assert f'<header class="card verdict {document["verdict"]}">' in page
    for row in document["result"]["by_store"]:
        numbers = [row[name] for name in ("acknowledged", "verified", "released", "violations", "tolerated")]
        suite = next(suite for suite in xml if suite.get("name") == row["store"])
        names = ("acknowledged", "verified", "forgotten", "violations", "tolerated")
        values = {one.attrib["name"]: one.attrib["value"] for one in suite.iter("property")}
        assert [int(values[name]) for name in names] == numbers
        cells = [f"{number:,}" for number in numbers]
        assert f" | {' | '.join(cells)} |" in markdown
        shown = re.findall(r'<td class="n[^"]*">([\d,]+)</td>', page)
        assert cells in [shown[at : at + 5] for at in range(len(shown))]
    failing = [case for case in xml.iter("testcase") if case.find("failure") is not None]
    findings = document["result"]["findings"]
    assert len(failing) == len(findings), "one failure for each bug"
    assert {(case.attrib["classname"], case.attrib["name"].partition(" ")[0]) for case in failing} == {
        (f"soak.{one['store']}", one["kind"]) for one in findings
    }
    counted, told = document["result"]["totals"]["violations"], sum(one["count"] for one in findings)
    assert told == counted if document["finished"] else told >= counted, "a journal may be ahead of a result"
    assert all(html.escape(one["headline"]) in page for one in findings)


def test_a_clean_soak_with_a_fault_is_green_and_shows_the_fault(soaks: dict[str, Ended]) -> None:
    clean = soaks["clean"]
    assert (clean.exit_code, clean.told["verdict"]) == (ExitCode.PASS, "pass"), clean.told
    document = validated((clean.report_dir / "report.json").read_text())
    assert document == clean.told == validated((clean.data_dir / "result.json").read_text())
    check_same_numbers(clean.report_dir, document)
    assert document["result"]["faults"]
    assert document["result"]["recoveries"]
    page = (clean.report_dir / "report.html").read_text()
    assert page.count('class="fault"') > len(document["result"]["faults"])
    assert "crash of redis" in (clean.report_dir / "report.md").read_text()
    xml = ET.fromstring((clean.report_dir / "junit.xml").read_text())  # noqa: S314  our own
    assert (xml.attrib["failures"], xml.attrib["errors"]) == ("0", "0")
    assert clean.summary.read_text().startswith((clean.report_dir / "report.md").read_text())
    assert [one["state"] for one in document["result"]["thresholds"]] == ["met", "met"]
    assert {(row["operation"], row["in_fault"]) for row in document["result"]["latencies"]} >= {
        *(("append", False), ("read", False), ("append", True), ("read", True)),
    }
    assert document["setup"]["seed"] == document["result"]["seed"]
    assert "--threshold append_p99=5m --threshold redis-list.recovery_time=5m" in document["setup"]["reproduce"]
    points = read_series(clean.data_dir / "series.jsonl", document["run"])["redis-list"].points
    written = sum(point.acknowledged_rate * point.seconds for point in points)
    assert 0 < written <= document["result"]["totals"]["acknowledged"] * 1.01


def test_a_planted_flaw_is_told_with_its_story_in_every_format(soaks: dict[str, Ended]) -> None:
    flawed = soaks["flawed"]
    assert (flawed.exit_code, flawed.told["verdict"]) == (ExitCode.VIOLATION, "violation")
    document = validated((flawed.report_dir / "report.json").read_text())
    check_same_numbers(flawed.report_dir, document)
    assert len((flawed.report_dir / "report.md").read_bytes()) < 20_000
    identity = document["result"]["violations"][0]["id"]
    for name in ("junit.xml", "report.md", "report.html"):
        assert "What happened" in (flawed.report_dir / name).read_text(), name
        assert "Probable cause: " in (flawed.report_dir / name).read_text(), name
    explained = soak("explain", identity, "--data-dir", str(flawed.data_dir), cwd=ROOT)
    assert explained.returncode == ExitCode.PASS, explained.stderr


def test_the_command_to_do_it_again_finds_the_same_bug_again(soaks: dict[str, Ended]) -> None:
    before = soaks["flawed"].told
    program, *words = shlex.split(before["setup"]["reproduce"])
    assert (program, words[0]) == ("soak", "check")
    with new_folder() as folder:
        here = ("--data-dir", str(folder / "data"), "--report-dir", str(folder / "reports"))
        done = soak(*words, "--json", *here, cwd=folder)
    assert done.returncode == ExitCode.VIOLATION, done.stderr
    again = json.loads(done.stdout)
    assert again["run"] != before["run"]
    for one in ("seed", "stores"):
        assert again["setup"][one] == before["setup"][one]
    assert bugs(before)[0] in bugs(again)


def bugs(told: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Return store, kind and probable cause of each finding, the largest first."""
    found = sorted(told["result"]["findings"], key=lambda one: -one["count"])
    return [(one["store"], one["kind"], one["cause"]) for one in found]


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_the_page_asks_the_network_for_nothing_and_fits_into_any_window(
    soaks: dict[str, Ended], scheme: Literal["light", "dark"], width: int
) -> None:
    asked: list[str] = []
    with browser() as chromium:
        page = chromium.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: asked.append(message.text))
        page.goto((soaks["flawed"].report_dir / "report.html").as_uri())
        assert page.locator("h1").inner_text().endswith("violation")
        assert page.locator("svg.chart polyline").count() > 3
        assert page.get_by_role("img").first.get_attribute("aria-label")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, re.findall(r"\d+", background)[:3])) < 200) == (scheme == "dark")
        assert page.pdf()[:5] == b"%PDF-"
    assert len(asked) == 1


def test_a_missed_threshold_is_an_exit_code_of_its_own_and_the_runs_can_be_compared(
    soaks: dict[str, Ended], tmp_path: Path
) -> None:
    slow, clean = soaks["slow"], soaks["clean"]
    assert (slow.exit_code, slow.told["verdict"]) == (ExitCode.THRESHOLD, "threshold"), slow.told["reasons"]
    assert slow.told["reasons"][0].startswith("threshold missed: redis-list append_p99: ")
    page = tmp_path / "compare.html"
    compared = soak("compare", str(clean.report_dir), str(slow.data_dir), "--html", str(page), cwd=ROOT)
    assert compared.returncode == ExitCode.THRESHOLD, compared.stderr
    assert compared.stdout.startswith("no new findings; newly missed: redis-list append_p99\n")
    with browser() as chromium:
        tab = chromium.new_page(viewport={"width": 390, "height": 900})
        tab.goto(page.as_uri())
        assert tab.evaluate("document.documentElement.scrollWidth") <= 390
    other = soak("compare", str(clean.data_dir), str(soaks["flawed"].data_dir), cwd=ROOT)
    assert (other.returncode, other.stderr.count("\n")) == (ExitCode.USAGE, 1)
    assert "no store in common" in other.stderr


@contextlib.contextmanager
def browser() -> Iterator[Browser]:
    if not CHROMIUM.exists():
        missing(f"{CHROMIUM} is not installed")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_FLAGS)
        try:
            yield chromium
        finally:
            chromium.close()


def test_a_kill_of_everything_leaves_what_was_found(soaks: dict[str, Ended], tmp_path: Path) -> None:
    killed = soaks["killed"]
    document = validated((killed.data_dir / "result.json").read_text())
    assert (document["verdict"], document["finished"]) == ("violation", False)
    assert document["result"]["violations"]
    told = soak("report", str(killed.data_dir), "--output-dir", str(tmp_path), "--exit-code", cwd=ROOT)
    assert told.returncode == ExitCode.VIOLATION, told.stderr
    check_same_numbers(tmp_path, validated((tmp_path / "report.json").read_text()))
    xml = ET.fromstring((tmp_path / "junit.xml").read_text())  # noqa: S314  our own
    assert int(xml.attrib["failures"]) > 0
    assert xml.attrib["errors"] == "1", "it was cut off"
    assert "cut off" in (tmp_path / "report.html").read_text()
    terminal = soak("report", str(killed.data_dir), cwd=ROOT)
    assert terminal.returncode == ExitCode.PASS
    assert "violation  run" in terminal.stdout
    assert "it is cut off" in terminal.stdout


def test_an_interrupted_soak_that_has_shown_too_little_is_reported_and_is_not_green(soaks: dict[str, Ended]) -> None:
    doubtful = soaks["doubtful"]
    assert (doubtful.exit_code, doubtful.told["verdict"]) == (ExitCode.INCONCLUSIVE, "inconclusive")
    document = validated((doubtful.report_dir / "report.json").read_text())
    check_same_numbers(doubtful.report_dir, document)
    xml = ET.fromstring((doubtful.report_dir / "junit.xml").read_text())  # noqa: S314  our own
    assert (xml.attrib["failures"], xml.attrib["errors"]) == ("0", "1")
    assert "messages were verified" in doubtful.summary.read_text()


def recorded(check: RunningCheck, run: str) -> Series:
    """Return what was recorded so far; nothing right after the start."""
    return read_series(check.data_dir / "series.jsonl", run).get("redis-list", Series())


def test_a_running_soak_can_be_reported_and_one_that_was_killed_is_no_pass_and_goes_on_with_its_record(
    tmp_path: Path,
) -> None:
    with new_folder() as folder:
        words = ("--store", "redis-list", *BUSY, "--duration", "120s", "--set", "report.step_summary=false")
        with RunningCheck(folder, *words, GITHUB_STEP_SUMMARY=str(tmp_path / "summary.md")) as first:
            until_verified(first, 50)
            wait_until((first.data_dir / "result.json").exists)
            told = soak("report", str(first.data_dir), "--format", "json", cwd=ROOT)
            document = validated(told.stdout)
            wait_until(lambda: len(recorded(first, document["run"])) > 0)
            assert (document["verdict"], document["finished"]) == ("undecided", False)
            assert "it is running" in soak("report", str(first.data_dir), cwd=ROOT).stdout
            first.process.kill()
            first.process.wait()
            wait_until(lambda: not processes_of(folder), ORPHAN_SECONDS_MAX)
        before = recorded(first, document["run"])
        left = soak("report", str(first.data_dir), "--exit-code", cwd=ROOT)
        assert left.returncode == ExitCode.INCONCLUSIVE, "what was cut off is no pass"
        assert "undecided  run" in left.stdout
        with RunningCheck(folder, *words, GITHUB_STEP_SUMMARY=str(tmp_path / "summary.md")) as second:
            until_verified(second, 1)
            wait_until(lambda: len(recorded(second, document["run"])) > len(before), VERIFIED_SECONDS_MAX)
            ended = second.end()
        after = recorded(second, document["run"])
        assert (ended["run"], ended["verdict"]) == (document["run"], "pass"), second.output
        assert after.points[0] == before.points[0]
        assert len(after.stretches()) > 1, "while nobody measured there is a gap"
        assert not (tmp_path / "summary.md").exists()
