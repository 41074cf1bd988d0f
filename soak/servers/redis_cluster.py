"""Redis Cluster: three primaries, each with a replica, that share the keys.

What one must know before touching it:
- The cluster writes down who is what in a file of its own (`nodes.conf`), so the configuration file is the same at
  every start.
- The cluster bus is 10,000 above a node's port. It goes through a front, too, or a partition would not be one.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

from redis.asyncio import Redis

from soak.errors import ServerUnreachableError
from soak.proc.files import write_whole
from soak.servers.ports import HOST
from soak.servers.redis_group import Node, NodeProcess, RedisGroup

SHARDS = 3
NODES = tuple(f"redis-{number}" for number in range(1, 2 * SHARDS + 1))
"""The first three begin as primaries; the others follow them, in this order."""
SLOTS = 16_384
NODE_TIMEOUT_MS = 3_000
"""On a busy machine a healthy node may be silent for more than a second; the server's own default is 15 s."""


class ClusterProcess(NodeProcess):
    """A node of the cluster."""

    def write_settings(self, text: str) -> None:
        lines = [
            "cluster-enabled yes",
            "cluster-config-file nodes.conf",
            f"cluster-node-timeout {NODE_TIMEOUT_MS}",
            f"cluster-announce-ip {HOST}",
            f"cluster-announce-port {self.seat.front}",
            f"cluster-announce-bus-port {self.seat.bus}",
            *self.replication_lines(),
            *self.source_lines(),
        ]
        write_whole(self._settings_path, "\n".join([text.rstrip("\n"), *lines, ""]).encode())


class NodeView(NamedTuple):
    """One node as another one sees it."""

    id: str
    front: int
    flags: frozenset[str]
    primary: str
    """The id of the node it follows, or `-`."""
    is_linked: bool
    has_slots: bool


class ClusterNode(Node):
    """One node of the cluster."""

    async def views(self) -> list[NodeView]:
        """Return how it sees all nodes, itself included."""
        found = await self.ask("CLUSTER NODES")
        return [_view(address, line) for address, line in found.items()]

    async def slots(self) -> list[int]:
        """Return the slots that it has, as it sees it."""
        mine = await self._own_line()
        ranges = [(int(one[0]), int(one[-1])) for one in mine["slots"]]
        return [slot for first, last in ranges for slot in range(first, last + 1)]

    async def open_slots(self) -> list[tuple[int, str, bool]]:
        """Return the slots that are on the move: which, the id of the other node, and whether it comes here."""
        mine = await self._own_line()
        return [(int(one["slot"]), one["node_id"], one["state"] == "importing") for one in mine["migrations"]]

    async def _own_line(self) -> dict[str, Any]:
        lines = (await self.ask("CLUSTER NODES")).values()
        return next(dict(line) for line in lines if "myself" in line["flags"].split(","))

    async def is_ok(self) -> bool:
        return bool((await self.ask("CLUSTER INFO")).get("cluster_state") == "ok")

    async def id(self) -> str:
        return str(await self.ask("CLUSTER", "MYID"))

    async def epoch(self, place: str = "") -> str:
        del place
        return str((await self.ask("CLUSTER INFO")).get("cluster_my_epoch", "?"))


def _view(address: str, line: Mapping[str, Any]) -> NodeView:
    port = address.rpartition(":")[2]
    return NodeView(
        id=line["node_id"],
        front=int(port) if port.isdigit() else 0,
        flags=frozenset(line["flags"].split(",")),
        primary=line["master_id"],
        is_linked=bool(line["connected"]),
        has_slots=bool(line["slots"]),
    )


