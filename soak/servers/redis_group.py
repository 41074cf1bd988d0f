"""Several Redis nodes that act as one server: what Sentinel and Cluster groups share."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from redis.exceptions import RedisError

from soak.errors import ServerUnreachableError
from soak.proc.files import write_whole
from soak.servers.kinds import ServerKind
from soak.servers.node_group import GroupBackend, GroupNode, NodeGroup, Seat
from soak.servers.process_backend import ProcessSite
from soak.servers.redis import RedisServer
from soak.servers.redis_process import RedisProcess, RedisPrograms
from soak.servers.state import Pinned
from soak.servers.versions import ServerRelease

REPLICATION = {"repl-diskless-sync": "yes", "repl-diskless-sync-delay": "0", "repl-timeout": "5"}
"""Quick to follow, and quick to notice that the other side is gone."""
_SOURCE_ADDRESS_SINCE = 7


class NodeProcess(RedisProcess):
    """One node as a process."""

    def __init__(
        self,
        site: ProcessSite,
        seat: Seat,
        seats: Mapping[str, Seat],
        *,
        options: Mapping[str, str],
        programs: RedisPrograms,
    ) -> None:
        super().__init__(site, options=options, programs=programs)
        self.seat = seat
        self.seats = seats

    @property
    def listens_on(self) -> str:
        return self.seat.host

    def source_lines(self) -> list[str]:
        """Return what makes it call from its own address: the fronts tell callers apart by that."""
        # Older versions call from the address they listen on, and refuse to start with this line.
        return [f"bind-source-addr {self.seat.host}"] if self.version.major >= _SOURCE_ADDRESS_SINCE else []

    def renew_settings(self) -> None:
        """Add to a file that an older version has written what this version needs besides."""
        text = self._settings_path.read_text()
        if missing := [line for line in self.source_lines() if line not in text.splitlines()]:
            write_whole(self._settings_path, "\n".join([text.rstrip("\n"), *missing, ""]).encode())

    def replication_lines(self) -> list[str]:
        return [
            *(f"{name} {value}" for name, value in REPLICATION.items() if name not in self.options),
            f"masterauth {self.pinned.password}",
        ]


class Node(GroupNode, RedisServer):
    """One node of a group, asked past its front."""

    def __init__(self, kind: ServerKind, pinned: Pinned, backend: NodeProcess) -> None:
        super().__init__(kind, pinned, backend, fresh=False)
        self.seat = backend.seat
        self.name = self.seat.name

    def address_at(self, port: int) -> str:
        return f"redis://:{self.pinned.password}@{self.seat.host}:{port}/0"

    async def ask(self, *command: str) -> Any:
        """Send one command to this node."""
        async with self._asking() as client:
            return await client.execute_command(*command)  # type: ignore[no-untyped-call]

    async def standing(self) -> str | None:
        return await self.standing_at()

    async def follows(self, primary: Node) -> bool:
        """Whether it is a replica of this primary and has caught up with its data set."""
        info = await self.information("replication")
        if (info["role"], info.get("master_link_status"), info.get("master_sync_in_progress")) != ("slave", "up", "0"):
            return False
        return info.get("master_port") == str(primary.seat.front)

    async def is_primary(self) -> bool:
        return (await self.information("replication"))["role"] == "master"


_N = TypeVar("_N", bound=Node)


class RedisGroup(NodeGroup[Node], RedisServer, abc.ABC):
    """The group as its clients see it: one Redis."""

    node_errors = (ServerUnreachableError, RedisError)
    servers: Sequence[Node] = ()

    def __init__(
        self,
        kind: ServerKind,
        pinned: Pinned,
        site: ProcessSite,
        *,
        fresh: bool,
        options: Mapping[str, str],
        programs: RedisPrograms,
    ) -> None:
        self._programs = programs.now(pinned)
        self.version = self._programs.version
        backend = GroupBackend(f"{self.version.title} with {self.topology} for {kind.name}", site.folder, options)
        super().__init__(kind, pinned, backend, fresh=fresh)
        self._options = options
        self._join(site, fresh=fresh)

    def _node(self, make: type[_N], process: type[NodeProcess], name: str) -> _N:
        site = self.site_of(name)
        backend = process(site, self.seats[name], self.seats, options=self._options, programs=self._programs)
        node = make(self.kind, site.pinned, backend)
        node.report_to(self._on_node_event)
        return node

    # -- failovers --

    async def until_takes_writes(self, node: Node) -> None:
        """Wait until a server calls itself a primary, whatever the group says."""
        await self.until(node.is_primary, f"let {node.name} take over")

    # -- versions --

    def next_release(self) -> ServerRelease:
        """Return what it would be upgraded to; raises `UsageError` if there is nothing newer."""
        return self._processes[0].next_release()

    def pin(self, release: ServerRelease) -> None:
        """Be another version from the next start of soak on, whichever nodes have become it by then."""
        self.pinned.version, self.pinned.program = release.version.name, release.program
        self._site.on_spawn()  # which writes down what is pinned

    @property
    def _processes(self) -> list[NodeProcess]:
        return [node.backend for node in self.nodes if isinstance(node.backend, NodeProcess)]
