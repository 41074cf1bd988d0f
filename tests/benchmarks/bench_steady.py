"""A soak in its steady state: what verifying costs, as a share of the load it verifies.

Run with `python -m tests.benchmarks.bench_steady [STORE …]`. It starts a real soak and measures the CPU time of its
processes.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import psutil

from tests.support.benchmark_report import Row, print_rows

START_SECONDS_MAX = 60.0
WARM_UP_SECONDS = 10.0
MEASURED_SECONDS = 12.0
SETTINGS = ["load.think=500ms", "load.spawn_rate=500", "load.users=500"]


def cpu_seconds(process: psutil.Process) -> float:
    """Return the CPU time of a process and of what it has started."""
    return sum(sum(one.cpu_times()[:2]) for one in [process, *process.children(recursive=True)])


def find_children(daemon: psutil.Process) -> dict[str, psutil.Process]:
    words = {"verifier": "verify", "load": "locust"}
    return {
        name: child
        for child in daemon.children()
        for name, word in words.items()
        if any(word in argument for argument in child.cmdline())
    }


def acknowledged(folder: Path) -> int:
    endpoint = json.loads((folder / "verifier/endpoint.json").read_text())
    with urllib.request.urlopen(f"http://{endpoint['host']}:{endpoint['port']}/status") as answer:
        status = json.load(answer)
    return int(status["totals"]["acknowledged"])


def wait_for_start(folder: Path) -> None:
    deadline = time.monotonic() + START_SECONDS_MAX
    while not (folder / "verifier/endpoint.json").exists() or not acknowledged(folder):
        if time.monotonic() > deadline:
            raise SystemExit(f"nothing was acknowledged within {START_SECONDS_MAX:g}s")
        time.sleep(0.2)


def measure(store: str) -> list[Row]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command = [sys.executable, "-m", "soak", "run", "--plain", "--faults", "none", "--store", store]
        command += ["--port", "0", "--data-dir", name]
        for setting in SETTINGS:
            command += ["--set", setting]
        daemon = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_for_start(folder)
            time.sleep(WARM_UP_SECONDS)
            children = find_children(psutil.Process(daemon.pid))
            before = {child: cpu_seconds(process) for child, process in children.items()}
            count = acknowledged(folder)
            time.sleep(MEASURED_SECONDS)
            spent = {child: cpu_seconds(process) - before[child] for child, process in children.items()}
            count = acknowledged(folder) - count
        finally:
            daemon.terminate()
            daemon.wait(timeout=120)
    per_message = {child: seconds / count * 1e6 for child, seconds in spent.items()}
    return [
        Row(
            f"{store}: verifier, cpu µs per message",
            per_message["verifier"],
            per_message["load"],
            f"the load at {count / MEASURED_SECONDS:,.0f} messages/s",
            "<= 0.20 x",
        )
    ]


if __name__ == "__main__":
    stores = sys.argv[1:] or ["redis-list", "postgres"]
    print_rows("steady state", [row for store in stores for row in measure(store)])
