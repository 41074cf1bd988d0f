"""Starting and ending server processes so that none outlives the process that started it."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import psutil

from soak.servers.account import Account

LAST_WORDS_CHARACTERS_MAX = 2_000
SERVER_NAMES = frozenset({"postgres", "valkey-server", "redis-server"})
_PR_SET_PDEATHSIG = 1
_POLL_SECONDS = 0.01
_KILL_SECONDS_MAX = 5.0
_FREEZE_SECONDS_MAX = 2.0
_FREEZE_ROUNDS_MAX = 10
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


def spawn(
    argv: Sequence[str | Path],
    *,
    log: Path,
    cwd: Path,
    home: Path,
    death_signal: signal.Signals,
    account: Account | None = None,
    environment: Mapping[str, str] | None = None,
    stdin: int = subprocess.DEVNULL,
) -> subprocess.Popen[bytes]:
    """Start a program that writes to a log file and is sent a signal when the calling thread ends.

    The kernel ties that signal to the thread that forks: call this from a thread that lives as long as the
    server should.
    """
    with log.open("ab") as output:
        return subprocess.Popen(  # noqa: S603  the program comes from an installed wheel
            [str(word) for word in argv],
            stdin=stdin,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=cwd,
            env=_environment(home, environment or {}),
            # A session of its own: Ctrl-C at the terminal must reach the daemon, not the servers.
            start_new_session=True,
            preexec_fn=_die_with(os.getpid(), death_signal),  # noqa: PLW1509  one system call, nothing that locks
            user=account.uid if account else None,
            group=account.gid if account else None,
            extra_groups=[] if account else None,
        )


async def ended_within(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Wait for a process to end, at most so long."""
    deadline = time.monotonic() + seconds
    while process.poll() is None:
        if time.monotonic() >= deadline:
            return False
        await asyncio.sleep(_POLL_SECONDS)
    return True


async def end(process: subprocess.Popen[bytes], polite: signal.Signals, seconds: float) -> None:
    """End a process we started and its children: politely, and after the given time without asking."""
    if process.poll() is not None:
        return
    tree = _with_children([process.pid])
    for member in tree:
        _send(member, signal.SIGCONT)  # one that was stopped cannot end by itself
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(polite)
    if not await ended_within(process, seconds):
        for member in {*tree, *_with_children([process.pid])}:
            _send(member, signal.SIGKILL)
        await ended_within(process, _KILL_SECONDS_MAX)


async def freeze(process: subprocess.Popen[bytes]) -> set[psutil.Process]:
    """Stop a process we started and all its children in their tracks; returns them."""
    return await freeze_tree(process.pid)


async def freeze_tree(pid: int) -> set[psutil.Process]:
    """Stop a process of ours, here or in a container, and all its children in their tracks; returns them.

    The parent first, so that it neither starts further children nor reacts to what happens to these.
    """
    frozen: set[psutil.Process] = set()
    for _ in range(_FREEZE_ROUNDS_MAX):
        found = _with_children([pid]) - frozen
        if not found:
            break
        for member in sorted(found, key=lambda one: one.pid != pid):
            _send(member, signal.SIGSTOP)
        # A system call under way, such as a write, is finished before the process stands still.
        await _until_none(found, _moves, _FREEZE_SECONDS_MAX)
        frozen |= found
    return frozen


def thaw(process: subprocess.Popen[bytes]) -> None:
    """Let a frozen process and its children go on; harmless for those that were never stopped."""
    for member in _with_children([process.pid]):
        _send(member, signal.SIGCONT)


async def kill(process: subprocess.Popen[bytes]) -> None:
    """End a process we started and its children at one moment, as a crash does: nothing is told to any of them."""
    if process.poll() is not None:
        return
    tree = await freeze(process)
    for member in tree:
        _send(member, signal.SIGKILL)
    await ended_within(process, _KILL_SECONDS_MAX)
    await _until_gone(tree, _KILL_SECONDS_MAX)


async def end_strays(pids: Iterable[int], folders: Iterable[Path], seconds: float = 5.0) -> list[int]:
    """End servers that an earlier, dead owner left behind; returns their pids.

    Besides the given pids these are all servers whose working folder is one of ours, such as the
    sessions of a PostgreSQL whose first process was killed.
    """
    strays = {*_with_children(pids), *_working_in(folders)}
    for stray in strays:
        name = _name(stray)
        _send(stray, signal.SIGCONT)
        _send(stray, signal.SIGQUIT if name == "postgres" else signal.SIGTERM)
    alive = await _until_gone(strays, seconds)
    for stray in alive:
        _send(stray, signal.SIGKILL)
    await _until_gone(alive, seconds)
    return sorted(stray.pid for stray in strays)


def kill_strays_below(folder: Path) -> None:
    """Kill servers in a folder whose owner is gone: what it stores is not wanted any more."""
    strays = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.name() in SERVER_NAMES and folder in Path(process.cwd()).parents:
                process.kill()
                strays.append(process)
    psutil.wait_procs(strays, timeout=_KILL_SECONDS_MAX)


def kill_group(pid: int) -> None:
    """Kill a process that leads a session of its own, with all it has started there."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def is_same_process(pid: int, created_seconds: float) -> bool:
    """Tell whether this pid still is the process it was: pids are given out again."""
    try:
        process = psutil.Process(pid)
        # The creation time is derived from the boot time, which moves a little when the clock is set.
        return abs(process.create_time() - created_seconds) < 5.0 and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def created_seconds(pid: int) -> float:
    """Return when a process was created, as wall-clock seconds; 0 if it is gone."""
    try:
        return psutil.Process(pid).create_time()
    except psutil.Error:
        return 0.0


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


def _environment(home: Path, extra: Mapping[str, str]) -> dict[str, str]:
    # Not the caller's: PGDATA, PGPORT, PGOPTIONS and the like would change what is started.
    kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH", "TZ") if name in os.environ}
    return {"PATH": os.defpath, **kept, "HOME": str(home), "LC_ALL": "C", **extra}


def _die_with(parent: int, death_signal: signal.Signals) -> Callable[[], None] | None:
    libc = _LIBC
    if libc is None:
        return None

    def before_exec() -> None:
        # Runs after the change of user, which would have cleared it.
        libc.prctl(_PR_SET_PDEATHSIG, int(death_signal), 0, 0, 0)
        if os.getppid() != parent:  # it died before we asked to be told
            os._exit(1)

    return before_exec


def _with_children(pids: Iterable[int]) -> set[psutil.Process]:
    found: set[psutil.Process] = set()
    for pid in pids:
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(pid)
            found |= {process, *process.children(recursive=True)}
    return found


def _working_in(folders: Iterable[Path]) -> set[psutil.Process]:
    wanted = {str(folder) for folder in folders}
    found = set()
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.name() in SERVER_NAMES and process.cwd() in wanted:
                found.add(process)
    return found


async def _until_gone(processes: Iterable[psutil.Process], seconds: float) -> set[psutil.Process]:
    return await _until_none(processes, _is_alive, seconds)


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


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _name(process: psutil.Process) -> str:
    try:
        return process.name()
    except psutil.Error:
        return ""


def _send(process: psutil.Process, number: signal.Signals) -> None:
    with contextlib.suppress(psutil.Error):
        process.send_signal(number)
