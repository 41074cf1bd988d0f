"""What soak itself takes of the machine is measured on real processes and a real folder."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from soak.daemon import consumption
from soak.daemon.consumption import FOLDER_PARTS, Consumption, Use, folder_bytes

SECONDS_MAX = 60.0
GRANDCHILD = "import sys; data = b'x' * 50_000_000; print('ready', flush=True); sys.stdin.read()"
CHILD = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {GRANDCHILD!r}])"


@contextlib.asynccontextmanager
async def measuring(folder: Path, pids: Mapping[str, int | None] = MappingProxyType({})) -> AsyncIterator[Consumption]:
    taken = Consumption(folder, lambda: pids)
    task = asyncio.create_task(taken.measure())
    try:
        yield taken
    finally:
        task.cancel()


async def until(taken: Consumption, holds: Callable[[Use], object]) -> Use:
    deadline = time.monotonic() + SECONDS_MAX
    while not holds(now := taken.use()):
        assert time.monotonic() < deadline, now
        await asyncio.sleep(0.05)
    return now


async def test_a_process_is_measured_with_all_that_it_has_started(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        async with measuring(tmp_path, {"daemon": os.getpid(), "load": child.pid, "verifier": None}) as taken:
            processes = (await until(taken, lambda now: now.processes)).processes
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
    pids: dict[str, int | None] = {"daemon": os.getpid(), "load": child.pid}
    async with measuring(tmp_path, pids) as taken:
        assert (await until(taken, lambda now: now.processes)).processes.keys() == {"daemon"}
        pids["daemon"] = None  # as a child whose end was noticed after it was measured
        assert taken.use().processes == {}


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
    async with measuring(tmp_path) as taken:
        (tmp_path / "verifier").mkdir()
        (tmp_path / "verifier" / "checkpoint").write_bytes(b"x" * 100_000)
        now = await until(taken, lambda now: now.folder_bytes["verifier"] >= 100_000)
        assert now.disk_free_bytes is not None


async def test_an_event_loop_that_is_held_up_is_seen_to_be_late(tmp_path: Path) -> None:
    async with measuring(tmp_path) as taken:
        assert taken.use().loop_delay_seconds == 0.0
        await asyncio.sleep(0.01)
        time.sleep(consumption.LOOP_STEP_SECONDS + 1.0)
        await until(taken, lambda now: now.loop_delay_seconds >= 1.0)
