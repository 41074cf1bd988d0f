"""Locust itself, as people start it: it joins the run, drains when asked, and its exit code hides nothing."""

from __future__ import annotations

import json
import signal
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.locust_run import WAIT_SECONDS_MAX, Run, free_port, wait_until

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
    assert '"missing_host_warning": false' in page, "nobody is asked for a host"
    assert '"host": "the stores of the run"' in page
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
