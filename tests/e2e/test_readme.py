"""The README keeps its word: its commands run, its example is the file, its tables are what the program says.

A block of commands is run when a comment before it says so: `<!-- test: exit 0 -->` for commands that end by themselves
with that code, `<!-- test: starts -->` for those that go on until they are told to stop. Durations are shortened.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import tomllib
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from soak import cli
from soak.checker.causes import Cause
from soak.checker.kinds import Kind
from soak.daemon.contracts import check_declared
from soak.errors import ExitCode
from soak.flaws.catalogue import ALL as FLAWS
from soak.servers.ports import free_port
from soak.settings import SoakSettings
from soak.stores import registry
from tests.support.paths import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
METRICS = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
SECONDS_MAX = 60.0
SHORT = "4s"


def blocks(marker: str) -> list[tuple[str, str]]:
    """Return what follows the colon of each such marker, with the block after it."""
    return re.findall(rf"<!-- {marker}:? ?([^>]*?) ?-->\n```[a-z]+\n(.*?)```", README, re.DOTALL)


def commands(marker: str) -> list[str]:
    found = [block for what, block in blocks("test") if what == marker]
    return [line for block in found for line in block.splitlines() if line]


def table(heading: str, page: str = README) -> list[list[str]]:
    """Return the rows of the first table with this first column, without backquotes."""
    body = re.search(rf"^\| {heading} \|.*?\n\|[-|]+\n((?:\|.*\n)+)", page, re.MULTILINE)
    assert body is not None, f"there is no table of {heading}"
    return [[cell.strip().replace("`", "") for cell in row.strip("|").split("|")] for row in body[1].splitlines()]


@pytest.fixture
def folder() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="soak-readme-"))
    path.chmod(0o755)  # so that a PostgreSQL that runs as another user gets in
    yield path
    shutil.rmtree(path)


@pytest.fixture
def environment(folder: Path) -> dict[str, str]:
    """Give the surroundings of a reader who activated the virtual environment, with ports and folders of this test."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("SOAK_", "LOCUST_"))}
    master_port = str(free_port())
    return {
        **plain,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{plain['PATH']}",
        "TMPDIR": str(folder),
        "SOAK_DATA_DIR": str(folder / "data"),
        "SOAK_HTTP__PORT": "0",
        "LOCUST_MASTER_NODE_PORT": master_port,
        "LOCUST_MASTER_BIND_PORT": master_port,
        "LOCUST_WEB_PORT": str(free_port()),
    }


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not holds():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.1)


def run(command: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    short = re.sub(r"(--duration|--run-time) \d+s", rf"\1 {SHORT}", command)
    return subprocess.run(
        ["bash", "-c", short],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )


@pytest.mark.parametrize("command", commands("exit 0"))
@pytest.mark.long
def test_a_command_does_what_the_readme_says(
    command: str, environment: dict[str, str], request: pytest.FixtureRequest
) -> None:
    if "staging" in command:
        command = command.replace("redis://staging:6379/3", request.getfixturevalue("redis_url"))
    done = run(command, environment)
    assert done.returncode == ExitCode.PASS, done.stdout + done.stderr
    if "--json" in command:
        assert json.loads(done.stdout)["verdict"] == "pass"
    if "check" in command or "--headless" in command:
        assert "pass  run r" in done.stdout or '"verdict": "pass"' in done.stdout


@pytest.mark.parametrize("command", commands("exit 1"))
@pytest.mark.long
def test_the_example_with_a_bug_is_found_out(command: str, environment: dict[str, str]) -> None:
    done = run(command, environment)
    assert done.returncode == ExitCode.VIOLATION, done.stdout + done.stderr
    assert "lost" in done.stdout
    evidence = re.search(r"evidence: (\S+)", done.stdout)
    assert evidence is not None
    assert json.loads(Path(evidence[1]).read_text())["probable_cause"]["cause"] == "concurrent overwrite"


@pytest.mark.parametrize("command", commands("starts"))
@pytest.mark.long
def test_a_command_that_goes_on_starts_and_can_be_stopped(
    command: str, environment: dict[str, str], folder: Path
) -> None:
    with (folder / "output.txt").open("w+") as output:
        # A person would need some seconds to start a load on the page; none at all would be inconclusive.
        started = subprocess.Popen(
            ["bash", "-c", f"exec {command} --store redis-list --autostart --users 5 --spawn-rate 5"],
            cwd=ROOT,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            until(lambda: is_listening(int(environment["LOCUST_WEB_PORT"])))
            time.sleep(2.0)
            started.send_signal(signal.SIGINT)
            code = started.wait(SECONDS_MAX)
        finally:
            if started.poll() is None:
                started.kill()
                started.wait()
        told = Path(output.name).read_text()
    assert code == ExitCode.PASS, told
    assert "pass  run r" in told


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_the_metrics_and_pages_are_those_of_a_live_run(environment: dict[str, str], folder: Path) -> None:
    # On every kind of server there is, for each tells other things of itself.
    stores = ["--store", "redis-list", "--store", "postgres-replica"]
    command = ["soak", "run", "--plain", *stores, "--users", "5", "--think", "100ms"]
    documented = {name: set(filter(None, labels.split(", "))) for name, labels, _ in table("metric", METRICS)}
    for row in table("the metric"):
        assert row in table("metric", METRICS), f"{row[0]} is told in two ways"
    with (folder / "output.txt").open("w") as output:
        daemon = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT)
    try:
        joinable = folder / "data" / "run.json"
        until(lambda: joinable.exists() and answers(address_in(joinable) + "/readyz"))
        address = address_in(joinable)
        for path, _ in table("path"):
            if not path.startswith("POST "):  # those do something
                assert answers(address + path)
        deadline = time.monotonic() + SECONDS_MAX
        while (live := live_metrics(address)) != documented and time.monotonic() < deadline:
            time.sleep(0.2)  # a server that was just started has not been asked yet
    finally:
        daemon.terminate()
        daemon.wait(SECONDS_MAX)
    assert documented == live


def live_metrics(address: str) -> dict[str, set[str]]:
    with urllib.request.urlopen(f"{address}/metrics", timeout=10) as answer:  # noqa: S310  our own address
        return exposed(answer.read().decode())


def address_in(joinable: Path) -> str:
    return str(json.loads(joinable.read_text())["http_address"])


def answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=10) as answer:  # noqa: S310  our own address
            return bool(answer.status == 200)
    except OSError:
        return False


