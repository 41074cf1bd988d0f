"""A process with all its children: stop it, let it go on, end it, and whether a pid is still the same process."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import psutil

from soak.proc.spawn import AsyncProcess, Running

LAST_WORDS_CHARACTERS_MAX = 2_000
_POLL_SECONDS = 0.01
_KILL_SECONDS_MAX = 5.0
_FREEZE_SECONDS_MAX = 2.0
_FREEZE_ROUNDS_MAX = 10


async def ended_within(process: Running, seconds: float) -> bool:
    """Wait for a process to end, at most so long."""
    deadline = time.monotonic() + seconds
    while process.poll() is None:
        if time.monotonic() >= deadline:
            return False
        await asyncio.sleep(_POLL_SECONDS)
    return True


async def end(process: Running, polite: signal.Signals, seconds: float) -> None:
    """End a process we started and its children: politely, and after the given time without asking."""
    if process.poll() is not None:
        return
    tree = with_children([process.pid])
    for member in tree:
        send(member, signal.SIGCONT)  # one that was stopped cannot end by itself
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(polite)
    if not await ended_within(process, seconds):
        for member in {*tree, *with_children([process.pid])}:
            send(member, signal.SIGKILL)
        await ended_within(process, _KILL_SECONDS_MAX)


async def freeze(pid: int) -> set[psutil.Process]:
    """Stop a process of ours, here or in a container, and all its children in their tracks; returns them.

    The parent first, so that it neither starts further children nor reacts to what happens to these.
    """
    frozen: set[psutil.Process] = set()
    for _ in range(_FREEZE_ROUNDS_MAX):
        found = with_children([pid]) - frozen
        if not found:
            break
        for member in sorted(found, key=lambda one: one.pid != pid):
            send(member, signal.SIGSTOP)
        # A system call under way, such as a write, is finished before the process stops.
        await _until_none(found, _moves, _FREEZE_SECONDS_MAX)
        frozen |= found
    return frozen


def thaw(process: Running) -> None:
    """Let a frozen process and its children go on; harmless for those that were never stopped."""
    for member in with_children([process.pid]):
        send(member, signal.SIGCONT)


async def kill(process: Running) -> None:
    """End a process we started and its children at one moment, as a crash does: with no signal to handle."""
    if process.poll() is not None:
        return
    tree = await freeze(process.pid)
    for member in tree:
        send(member, signal.SIGKILL)
    await ended_within(process, _KILL_SECONDS_MAX)
    await until_gone(tree, _KILL_SECONDS_MAX)


async def end_async(process: AsyncProcess, seconds: float) -> None:
    """End a process of the event loop's, politely, and after the given time with all it has started."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await process.wait()
    if process.returncode is None:
        kill_group(process.pid)
        await process.wait()


def kill_group(pid: int) -> None:
    """Kill a process that leads a session of its own, with all it has started there."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def is_same_process(pid: int, created: float) -> bool:
    """Tell whether this pid still is the process it was: pids are given out again."""
    return created > 0 and created_seconds(pid) == created


def created_seconds(pid: int) -> float:
    """Return when a process was created, in seconds since boot; 0 if it is gone or a zombie.

    Not by the wall clock: somebody may set that while the process lives.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return 0.0
    state, *fields = stat.rpartition(b")")[2].split()  # its name, which is free text, stands in brackets
    return 0.0 if state == b"Z" else int(fields[18]) / os.sysconf("SC_CLK_TCK")


def last_words(log: Path, start: int = 0, lines_max: int = 3) -> str:
    """Return the last lines a server logged after the given position, as one line."""
    try:
        with log.open("rb") as file:
            file.seek(max(start, file.seek(0, os.SEEK_END) - 4096))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return ""
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    return "; ".join(lines[-lines_max:])[-LAST_WORDS_CHARACTERS_MAX:]


def with_children(pids: Iterable[int]) -> set[psutil.Process]:
    """Return the processes of these pids that live, and all that they have started."""
    found: set[psutil.Process] = set()
    for pid in pids:
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(pid)
            found |= {process, *process.children(recursive=True)}
    return found


async def until_gone(processes: Iterable[psutil.Process], seconds: float) -> set[psutil.Process]:
    """Wait until all have ended, at most so long; returns those that have not."""
    return await _until_none(processes, is_alive, seconds)


async def _until_none(
    processes: Iterable[psutil.Process], holds: Callable[[psutil.Process], bool], seconds: float
) -> set[psutil.Process]:
    """Wait until something holds for none of the processes; returns those for which it still does."""
    deadline = time.monotonic() + seconds
    left = {process for process in processes if holds(process)}
    while left and time.monotonic() < deadline:
        await asyncio.sleep(_POLL_SECONDS)
        left = {process for process in left if holds(process)}
    return left


def _moves(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() not in (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def send(process: psutil.Process, number: signal.Signals) -> None:
    with contextlib.suppress(psutil.Error):
        process.send_signal(number)
