"""Groups of servers: nodes that act as one memory, each with a role."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from soak.servers.kinds import Role
from soak.servers.server import Server


class ServerGroup(NamedTuple):
    """The nodes of one memory that have been started."""

    name: str
    nodes: tuple[Server, ...]

    @property
    def primary(self) -> Server:
        """The node that takes writes."""
        return next(node for node in self.nodes if node.role is Role.PRIMARY)

    @property
    def replicas(self) -> tuple[Server, ...]:
        return tuple(node for node in self.nodes if node.role is Role.REPLICA)


def group_of(nodes: Mapping[str, Server], name: str) -> ServerGroup:
    """Return the group that the node of this name belongs to."""
    group = nodes[name].kind.group
    return ServerGroup(group, tuple(node for node in nodes.values() if node.kind.group == group))
