"""Who calls a front: told by the source address, or by the process behind it."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

CLIENTS = "clients"
"""Everybody who is no node of the group."""
_CONNECTIONS = Path("/proc/net/tcp")
_LOCAL_ADDRESS, _INODE = 1, 9
"""Columns of a line of `/proc/net/tcp`."""


class Callers(Protocol):
    """Tells callers apart."""

    async def name_of(self, host: str, port: int) -> str | None:
        """Return the node that calls from here, or `CLIENTS`; None: the caller has gone already."""


class CallersByAddress(NamedTuple):
    """Nodes that call from an address of their own."""

    nodes: Mapping[str, str]
    """Their names by address."""

    async def name_of(self, host: str, port: int) -> str | None:
        del port
        return self.nodes.get(host, CLIENTS)


class CallersByProcess(NamedTuple):
    """Nodes whose programs cannot choose the address they call from (libpq, Patroni, etcd): known by working folder."""

    root: Path
    """Holds one folder for each node, named like it, and all its processes work there."""

    async def name_of(self, host: str, port: int) -> str | None:
        # A few milliseconds. In the event loop, a storm of new connections would hold everybody else up.
        return await asyncio.to_thread(self._look_up, host, port)

    def _look_up(self, host: str, port: int) -> str | None:
        if (socket := _socket_at(host, port)) is None:
            return None
        for process in Path("/proc").iterdir():
            if process.name.isdigit() and (node := self._node_of(process)) and _holds(process, socket):
                return node
        return CLIENTS

    def _node_of(self, process: Path) -> str | None:
        try:
            folder = (process / "cwd").readlink()
        except OSError:
            return None  # it has ended, or is not ours to look at
        return folder.relative_to(self.root).parts[0] if self.root in folder.parents else None


def _socket_at(host: str, port: int) -> str | None:
    """Return what the kernel calls the socket of this address in `/proc/PID/fd`."""
    address = "".join(f"{int(part):02X}" for part in reversed(host.split("."))) + f":{port:04X}"
    for line in _CONNECTIONS.read_text().splitlines():
        columns = line.split()
        if columns[_LOCAL_ADDRESS] == address:
            return f"socket:[{columns[_INODE]}]"
    return None


def _holds(process: Path, socket: str) -> bool:
    with contextlib.suppress(OSError):
        for descriptor in os.listdir(process / "fd"):  # noqa: PTH208  one name each, thousands of times
            with contextlib.suppress(OSError):  # closed meanwhile: the others still count
                if os.readlink(process / "fd" / descriptor) == socket:  # noqa: PTH115
                    return True
    return False
