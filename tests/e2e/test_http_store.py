"""A memory behind HTTP in a whole soak: the example passes, one that overwrites is found out, a restart is survived."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from soak.servers.ports import free_port
from tests.support import command
from tests.support.paths import ROOT

pytestmark = pytest.mark.long

EXAMPLE = ROOT / "examples" / "http_memory.py"
SECONDS_MAX = 90.0
TOKEN = "sesame"  # noqa: S105
BUSY = ("--users", "20", "--duration", "6s", "--think", "100ms", "--set", "load.shared_share=0.6", "--json")


class Served:
    """A service in a process of its own."""

    def __init__(self, program: Path, redis_url: str, folder: Path) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.pid_file = folder / "service.pid"
        self.command = [sys.executable, str(program), "--redis", redis_url, "--port", str(self.port)]
        self._start()

    def _start(self) -> None:
        process = subprocess.Popen(self.command, env={**os.environ, "MEMORY_TOKEN": TOKEN})
        self.pid_file.write_text(str(process.pid))
        self._process = process
        deadline = time.monotonic() + SECONDS_MAX
        while not self._answers():
            assert time.monotonic() < deadline, "the service does not answer"
            time.sleep(0.05)

    def _answers(self) -> bool:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        request = urllib.request.Request(self.url + "/v1/health", headers=headers)  # noqa: S310  our own
        try:
            with urllib.request.urlopen(request, timeout=5):  # noqa: S310  our own
                return True
        except OSError:
            return False

    def end(self) -> None:
        pid = int(self.pid_file.read_text())
        if pid != self._process.pid:
            os.kill(pid, signal.SIGKILL)
        self._process.kill()
        self._process.wait()


@pytest.fixture
def service(redis_url: str, tmp_path: Path) -> Iterator[Served]:
    served = Served(EXAMPLE, redis_url, tmp_path)
    yield served
    served.end()


def soak(*words: str, folder: Path) -> tuple[int, dict[str, object], str]:
    # What is kept after a violation goes with the test.
    done = command.soak(*words, cwd=folder, TMPDIR=str(folder), SOAK_SERVERS__HTTP_TOKEN=TOKEN)
    assert TOKEN not in done.stdout + done.stderr
    return done.returncode, json.loads(done.stdout or "{}"), done.stderr


def test_the_example_conforms_and_passes_a_soak(service: Served, tmp_path: Path) -> None:
    code, findings, told = soak("conformance", "--url", service.url, "--json", folder=tmp_path)
    assert code == 0, told
    assert {finding["outcome"] for finding in findings} <= {"ok", "absent"}  # type: ignore[index]
    code, outcome, told = soak("check", "--store", "http", "--url", service.url, *BUSY, folder=tmp_path)
    assert code == 0, told
    assert outcome["result"]["totals"]["verified"] > 0  # type: ignore[index]


def test_a_service_that_writes_the_whole_history_back_is_found_out(redis_url: str, tmp_path: Path) -> None:
    wrong = EXAMPLE.read_text().replace(
        "    await request.app[REDIS].rpush(PREFIX + session, json.dumps(message))\n",
        "    rows = await request.app[REDIS].lrange(PREFIX + session, 0, -1)\n"
        "    await request.app[REDIS].delete(PREFIX + session)\n"
        "    await request.app[REDIS].rpush(PREFIX + session, *rows, json.dumps(message))\n",
    )
    assert wrong != EXAMPLE.read_text()
    program = tmp_path / "overwriting.py"
    program.write_text(wrong)
    served = Served(program, redis_url, tmp_path)
    try:
        code, outcome, told = soak("check", "--store", "http", "--url", served.url, *BUSY, folder=tmp_path)
    finally:
        served.end()
    assert code == 1, told
    kinds = {one["kind"] for one in outcome["result"]["violations_by"]}  # type: ignore[index]
    assert kinds & {"lost", "rolled_back", "stale", "duplicated", "non_monotonic"}


def test_a_service_is_restarted_by_its_operator_and_nothing_is_missing(service: Served, tmp_path: Path) -> None:
    script = tmp_path / "restart.sh"
    script.write_text(
        f'kill -9 "$(cat {service.pid_file})"\n'
        f"MEMORY_TOKEN={TOKEN} setsid {shlex.join(service.command)} >/dev/null 2>&1 &\n"
        f"echo $! > {service.pid_file}\n"
    )
    (tmp_path / "soak.toml").write_text(
        f'[testbed]\nallow_faults = ["restart"]\nrestart_command = "bash {script} {{server}}"\n'
        '[[faults.rules]]\nfault = "restart"\ntarget = "http"\nevery = "2s"\nhold = "0s"\n'
    )
    code, outcome, told = soak("check", "--store", "http", "--url", service.url, *BUSY, folder=tmp_path)
    assert code == 0, told
    assert outcome["result"]["recoveries"], told  # type: ignore[index]
