"""What soak itself takes of the machine: memory, files and processor of its processes, and room on the disk.

A soak runs for weeks. What grows by a little every hour is seen here long before it ends the run.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
import psutil

LOOP_STEP_SECONDS = 0.5
LOOP_STEPS_KEPT = 30
"""The worst of the last fifteen seconds is reported: a common interval between scrapes."""
PROCESSES_SECONDS = 5.0
"""To find the children of a process, all processes of the machine are looked at: not at every scrape."""
FOLDER_SECONDS = 15.0
"""Between two measurements of the data folder, at least."""
FOLDER_COST_FACTOR = 50
"""A database may have a million files: measuring them may take at most a fiftieth of the time."""
FOLDER_PARTS = ("servers", "verifier", "logs", "runs", "other")
BLOCK_BYTES = 512
"""What `st_blocks` counts in, on every file system."""
PROCESSES_MAX = 1_000
"""Of one tree; Locust starts one for each core."""


class ProcessUse(msgspec.Struct, frozen=True, kw_only=True):
    """What a process takes, with all that it has started."""

    resident_bytes: int
    open_files: int
    threads: int
    cpu_seconds: float
    processes: int


class Use(msgspec.Struct, frozen=True, kw_only=True):
    """What soak takes at one moment."""

    processes: dict[str, ProcessUse] = {}
    """By name; one that does not run is not there."""
    folder_bytes: dict[str, int] = {}
    """By part of the data folder."""
    disk_free_bytes: int | None = None
    loop_delay_seconds: float = 0.0


class Consumption:
    """Measures what soak takes, and how late the daemon's event loop runs."""

    def __init__(self, folder: Path, pids: Callable[[], Mapping[str, int | None]]) -> None:
        self._folder = folder
        self._pids = pids
        self._delays: deque[float] = deque([0.0], maxlen=LOOP_STEPS_KEPT)
        self._processes: dict[str, ProcessUse] = {}
        self._folder_bytes: dict[str, int] = dict.fromkeys(FOLDER_PARTS, 0)
        self._free_bytes: int | None = None

    def use(self) -> Use:
        """Return what was taken when it was last measured; it takes no time."""
        running = {name for name, pid in self._pids().items() if pid is not None}
        return Use(
            processes={name: use for name, use in self._processes.items() if name in running},
            folder_bytes=dict(self._folder_bytes),
            disk_free_bytes=self._free_bytes,
            loop_delay_seconds=max(self._delays),
        )

    async def measure(self) -> None:
        """Measure until cancelled."""
        await asyncio.gather(self._measure_loop(), self._measure_processes(), self._measure_folder())

    async def _measure_loop(self) -> None:
        while True:
            before = time.monotonic()
            await asyncio.sleep(LOOP_STEP_SECONDS)
            self._delays.append(max(0.0, time.monotonic() - before - LOOP_STEP_SECONDS))

    async def _measure_processes(self) -> None:
        while True:
            pids = {name: pid for name, pid in self._pids().items() if pid is not None}
            self._processes = await asyncio.to_thread(_measure, pids)
            await asyncio.sleep(PROCESSES_SECONDS)

    async def _measure_folder(self) -> None:
        while True:
            before = time.monotonic()
            self._free_bytes = await asyncio.to_thread(_free_bytes, self._folder)
            self._folder_bytes = await asyncio.to_thread(folder_bytes, self._folder)
            await asyncio.sleep(max(FOLDER_SECONDS, (time.monotonic() - before) * FOLDER_COST_FACTOR))


def _measure(pids: Mapping[str, int]) -> dict[str, ProcessUse]:
    found = {name: _use_of_tree(pid) for name, pid in pids.items()}
    return {name: use for name, use in found.items() if use is not None}


def _use_of_tree(pid: int) -> ProcessUse | None:
    try:
        leader = psutil.Process(pid)
        # The daemon's children are counted under their own names.
        tree = [leader] if pid == os.getpid() else [leader, *leader.children(recursive=True)[:PROCESSES_MAX]]
    except psutil.Error:
        return None
    uses = [use for process in tree if (use := _use_of_one(process)) is not None]
    if not uses:
        return None
    return ProcessUse(
        resident_bytes=sum(use.resident_bytes for use in uses),
        open_files=sum(use.open_files for use in uses),
        threads=sum(use.threads for use in uses),
        cpu_seconds=sum(use.cpu_seconds for use in uses),
        processes=len(uses),
    )


def _use_of_one(process: psutil.Process) -> ProcessUse | None:
    try:
        with process.oneshot():
            times = process.cpu_times()
            return ProcessUse(
                resident_bytes=process.memory_info().rss,
                open_files=process.num_fds(),
                threads=process.num_threads(),
                cpu_seconds=times.user + times.system,
                processes=1,
            )
    except psutil.Error:
        return None  # it has just ended, or belongs to somebody else


def _free_bytes(folder: Path) -> int | None:
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None


def folder_bytes(folder: Path) -> dict[str, int]:
    """Add up what each part of the data folder takes on disk, as far as it may be looked at."""
    sizes = dict.fromkeys(FOLDER_PARTS, 0)
    for path, _folders, files in os.walk(folder):
        first = Path(path).relative_to(folder).parts[:1]
        part = first[0] if first and first[0] in sizes else "other"
        for file in files:
            with contextlib.suppress(OSError):  # servers remove files all the time
                sizes[part] += Path(path, file).lstat().st_blocks * BLOCK_BYTES
    return sizes
