"""Servers whose owner is gone: found by their working folder, and ended."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterable
from pathlib import Path

import psutil

from soak.proc import tree

PROGRAMS = {
    "postgres": signal.SIGQUIT,
    "valkey-server": signal.SIGTERM,
    "redis-server": signal.SIGTERM,
    "etcd": signal.SIGTERM,
}
"""Server programs, each with the signal that ends it soon and without losing what it has acknowledged."""
_KILL_SECONDS_MAX = 5.0


async def end_strays(pids: Iterable[int], folders: Iterable[Path]) -> list[int]:
    """End servers that an earlier, dead owner left behind; returns their pids.

    Besides the given pids these are all servers whose working folder is one of ours, such as the sessions of a
    PostgreSQL whose first process was killed.
    """
    wanted = {str(folder) for folder in folders}
    strays = {*tree.with_children(pids), *_servers_where(lambda folder: str(folder) in wanted)}
    for stray in strays:
        tree.send(stray, signal.SIGCONT)
        tree.send(stray, PROGRAMS.get(_name(stray), signal.SIGTERM))
    alive = await tree.until_gone(strays, _KILL_SECONDS_MAX)
    for stray in alive:
        tree.send(stray, signal.SIGKILL)
    await tree.until_gone(alive, _KILL_SECONDS_MAX)
    return sorted(stray.pid for stray in strays)


def kill_strays_below(folder: Path) -> None:
    """Kill servers in a folder whose owner is gone: what it stores is not wanted any more."""
    strays = _servers_where(lambda found: folder in (found, *found.parents))
    for stray in strays:
        tree.send(stray, signal.SIGKILL)
    psutil.wait_procs(strays, timeout=_KILL_SECONDS_MAX)


def _servers_where(is_meant: Callable[[Path], bool]) -> set[psutil.Process]:
    found = set()
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if (process.name() in PROGRAMS or _is_patroni(process)) and is_meant(Path(process.cwd())):
                found.add(process)
    return found


def _is_patroni(process: psutil.Process) -> bool:
    """Whether it is Patroni, which goes by the name of its interpreter, or something that it has started."""
    return process.name().startswith(("python", "pg_", "initdb")) and "patroni" in " ".join(process.cmdline())


def _name(process: psutil.Process) -> str:
    try:
        return process.name()
    except psutil.Error:
        return ""
