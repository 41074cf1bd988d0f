"""What soak itself takes of the machine is measured on real processes and a real folder."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from soak.daemon import consumption
from soak.daemon.consumption import FOLDER_PARTS, Consumption, folder_bytes

SECONDS_MAX = 60.0
GRANDCHILD = "import sys; data = b'x' * 50_000_000; print('ready', flush=True); sys.stdin.read()"
CHILD = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {GRANDCHILD!r}])"


async def test_a_process_is_measured_with_all_that_it_has_started(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        pids = {"daemon": os.getpid(), "load": child.pid, "verifier": None}
        processes = (await Consumption(tmp_path, lambda: pids).use()).processes
        child.communicate()
    assert processes.keys() == {"daemon", "load"}
    assert processes["load"].processes == 2
    assert processes["load"].resident_bytes > 50_000_000
    assert processes["load"].open_files >= 6
    # The child is ours, and is not counted twice.
    assert processes["daemon"].processes == 1
    assert processes["daemon"].cpu_seconds > 0


async def test_a_process_that_has_ended_is_not_there(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        child.wait()
    assert (await Consumption(tmp_path, lambda: {"load": child.pid}).use()).processes == {}


def test_the_folder_is_measured_part_by_part(tmp_path: Path) -> None:
    assert folder_bytes(tmp_path) == dict.fromkeys(FOLDER_PARTS, 0)
    (tmp_path / "servers" / "redis").mkdir(parents=True)
    (tmp_path / "servers" / "redis" / "log").write_bytes(b"x" * 100_000)
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "daemon.log").write_bytes(b"x" * 10_000)
    (tmp_path / "run.json").write_bytes(b"x")
    sizes = folder_bytes(tmp_path)
    assert sizes["servers"] >= 100_000 > sizes["logs"] >= 10_000 > sizes["other"] > 0
    assert sizes["verifier"] == 0


async def test_a_folder_that_grows_is_seen_to_grow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumption, "FOLDER_SECONDS", 0.05)
    taken = Consumption(tmp_path, dict)
    measuring = asyncio.create_task(taken.measure())
    try:
        (tmp_path / "verifier").mkdir()
        (tmp_path / "verifier" / "checkpoint").write_bytes(b"x" * 100_000)
        deadline = time.monotonic() + SECONDS_MAX
        while (now := await taken.use()).folder_bytes["verifier"] < 100_000:
            assert time.monotonic() < deadline, now
            await asyncio.sleep(0.05)
        assert now.disk_free_bytes is not None
    finally:
        measuring.cancel()


async def test_an_event_loop_that_is_held_up_is_seen_to_be_late(tmp_path: Path) -> None:
    taken = Consumption(tmp_path, dict)
    assert (await taken.use()).loop_delay_seconds == 0.0
    measuring = asyncio.create_task(taken.measure())
    try:
        await asyncio.sleep(0.01)
        time.sleep(consumption.LOOP_STEP_SECONDS + 1.0)
        deadline = time.monotonic() + SECONDS_MAX
        while (await taken.use()).loop_delay_seconds < 1.0:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.05)
    finally:
        measuring.cancel()
