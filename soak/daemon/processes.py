"""Child processes that end with the daemon, and the end of those that an earlier daemon left behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import psutil

from soak.proc.files import DamagedFileError, read_sealed, write_sealed
from soak.proc.spawn import STDOUT, AsyncProcess, start_async
from soak.proc.tree import created_seconds, is_same_process


class Started(msgspec.Struct, frozen=True):
    """A process that leads a group of its own; the time distinguishes it from a later one with the same pid."""

    pid: int
    created_seconds: float


class Spawned(NamedTuple):
    """A running program and what it says."""

    process: AsyncProcess
    output: asyncio.StreamReader
    pipe: asyncio.ReadTransport


async def spawn(argv: Sequence[str], environment: Mapping[str, str]) -> Spawned:
    """Start a program whose output comes to us, in a group of its own; the kernel ends it when we die.

    Call it from the main thread: the kernel watches the thread, not the process, that started it.
    """
    # A pipe of our own: with asyncio's, the end of a process is not reported before all that inherited its output end.
    reading, writing = os.pipe()
    try:
        process = await start_async(
            argv, stdout=writing, stderr=STDOUT, environment=environment, death_signal=signal.SIGKILL
        )
    except BaseException:
        os.close(reading)
        raise
    finally:
        os.close(writing)
    output = asyncio.StreamReader()
    pipe, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(output), os.fdopen(reading, "rb", buffering=0)
    )
    return Spawned(process, output, pipe)


def identify(pid: int) -> Started:
    return Started(pid, created_seconds(pid))


def end_group(started: Started) -> int:
    """Kill what is left of a group we started; returns how many processes that were."""
    leader_is_ours = is_same_process(started.pid, started.created_seconds)
    if not leader_is_ours and psutil.pid_exists(started.pid) and not _is_zombie(started.pid):
        return 0  # that number belongs to somebody else now
    killed = 0
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, ProcessLookupError, PermissionError):
            if os.getpgid(process.pid) == started.pid and process.status() != psutil.STATUS_ZOMBIE:
                process.send_signal(signal.SIGKILL)
                killed += 1
    return killed


class _Children(msgspec.Struct, frozen=True):
    """What the file holds."""

    started: dict[str, Started]


class ChildrenFile:
    """Which children run, for the next daemon in case this one is killed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._started: dict[str, Started] = {}

    def note(self, name: str, started: Started | None) -> None:
        if started is None:
            self._started.pop(name, None)
        else:
            self._started[name] = started
        # A full disk must not end the soak; then only a kill -9 of this daemon could leave them behind.
        with contextlib.suppress(OSError):
            write_sealed(self._path, _Children(self._started))

    def end_leftovers(self) -> int:
        """Kill the children of a daemon that is no more. Only the holder of the data folder's lock may."""
        try:
            left = read_sealed(self._path, _Children)
        except DamagedFileError:
            return 0  # the kernel has ended them with their daemon; this is for what it may have missed
        return sum(end_group(started) for started in left.started.values()) if left is not None else 0


def _is_zombie(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.Error:
        return True
