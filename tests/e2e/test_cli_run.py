"""The daemon as a person or a service manager meets it: real processes, real servers, real signals."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from soak.errors import ExitCode
from tests.support import command
from tests.support.checking import child, processes_of, wait_until

SECONDS_MAX = 60.0
SMALL = ("--store", "redis-list", "--users", "5", "--set", "load.think=100ms", "--set", "verifier.hot_interval=200ms")


class RunningSoak:
    """One `soak run` in a data folder, with what it printed."""

    def __init__(self, data_dir: Path, *words: str, faults: str = "none") -> None:
        self.data_dir = data_dir
        words = words if faults == "default" else ("--faults", faults, *words)
        self._output = (data_dir.parent / f"output-{time.monotonic_ns()}.txt").open("w+b")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "soak", "run", "--data-dir", str(data_dir), "--port", "0", "--plain", *words],
            env=command.plain_environment(),
            cwd=data_dir.parent,
            stdout=self._output,
            stderr=subprocess.STDOUT,
        )

    @property
    def output(self) -> str:
        return Path(self._output.name).read_text()

    @property
    def address(self) -> str:
        info = json.loads((self.data_dir / "run.json").read_text())
        assert info["daemon_pid"] == self.process.pid
        return str(info["http_address"])

    def get(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(self.address + path, timeout=10) as answer:  # noqa: S310  our own address
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def status(self) -> dict[str, Any]:
        status: dict[str, Any] = json.loads(self.get("/status")[1])
        return status

    def until(self, condition: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        """Wait until the status says so."""
        deadline = time.monotonic() + SECONDS_MAX
        while time.monotonic() < deadline:
            assert self.process.poll() is None, self.output
            try:
                status = self.status()
            except (OSError, AssertionError, ValueError):
                status = {}
            if status and condition(status):
                return status
            time.sleep(0.1)
        raise AssertionError(self.output)

    def until_verified(self, count: int) -> dict[str, Any]:
        return self.until(lambda status: verified(status) >= count and not status["not_ready"])

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        return self.process.wait(SECONDS_MAX)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._output.close()


@pytest.fixture
def start() -> Iterator[Callable[..., RunningSoak]]:
    folder = Path(tempfile.mkdtemp(prefix="soak-e2e-"))
    folder.chmod(0o755)
    started: list[RunningSoak] = []

    def start_one(*words: str, faults: str = "none") -> RunningSoak:
        (folder / "data").mkdir(exist_ok=True)
        started.append(RunningSoak(folder / "data", *words, faults=faults))
        return started[-1]

    yield start_one
    for one in started:
        one.close()
    wait_until(lambda: not processes_of(folder))
    shutil.rmtree(folder)


def verified(status: dict[str, Any]) -> int:
    totals = (status.get("verifier") or {}).get("totals", {})
    return int(totals.get("verified", 0))


def test_a_soak_tells_how_it_is_drains_on_sigterm_and_leaves_nothing(start: Callable[..., RunningSoak]) -> None:
    soak = start(*SMALL)
    status = soak.until_verified(20)
    assert status["phase"] == "running"
    assert {server["kind"] for server in status["servers"]} == {"ledger", "redis"}
    assert soak.get("/readyz")[0] == 200
    assert soak.get("/healthz")[0] == 200
    metrics = soak.get("/metrics")[1]
    assert 'soak_child_up{child="load"} 1.0' in metrics
    assert "soak_verifier_up 1" in metrics
    assert "soak_consistency_violations_total{" in metrics
    names = [line.split(" ")[2] for line in metrics.splitlines() if line.startswith("# TYPE ")]
    assert len(names) == len(set(names))
    assert soak.end() == ExitCode.PASS, soak.output
    assert f"pass  run {status['run']}" in soak.output
    assert not processes_of(soak.data_dir)
    assert not (soak.data_dir / "run.json").exists()
    assert not (soak.data_dir / "servers").exists()


@pytest.mark.long
def test_children_and_a_server_that_are_killed_come_back_and_no_verdict_changes(
    start: Callable[..., RunningSoak],
) -> None:
    soak = start(*SMALL)
    status = soak.until_verified(10)
    for name in ("verifier", "load"):
        os.kill(child(status, name)["pid"], signal.SIGKILL)
        before = verified(status)
        status = soak.until(lambda now, name=name: child(now, name)["restarts"] == 1)  # type: ignore[misc]
        status = soak.until_verified(before + 10)
    server = next(one for one in status["servers"] if one["kind"] == "redis")
    os.kill(server["pid"], signal.SIGKILL)
    before = verified(status)
    soak.until(lambda now: next(one for one in now["servers"] if one["kind"] == "redis")["restarts"] == 1)
    soak.until_verified(before + 10)
    assert 'soak_child_restarts_total{child="verifier"} 1.0' in soak.get("/metrics")[1]
    assert soak.end() == ExitCode.PASS, soak.output
    assert "verifier died (killed by SIGKILL) and is started again" in soak.output
    assert "server redis died" in soak.output
    assert "restarted: verifier 1x, load 1x, redis 1x" in soak.output


def test_a_daemon_that_is_killed_leaves_no_orphan_and_its_run_is_resumed(start: Callable[..., RunningSoak]) -> None:
    soak = start(*SMALL)
    first = soak.until_verified(20)
    soak.end(signal.SIGKILL)
    wait_until(lambda: not processes_of(soak.data_dir))
    refused = start("--store", "redis-stream")
    assert refused.wait() == ExitCode.USAGE
    assert f"run {first['run']} in " in refused.output
    assert "stores.names = redis-list, not redis-stream; resume it as it was" in refused.output
    again = start()
    second = again.until_verified(verified(first) + 20)
    lines = again.output.splitlines()
    assert f"Run {first['run']} was interrupted " in lines[0], again.output
    assert "(0 violations): resuming. --fresh starts anew." in lines[0]
    assert (second["stores"], second["run"]) == (first["stores"], first["run"]), "with the settings it was begun with"
    assert (second["run"], second["seed"], second["namespace"]) == (first["run"], first["seed"], first["namespace"])
    assert again.end() == ExitCode.PASS, again.output


@pytest.mark.long
def test_a_second_signal_leaves_at_once_and_the_run_can_be_resumed(start: Callable[..., RunningSoak]) -> None:
    soak = start(*SMALL)
    status = soak.until_verified(5)
    os.kill(child(status, "load")["pid"], signal.SIGSTOP)  # so that it cannot drain
    soak.process.send_signal(signal.SIGINT)
    soak.until(lambda now: now["phase"] == "draining")
    assert soak.end(signal.SIGINT) == ExitCode.INCONCLUSIVE, soak.output
    assert "quit before everything was verified (SIGINT)" in soak.output
    assert "resume it with: soak run --data-dir" in soak.output
    assert not processes_of(soak.data_dir)
    assert (soak.data_dir / "run.json").exists()


def test_a_signal_while_it_starts_ends_it_without_a_run(start: Callable[..., RunningSoak]) -> None:
    soak = start("--store", "postgres")
    wait_until(lambda: "starting servers" in soak.output)
    assert soak.end(signal.SIGINT) == ExitCode.INCONCLUSIVE, soak.output
    assert "quit before it began" in soak.output
    assert not (soak.data_dir / "run.json").exists()
    assert not processes_of(soak.data_dir)


@pytest.mark.long
def test_a_run_that_is_left_while_it_starts_is_over_for_prometheus_too(start: Callable[..., RunningSoak]) -> None:
    soak = start("--store", "postgres")
    wait_until(lambda: "metrics at " in soak.output)
    address = soak.output.partition("metrics at ")[2].split()[0]
    asking = urllib.request.Request(address, headers={"X-Prometheus-Scrape-Timeout-Seconds": "10"})  # noqa: S310  our own
    heard = []
    for number in range(1_000):
        try:
            with urllib.request.urlopen(asking, timeout=10) as answer:  # noqa: S310
                heard.append(answer.read().decode())
        except OSError:
            break
        if number == 1:
            soak.process.send_signal(signal.SIGINT)
        time.sleep(0.05)
    assert soak.process.wait(SECONDS_MAX) == ExitCode.INCONCLUSIVE, soak.output
    assert "quit before it began" in soak.output
    assert 'phase="starting"' in heard[0]
    (now,) = [line for line in heard[-1].splitlines() if line.startswith("soak_phase{") and line.endswith(" 1.0")]
    assert 'phase="done"' in now


@pytest.mark.long
def test_a_load_that_always_dies_ends_the_run_as_inconclusive(start: Callable[..., RunningSoak]) -> None:
    words = ("--set", "supervision.restarts_max=0", "--set", "load.spawn_rate=5")
    soak = start(*SMALL, *words)
    os.kill(child(soak.until_verified(5), "load")["pid"], signal.SIGKILL)
    assert soak.wait() == ExitCode.INCONCLUSIVE, soak.output
    assert "the load died too often" in soak.output


def test_a_check_on_a_given_server_answers_in_json_and_cleans_up_its_namespace(redis_url: str, tmp_path: Path) -> None:
    words = ("--store", "redis-list", "--duration", "4s", "--users", "5", "--set", "load.think=100ms", "--json")
    done = command.soak("check", *words, cwd=tmp_path, SOAK_SERVERS__REDIS=redis_url, TMPDIR=str(tmp_path))
    assert done.returncode == ExitCode.PASS, done.stderr + done.stdout
    told = json.loads(done.stdout)
    assert told["verdict"] == "pass"
    assert told["result"]["totals"]["verified"] > 0
    assert told["notes"] == []
    with redis.Redis.from_url(redis_url) as client:
        assert list(client.scan_iter(match=f"*{told['run']}*")) == []
    assert list(tmp_path.glob("soak-check-*")) == []


@pytest.mark.slow
@pytest.mark.long
def test_a_plain_run_breaks_what_it_started_soon_announces_it_and_names_it_in_the_verdict(
    start: Callable[..., RunningSoak],
) -> None:
    run = start(*SMALL, faults="default")
    run.until(lambda status: any(one["state"] == "healed" for one in status["faults_recent"]))
    assert run.end(signal.SIGINT) == 0, run.output
    assert "next fault: restart_from_aof of redis in" in run.output
    assert "1 restart from AOF survived" in run.output
