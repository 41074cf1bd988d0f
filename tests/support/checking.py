"""A `soak check` that runs, is watched by its page, and can be ended early."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import psutil

from soak.errors import ExitCode
from tests.support.command import plain_environment

SECONDS_MAX = 60.0
BUSY = (
    *("--users", "24", "--set", "load.think=100ms", "--set", "load.shared_share=0.5", "--set", "load.spawn_rate=100"),
    *("--set", "verifier.hot_interval=300ms", "--set", "verifier.settle=1s", "--set", "supervision.backoff=200ms"),
)


class RunningCheck:
    """One `soak check` in a folder of its own."""

    def __init__(self, folder: Path, *words: str, through: Sequence[str] = (), **environment: str) -> None:
        """Start it, by a command that becomes it if one is given."""
        self.data_dir = folder / "data"
        self.data_dir.mkdir(exist_ok=True)
        self._output = (folder / f"output-{time.monotonic_ns()}.txt").open("w+b")
        self._told = (folder / f"told-{time.monotonic_ns()}.json").open("w+b")
        command = [*through, sys.executable, "-m", "soak", "check", "--data-dir", str(self.data_dir), "--json", *words]
        self.process = subprocess.Popen(
            command,
            env=plain_environment(**environment),
            cwd=folder,
            stdout=self._told,
            stderr=self._output,
        )

    @property
    def output(self) -> str:
        return Path(self._output.name).read_text()

    def status(self) -> dict[str, Any]:
        info = json.loads((self.data_dir / "run.json").read_text())
        assert info["daemon_pid"] == self.process.pid
        with urllib.request.urlopen(info["http_address"] + "/status", timeout=10) as answer:  # noqa: S310  our own
            status: dict[str, Any] = json.loads(answer.read())
        return status

    def until(self, condition: Callable[[dict[str, Any]], object], seconds: float = SECONDS_MAX) -> dict[str, Any]:
        """Wait until the status says so."""
        deadline = time.monotonic() + seconds
        status: dict[str, Any] = {}
        while time.monotonic() < deadline:
            assert self.process.poll() is None, self.output
            with contextlib.suppress(OSError, AssertionError, ValueError):
                status = self.status()
                if condition(status):
                    return status
            time.sleep(0.1)
        raise AssertionError(f"{self.output}\n{status}")

    def until_verified(self, count: int) -> dict[str, Any]:
        return self.until(lambda status: total(status, "verified") >= count)

    def kill_child(self, name: str) -> None:
        """Kill a child and wait until another has taken its place."""
        before = child(self.status(), name)
        os.kill(before["pid"], signal.SIGKILL)
        self.until(lambda now: child(now, name)["restarts"] > before["restarts"] and child(now, name)["pid"])

    def end(self) -> dict[str, Any]:
        """Ask it to end, and return what it says."""
        self.process.send_signal(signal.SIGTERM)
        return self.wait()

    def wait(self) -> dict[str, Any]:
        self.process.wait(SECONDS_MAX * 2)
        told: dict[str, Any] = json.loads(Path(self._told.name).read_text())
        return told

    def evidence(self) -> list[dict[str, Any]]:
        return [json.loads(path.read_bytes()) for path in (self.data_dir / "verifier" / "evidence").glob("*.json")]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._output.close()
        self._told.close()


@contextlib.contextmanager
def new_folder() -> Iterator[Path]:
    """Make a folder that other users may enter, and see to it that nothing that runs in it is left."""
    folder = Path(tempfile.mkdtemp(prefix="soak-e2e-"))
    folder.chmod(0o755)
    try:
        yield folder
        wait_until(lambda: not processes_of(folder))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def checking(*words: str, through: Sequence[str] = (), **environment: str) -> Iterator[RunningCheck]:
    with new_folder() as folder, RunningCheck(folder, *words, through=through, **environment) as check:
        yield check


def resume(folder: Path, before: dict[str, Any], *words: str) -> tuple[RunningCheck, dict[str, Any]]:
    """Resume a check that was killed; return it, ended with a pass, and its result."""
    with RunningCheck(folder, *words) as check:
        after = check.until_verified(total(before, "verified") + 100)
        assert after["run"] == before["run"]
        told = check.end()
    assert (check.process.returncode, told["verdict"]) == (ExitCode.PASS, "pass"), (told["reasons"], check.output)
    return check, told


def wait_until(condition: Callable[[], object], seconds: float = SECONDS_MAX) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


def processes_of(folder: Path) -> list[str]:
    """Return all processes that have something to do with a folder."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            told = " ".join([*process.cmdline(), process.cwd()])
            if process.status() != psutil.STATUS_ZOMBIE and str(folder) in told:
                found.append(f"{process.pid} {' '.join(process.cmdline())}")
    return found


def total(status: dict[str, Any], name: str) -> int:
    return int((status.get("verifier") or {}).get("totals", {}).get(name, 0))


def child(status: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(one for one in status["children"] if one["name"] == name)
    return found


def kinds_by_store(told: dict[str, Any]) -> dict[str, dict[str, int]]:
    """Return how often each kind was found on each store."""
    kinds: dict[str, dict[str, int]] = {}
    for entry in told["violations_by"]:
        kinds.setdefault(entry["store"], {})[entry["kind"]] = entry["count"]
    return kinds
