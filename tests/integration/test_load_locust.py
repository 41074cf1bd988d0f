"""Locust itself, as people start it: it joins the run, drains when asked, and its exit code hides nothing."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import redis

from soak import join
from soak.checker.contract import Contract
from soak.ledger.connection import keys_of
from soak.ledger.records import FORMAT_VERSION, Batch, RunHeader, decode_batch
from soak.ledger.run import create_run

ROOT = Path(__file__).parents[2]
LOCUSTFILE = ROOT / "locustfiles" / "sessions.py"
WAIT_SECONDS_MAX = 60.0

HANGING_STORE = """
import asyncio

class Hanging:
    async def append(self, session, message):
        await asyncio.sleep(3600)

    async def history(self, session, last=None):
        return []

    async def forget(self, session): ...

    async def close(self): ...
"""


class Run:
    """A run that Locust can join, without a daemon: this test process stands in for it."""

    def __init__(self, folder: Path, redis_url: str, ledger_url: str, store: str = "redis-list") -> None:
        self.folder = folder
        self.name = uuid.uuid4().hex[:12]
        self._ledger_url = ledger_url
        self.farewells = 0
        self._started: list[subprocess.Popen[str]] = []
        header = RunHeader(
            version=FORMAT_VERSION,
            run=self.name,
            seed=3,
            namespace=f"t_{self.name}",
            stores=[store],
            contracts={store: Contract()},
            started_wall_seconds=time.time(),
        )
        asyncio.run(create_run(ledger_url, header))
        info = join.JoinInfo(
            header=header,
            ledger_url=ledger_url,
            servers={"redis": redis_url},
            timeout_seconds=5.0,
            connections_max=4,
            ttl_seconds=None,
            daemon_pid=os.getpid(),
            daemon_started_wall_seconds=psutil.Process().create_time(),
            http_address="",
        )
        join.publish(folder, info)

    def locust(self, *options: str, **environment: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "locust", "-f", str(LOCUSTFILE), "--data-dir", str(self.folder), *options]
        process = subprocess.Popen(
            [*command, "--think-time", "50ms", "--session-messages", "6", "--only-summary"],
            cwd=self.folder,
            env=os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{self.folder}"} | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._started.append(process)
        return process

    def record(self) -> Batch:
        """Give all that was recorded so far in one batch, and count the goodbyes."""
        whole = Batch()
        self.farewells = 0
        self.talking: set[bytes] = set()
        with redis.Redis.from_url(self._ledger_url) as ledger:
            for _, fields in ledger.xrange(keys_of(self.name).batches):
                batch = decode_batch(fields[b"b"], int(fields[b"c"]))
                whole.opens.extend(batch.opens)
                self.talking |= {fields[b"w"]} if batch.opens else set()
                whole.attempts.extend(batch.attempts)
                whole.closes.extend(batch.closes)
                self.farewells += batch.farewell
        return whole

    def wait_for_attempts(self, count: int, *, workers: int = 1) -> None:
        def enough() -> bool:
            return len(self.record().attempts) >= count and len(self.talking) >= workers

        wait_until(enough)

    def assert_drained(self, *, workers: int) -> None:
        """Everything that was begun is closed, and every worker said goodbye."""
        record = self.record()
        assert len(record.attempts) > 10
        assert len(record.closes) == len(record.opens)
        assert self.farewells == workers

    def close(self) -> None:
        for process in self._started:
            if process.poll() is None:
                process.kill()
            process.communicate()


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not holds():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.1)


def free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def output_of(process: subprocess.Popen[str]) -> str:
    output, _ = process.communicate(timeout=WAIT_SECONDS_MAX)
    return output


@pytest.fixture
def run(tmp_path: Path, redis_url: str, ledger_url: str) -> Iterator[Run]:
    made = Run(tmp_path, redis_url, ledger_url)
    yield made
    made.close()


def test_headless_it_joins_the_run_and_reports_operations(run: Run) -> None:
    process = run.locust("--headless", "-u", "10", "-r", "10", "-t", "3s", "--recall-share", "0.5", "--json")
    output = output_of(process)
    assert process.returncode == 0, output
    assert f"joined run {run.name} (redis-list)" in output
    rows = json.loads(output[output.index("[\n    {") : output.rindex("]") + 1])
    assert {(row["method"], row["name"]) for row in rows} >= {
        ("redis-list", name) for name in ("append", "history", "recall")
    }
    assert all(row["num_failures"] == 0 for row in rows)
    run.assert_drained(workers=1)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_drains(run: Run, number: signal.Signals) -> None:
    process = run.locust("--headless", "-u", "10", "-r", "10")
    run.wait_for_attempts(20)
    process.send_signal(number)
    output = output_of(process)
    assert process.returncode == 0, output
    run.assert_drained(workers=1)


@pytest.mark.long
def test_with_processes_every_worker_drains(run: Run) -> None:
    port = free_port()
    ports = ("--master-port", port, "--master-bind-port", port)
    process = run.locust("--headless", "-u", "10", "-r", "10", "--processes", "2", *ports)
    run.wait_for_attempts(20, workers=2)
    process.send_signal(signal.SIGTERM)
    output = output_of(process)
    assert process.returncode == 0, output
    run.assert_drained(workers=2)


@pytest.mark.long
def test_supervised_a_dead_worker_ends_the_load_with_an_error(run: Run) -> None:
    port = free_port()
    ports = ("--master-port", port, "--master-bind-port", port)
    options = ("--headless", "-u", "10", "-r", "10", "--processes", "2")
    process = run.locust(*options, *ports, SOAK_SUPERVISED="1")
    run.wait_for_attempts(20, workers=2)
    worker = psutil.Process(process.pid).children()[0]
    worker.kill()
    output = output_of(process)
    assert process.returncode == 5, output
    assert "a worker process has died" in output


@pytest.mark.long
def test_workers_do_not_outlive_a_killed_master(run: Run) -> None:
    port = free_port()
    ports = ("--master-port", port, "--master-bind-port", port)
    process = run.locust("--headless", "-u", "10", "-r", "10", "--processes", "2", *ports)
    run.wait_for_attempts(20, workers=2)
    workers = psutil.Process(process.pid).children()
    process.kill()
    gone, alive = psutil.wait_procs(workers, timeout=WAIT_SECONDS_MAX)
    assert (len(gone), alive) == (2, [])
    run.assert_drained(workers=2)


@pytest.mark.long
def test_master_and_worker_apart_drain_too(run: Run) -> None:
    port = free_port()
    master = run.locust("--headless", "-u", "10", "-r", "10", "--master", "--master-bind-port", port)
    worker = run.locust("--worker", "--master-port", port)
    run.wait_for_attempts(20)
    master.send_signal(signal.SIGTERM)
    output = output_of(master) + output_of(worker)
    assert (master.returncode, worker.returncode) == (0, 0), output
    run.assert_drained(workers=1)


@pytest.mark.long
def test_the_second_signal_leaves_at_once(tmp_path: Path, redis_url: str, ledger_url: str) -> None:
    (tmp_path / "hanging.py").write_text(HANGING_STORE)
    run = Run(tmp_path, redis_url, ledger_url, "hanging:Hanging")
    try:
        process = run.locust("--headless", "-u", "2", "-r", "2", "--stop-timeout", "60")
        wait_until(lambda: len(run.record().opens) == 2)
        for _ in range(2):
            process.send_signal(signal.SIGTERM)
            time.sleep(1.0)
        output = output_of(process)
        assert process.returncode == 128 + signal.SIGTERM, output
    finally:
        run.close()


def test_a_store_that_the_run_does_not_test_is_one_clear_line(run: Run) -> None:
    process = run.locust("--headless", "--store", "postgres")
    output = output_of(process)
    assert process.returncode == 2
    assert "soak: the run that is joined does not test postgres; it has redis-list." in output
    assert "Traceback" not in output


@pytest.mark.long
def test_the_web_page_shows_the_options_and_a_test_can_be_stopped_and_started_again(run: Run) -> None:
    port = free_port()
    process = run.locust("--web-port", port)
    address = f"http://127.0.0.1:{port}"

    def get(path: str, form: dict[str, str] | None = None) -> str:
        data = None if form is None else urllib.parse.urlencode(form).encode()
        with urllib.request.urlopen(f"{address}{path}", data, timeout=10) as answer:  # noqa: S310  our own server
            body: bytes = answer.read()
        return body.decode()

    def is_up() -> bool:
        try:
            return "locust" in get("/")
        except OSError:
            return False

    wait_until(is_up)
    page = get("/")
    for option in ("store", "session_messages", "writers_per_session", "think_time", "mix", "reread_share"):
        assert f'"{option}"' in page
    listening = {one.laddr.ip for one in psutil.Process(process.pid).net_connections() if one.status == "LISTEN"}
    assert listening == {"127.0.0.1"}
    swarm_form = {"user_count": "5", "spawn_rate": "5", "session_messages": "4"}
    for attempt in (1, 2):
        answer: dict[str, Any] = json.loads(get("/swarm", swarm_form))
        assert answer["success"], answer
        run.wait_for_attempts(40 * attempt, workers=attempt)
        get("/stop", {})
        run.assert_drained(workers=attempt)
    process.send_signal(signal.SIGTERM)
    output = output_of(process)
    assert process.returncode == 0, output
