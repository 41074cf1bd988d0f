"""The README and the pages of docs/ keep their word: the commands that they mark run, and end as they say.

A block of commands is run when a comment before it says so: `<!-- test: exit 0 -->` for commands that end by themselves
with that code, `<!-- test: starts -->` for those that go on until they are told to stop. Durations are shortened, and a
command that several pages show is run once. `tests/unit/test_docs.py` has what can be checked without running anything.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from soak.errors import ExitCode
from soak.servers.ports import free_port
from tests.support.pages import blocks, commands, table
from tests.support.paths import ROOT

METRICS = "docs/metrics.md"
SECONDS_MAX = 120.0
SHORT = "4s"
STALE_SHARE_MAX = 0.35
"""Quoted lines of a story that another run need not print: which facts are known, and which finding is listed first."""


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
def test_a_command_does_what_its_page_says(
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
    story = re.search(r"soak explain \w+ --data-dir \S+", done.stdout)
    assert story is not None
    for kind, printed in (("violation", done.stdout), ("explain", run(story[0], environment).stdout)):
        shapes = {shape(line) for line in printed.splitlines()}
        for _, block in [found for found in blocks("output") if found[0] == kind]:
            quoted = [line for line in block.splitlines() if line.strip(" .")]
            stale = [line for line in quoted if shape(line) not in shapes]
            # Facts differ from run to run; words that nobody prints any more do not hide among them.
            assert len(stale) <= STALE_SHARE_MAX * len(quoted), f"quoted, and not printed: {stale}\n{printed}"


def shape(line: str) -> str:
    """Return a line of output without what differs from run to run: numbers, times, names of runs and sessions."""
    named = re.sub(r"\bw[0-9a-f]{8}\S*|\br[a-z0-9]{8}\b|\b[0-9a-f]{12}\b|/\S+", "#", line.strip())
    return re.sub(r"\d[\d.,:]*\w*|\ba\b|\bs\b", "#", re.sub(r"(\w)s\b", r"\1", named))


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
    command = ["soak", "run", "--plain", *stores, "--users", "5", "--think", "100ms", "--threshold", "errors=99%"]
    documented = {name: set(filter(None, labels.split(", "))) for name, labels, _ in table("metric", METRICS)}
    with (folder / "output.txt").open("w") as output:
        daemon = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT)
    try:
        joinable = folder / "data" / "run.json"
        until(lambda: joinable.exists() and answers(address_in(joinable) + "/readyz"))
        address = address_in(joinable)
        for path, _ in table("path", "docs/status-page.md"):
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
