"""Who calls a front: told by the source address, or by the process behind it."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

Address = tuple[str, int]
CLIENTS = "clients"
"""Everybody who is no node of the group."""
_CONNECTIONS = Path("/proc/net/tcp")
_INODE = 10
"""The column of a line of `/proc/net/tcp`, counted from one, the number of the line included."""

_CLOSED = "0"
"""The inode of a socket that no process holds any more."""


class Callers(Protocol):
    """Tells callers apart."""

    async def name_of(self, caller: Address, front: Address) -> str | None:
        """Return the node that calls this front from here, or `CLIENTS`; None: the caller has gone already."""


class CallersByAddress(NamedTuple):
    """Nodes that call from an address of their own."""

    nodes: Mapping[str, str]
    """Their names by address."""

    async def name_of(self, caller: Address, front: Address) -> str | None:
        del front
        return self.nodes.get(caller[0], CLIENTS)


class CallersByProcess:
    """Nodes whose programs cannot choose the address they call from (libpq, Patroni, etcd): known by working folder."""

    def __init__(self, root: Path) -> None:
        """Take the folder that holds one for each node, named like it; all processes of a node work there."""
        self._root = root
        self._known: dict[int, str] = {}
        """The node of each process that was found the last time all were looked at."""

    async def name_of(self, caller: Address, front: Address) -> str | None:
        # A few milliseconds. In the event loop, a storm of new connections would hold everybody else up.
        return await asyncio.to_thread(self._look_up, caller, front)

    def _look_up(self, caller: Address, front: Address) -> str | None:
        if (socket := _socket_between(caller, front)) is None:
            return None
        # Mostly it is a process that is known, or a child of one: PostgreSQL has a new one for every try to stream.
        for pid, node in (*self._known.items(), *_children_of(self._known)):
            if self._node_of(pid) == node and _holds(pid, socket):
                return node
        self._known = self._found()
        return next((node for pid, node in self._known.items() if _holds(pid, socket)), CLIENTS)

    def _found(self) -> dict[int, str]:
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208  names are enough
        return {pid: node for pid in pids if (node := self._node_of(pid)) is not None}

    def _node_of(self, pid: int) -> str | None:
        try:
            folder = Path(f"/proc/{pid}/cwd").readlink()
        except OSError:
            return None  # it has ended, or is not ours to look at
        return folder.relative_to(self._root).parts[0] if self._root in folder.parents else None


def _children_of(known: Mapping[int, str]) -> Iterator[tuple[int, str]]:
    for pid, node in known.items():
        with contextlib.suppress(OSError):
            for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
                if int(child) not in known:
                    yield int(child), node


def _socket_between(caller: Address, front: Address) -> str | None:
    """Return what the kernel calls the caller's socket in `/proc/PID/fd`."""
    # Both ends: a port is given out again while an older connection from it to somebody else is still listed.
    text = _CONNECTIONS.read_text()
    if (start := text.find(f": {_hexadecimal(caller)} {_hexadecimal(front)} ")) < 0:
        return None
    inode = text[start:].split(maxsplit=_INODE)[_INODE - 1]
    return None if inode == _CLOSED else f"socket:[{inode}]"


def _hexadecimal(address: Address) -> str:
    host, port = address
    return "".join(f"{int(part):02X}" for part in reversed(host.split("."))) + f":{port:04X}"


def _holds(pid: int, socket: str) -> bool:
    with contextlib.suppress(OSError):
        for descriptor in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208  one name each, thousands of times
            with contextlib.suppress(OSError):  # closed meanwhile: the others still count
                if os.readlink(f"/proc/{pid}/fd/{descriptor}") == socket:  # noqa: PTH115
                    return True
    return False