def exposed(text: str) -> dict[str, set[str]]:
    """Return the labels of every metric of soak's own, by the name a query uses."""
    return {
        family.name + ("_total" if family.type == "counter" else ""): {
            label for sample in family.samples for label in sample.labels if label != "le"
        }
        for family in text_string_to_metric_families(text)
        if family.name.startswith("soak_")
    }


def test_the_examples_shown_are_the_files() -> None:
    for name, block in blocks("file"):
        assert (ROOT / name).read_text() == block


def test_the_settings_shown_are_settings() -> None:
    shown = [SoakSettings(**tomllib.loads(block)) for _, block in blocks("config")]
    assert 200 in [settings.load.users for settings in shown]
    for settings in shown:
        check_declared(settings.contract.stores, [], registry.specs())


def test_the_selftest_shown_found_every_flaw_there_is() -> None:
    [(_, block)] = blocks("selftest")
    rows = [re.split(r"\s{2,}", line.strip()) for line in block.split("\n\n")[0].splitlines()[1:]]
    assert [row[0] for row in rows] == [flaw.name for flaw in FLAWS.values()]
    for name, _expected, found, _seconds, _affected, cause, twin, verdict in rows:
        assert Kind(found) in FLAWS[name].kinds
        assert Cause(cause) in FLAWS[name].causes
        assert (twin.split(",")[0], verdict) == ("silent", "found")


def test_the_stores_shown_are_those_there_are() -> None:
    assert [row[0] for row in table("store")] == list(registry.specs())


def test_the_kinds_shown_are_those_there_are() -> None:
    assert table("kind") == [[kind.value, kind.sentence, kind.clause] for kind in Kind]


def test_the_exit_codes_shown_are_those_there_are() -> None:
    assert [int(row[0]) for row in table("code")] == [int(code) for code in ExitCode]


def test_the_folders_shown_are_all_there_are() -> None:
    shown = {name for row in table("folder") for name in re.findall(r"soak/(\w+)/", row[0])}
    rooms = {path.parent.name for path in (ROOT / "soak").glob("*/__init__.py")}
    assert shown == rooms


@pytest.mark.parametrize("target", ["run", "test", "lint", "bench"])
def test_make_knows_its_targets(target: str) -> None:
    done = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"make {target}" in README


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for link in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL)):
        if link.startswith(("http://", "https://")):
            continue
        path, _, heading = link.partition("#")
        target = page if not path else (page.parent / path).resolve()
        assert target.exists(), f"{page.name} links to {link}, which is not there"
        if heading:
            assert heading in _headings(target.read_text(encoding="utf-8")), f"{page.name}: no heading for {link}"


def _headings(text: str) -> set[str]:
    found = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_shown_is_understood(page: Path) -> None:
    for line in _soak_lines(page.read_text(encoding="utf-8")):
        words = shlex.split(line, comments=True)
        words = words[: next((number for number, word in enumerate(words) if word in {"&", "&&", ">", "|"}), None)]
        while words and "=" in words[0]:
            words.pop(0)
        if words[:1] == ["soak"] and words[1:2] not in (["--version"], []):
            cli.parse(words[1:])


def _soak_lines(text: str) -> list[str]:
    shown = re.findall(r"^```bash\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    joined = [line for block in shown for line in block.replace("\\\n", " ").splitlines()]
    return [line for line in joined if re.match(r"(?:[A-Z_]+=\S+ )*soak [a-z-]", line)]
