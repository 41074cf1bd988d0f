"""Several Redis nodes that act as one server: what Sentinel and Cluster groups share."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from redis.exceptions import RedisError

from soak.errors import ServerUnreachableError
from soak.servers.kinds import ServerKind
from soak.servers.node_group import GroupBackend, GroupNode, NodeGroup, Seat
from soak.servers.process_backend import ProcessSite
from soak.servers.redis import RedisServer
from soak.servers.redis_process import RedisProcess
from soak.servers.state import Pinned
from soak.servers.versions import ServerVersion

REPLICATION = {"repl-diskless-sync": "yes", "repl-diskless-sync-delay": "0", "repl-timeout": "5"}
"""Quick to follow, and quick to notice that the other side is gone."""
_SOURCE_ADDRESS_SINCE = 7


class NodeProcess(RedisProcess):
    """One node as a process."""

    def __init__(self, site: ProcessSite, seat: Seat, seats: Mapping[str, Seat], **choices: Any) -> None:
        super().__init__(site, **choices)
        self.seat = seat
        self.seats = seats

    @property
    def listens_on(self) -> str:
        return self.seat.host

    def source_lines(self) -> list[str]:
        """Return what makes it call from its own address: the fronts tell callers apart by that."""
        # Older versions call from the address they listen on, and refuse to start with this line.
        return [f"bind-source-addr {self.seat.host}"] if self.version.major >= _SOURCE_ADDRESS_SINCE else []

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
        info = await self.information("replication")
        role = "primary" if info["role"] == "master" else "replica"
        return f"{role}, offset {info.get('master_repl_offset', info.get('slave_repl_offset', 'unknown'))}"

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

    def __init__(
        self,
        kind: ServerKind,
        pinned: Pinned,
        site: ProcessSite,
        *,
        fresh: bool,
        options: Mapping[str, str],
        version: ServerVersion,
        binary: Path | None = None,
    ) -> None:
        backend = GroupBackend(f"{version.title} with {self.topology} for {kind.name}", site.folder, options)
        super().__init__(kind, pinned, backend, fresh=fresh)
        self.version = version
        self._choices = {"options": options, "version": version, "binary": binary}
        self._join(site, fresh=fresh)

    def _node(self, make: type[_N], process: type[NodeProcess], name: str) -> _N:
        site = self.site_of(name)
        node = make(self.kind, site.pinned, process(site, self.seats[name], self.seats, **self._choices))
        node.report_to(self._on_node_event)
        return node