class ClusterGroup(RedisGroup):
    """The cluster as its clients see it: one Redis, whose address names all nodes."""

    topology = "Cluster"
    flag = "--redis cluster"
    name_of_nodes = NODES
    has_bus = True
    shards = SHARDS
    replacement_seconds = 4 * NODE_TIMEOUT_MS / 1000  # a failed election is repeated after that

    def _make_nodes(self) -> list[Node]:
        self.servers: list[ClusterNode] = [self._node(ClusterNode, ClusterProcess, name) for name in NODES]
        return [*self.servers]

    def address_at(self, port: int) -> str:
        del port
        hosts = ",".join(f"{HOST}:{self.seats[name].front}" for name in NODES)
        return f"redis+cluster://:{quote(self.pinned.password)}@{hosts}"

    def client(self, timeout_seconds: float | None = None, place: str = "") -> Redis:
        """Return a client of the first primary."""
        return self.last_primaries[0].client(timeout_seconds, place)

    async def hand_over(self, primary: Node) -> None:
        replica = self.replica_of(primary, await self._any_views())
        await replica.ask("CLUSTER", "FAILOVER")
        await self.until_replaced(primary)

    async def _any_views(self) -> list[NodeView]:
        """Return how the first node that answers sees all."""
        for node in self.servers:
            with contextlib.suppress(ServerUnreachableError):
                return await node.views()
        raise ServerUnreachableError(f"no node of {self.title} answers; see the logs in {self.folder}")

    def in_order_of_end(self) -> Sequence[Sequence[Node]]:
        # All at once: to notice that one is gone, and to replace it, takes longer than this.
        return [self.servers]

    def beside(self, node: Node) -> set[str]:
        return {node.name}

    async def _form(self) -> None:
        await asyncio.gather(*(node.start_again() for node in self.servers))
        if self._is_formed:
            return
        first = self.servers[0]
        for number, node in enumerate(self.servers[:SHARDS]):
            slots = range(number * SLOTS // SHARDS, (number + 1) * SLOTS // SHARDS)
            await node.ask("CLUSTER", "ADDSLOTS", *map(str, slots))
            await node.ask("CLUSTER", "SET-CONFIG-EPOCH", str(number + 1))
        for node in self.servers[1:]:
            await first.ask("CLUSTER", "MEET", HOST, str(node.seat.front), str(node.seat.bus))
        await self.until(self._all_know_all, "have its nodes find each other")
        for primary, replica in zip(self.servers[:SHARDS], self.servers[SHARDS:], strict=True):
            await replica.ask("CLUSTER", "REPLICATE", await primary.id())

    async def primaries(self) -> list[Node]:
        """Return the nodes that have slots, as most nodes that answer see it."""
        seen = await asyncio.gather(*(node.views() for node in self.servers), return_exceptions=True)
        views = [found for found in seen if not isinstance(found, BaseException)]
        fronts = [_primary_fronts(found) for found in views]
        agreed = max(set(fronts), key=fronts.count, default=frozenset())
        self.last_primaries = [node for node in self.servers if node.seat.front in agreed] or self.last_primaries
        return self.last_primaries

    def replica_of(self, primary: Node, views: list[NodeView]) -> Node:
        """Return a node that follows a primary."""
        id_of = next(view.id for view in views if view.front == primary.seat.front)
        return self.node_at(next(view.front for view in views if view.primary == id_of))

    async def _agree(self) -> bool:
        seen = [await node.views() for node in self.servers]
        if len({_primary_fronts(views) for views in seen}) != 1 or any(map(_is_troubled, seen)):
            return False
        primaries = await self.primaries()
        if len(primaries) != SHARDS or not all([await node.is_ok() for node in self.servers]):
            return False
        followed = {view.id: self.node_at(view.front) for view in seen[0]}
        following = [(self.node_at(view.front), followed[view.primary]) for view in seen[0] if view.primary != "-"]
        return all([await node.follows(primary) for node, primary in following])

    async def _all_know_all(self) -> bool:
        seen = [await node.views() for node in self.servers]
        return all(len(views) == len(NODES) and not _is_troubled(views) for views in seen)


def _primary_fronts(views: list[NodeView]) -> frozenset[int]:
    return frozenset(view.front for view in views if view.has_slots and "fail" not in view.flags)


def _is_troubled(views: list[NodeView]) -> bool:
    return any(view.flags & {"fail", "fail?", "handshake", "noaddr"} or not view.is_linked for view in views)
