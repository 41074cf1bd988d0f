"""A soak in its steady state: what verifying costs, as a share of the load it verifies, and how much it can.

Run with `python -m tests.benchmarks.bench_steady [--verifiers N] [STORE …]`. It starts a real soak and measures the CPU
time of its processes. Without a store it also lets a soak run as fast as it can, to its verdict.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import psutil

from tests.support.benchmark_report import Row, machine, print_rows

START_SECONDS_MAX = 60.0
WARM_UP_SECONDS = 10.0
MEASURED_SECONDS = 12.0
SETTINGS = ["load.think=500ms", "load.spawn_rate=500", "load.users=500"]


def cpu_seconds(processes: list[psutil.Process]) -> float:
    """Return the CPU time of processes and of what they have started."""
    every = [one for process in processes for one in (process, *process.children(recursive=True))]
    return sum(sum(one.cpu_times()[:2]) for one in every)


def find_children(daemon: psutil.Process) -> dict[str, list[psutil.Process]]:
    """Return the verifiers, of which there may be several, and the load."""
    words = {"verifier": "verify", "load": "locust"}
    return {
        name: [child for child in daemon.children() if any(word in argument for argument in child.cmdline())]
        for name, word in words.items()
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


def measure(store: str, verifiers: int) -> list[Row]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command = [sys.executable, "-m", "soak", "run", "--plain", "--faults", "none", "--store", store]
        command += ["--port", "0", "--data-dir", name]
        command += ["--verifiers", str(verifiers), "--processes", str(verifiers)]
        for setting in SETTINGS:
            command += ["--set", setting]
        daemon = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_for_start(folder)
            time.sleep(WARM_UP_SECONDS)
            children = find_children(psutil.Process(daemon.pid))
            before = {child: cpu_seconds(processes) for child, processes in children.items()}
            count = acknowledged(folder)
            time.sleep(MEASURED_SECONDS)
            spent = {child: cpu_seconds(processes) - before[child] for child, processes in children.items()}
            count = acknowledged(folder) - count
        finally:
            daemon.terminate()
            daemon.wait(timeout=120)
    per_message = {child: seconds / count * 1e6 for child, seconds in spent.items()}
    return [
        Row(
            f"{store}: {verifiers} verifier{'s' if verifiers > 1 else ''}, cpu µs per message",
            per_message["verifier"],
            per_message["load"],
            f"the load at {count / MEASURED_SECONDS:,.0f} messages/s",
            "<= 0.20 x",
        )
    ]


WHOLE_SECONDS = 20.0
WHOLE = ["--store", "redis-list", "--faults", "none", "--users", "100", "--think", "1ms"]


def print_whole_system(verifiers: int) -> None:
    """Let load, servers, ledger and verifier share the machine; what is not verified at the end does not count."""
    with tempfile.TemporaryDirectory() as name:
        command = [sys.executable, "-m", "soak", "check", *WHOLE, "--duration", f"{WHOLE_SECONDS:g}s"]
        command += ["--port", "0", "--data-dir", f"{name}/data", "--report-dir", f"{name}/report"]
        command += ["--verifiers", str(verifiers), "--processes", str(verifiers)]
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        result = json.loads((Path(name) / "report/report.json").read_text())
    totals = result["result"]["totals"]
    many = f"{verifiers} verifier{'s' if verifiers > 1 else ''}"
    print(f"\nwhole system, redis-list, {many}, {' '.join(WHOLE[4:])}, {WHOLE_SECONDS:g} s ({machine()})")
    for what in ("acknowledged", "verified"):
        target = "   target >= 12,000" if what == "verified" else ""
        print(f"  {f'appends {what}, per second of load':<46}  {totals[what] / WHOLE_SECONDS:>10,.0f}{target}")
    print(f"  {'verdict':<46}  {result['verdict']:>10}   target pass")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--verifiers", type=int, default=1, help="verifiers and load processes, so many of each")
    parser.add_argument("stores", nargs="*")
    asked = parser.parse_args()
    stores = asked.stores or ["redis-list", "postgres"]
    print_rows("steady state", [row for store in stores for row in measure(store, asked.verifiers)])
    if not asked.stores:
        print_whole_system(asked.verifiers)
