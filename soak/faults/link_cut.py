"""The link between two nodes of a group is cut, and no other."""

from __future__ import annotations

from soak.checker.faults import Excuse, Promotion
from soak.faults.fault import Group, GroupFault
from soak.faults.parameters import OneOf, WordPair
from soak.servers.callers import CLIENTS
from soak.servers.links import Link
from soak.servers.servers import Servers

_OTHERS = "others"
_PRIMARY = "primary"
_FOLLOWERS = ("replica", "standby")


class LinkCut(GroupFault):
    """Who is replaced because of it, if anybody, is for the group to decide: nobody waits for that."""

    name = "link_cut"
    excuses = Excuse.FAILOVER
    promotes = Promotion.BESIDE_THE_OLD
    description = (
        "The link between two nodes, or two kinds of them, is cut in both directions, and no other. If the group "
        "replaces a primary because of it, what had not been replicated is lost."
    )
    between = WordPair(
        _PRIMARY,
        "replica",
        help="two of primary, replica or standby, sentinel, etcd, clients, others, or the name of a node",
    )
    cut = OneOf("silent", "reset", help="what becomes of the link: packets vanish, or connections are reset")
    ports = OneOf("all", "bus", help="all, or only the second: the bus of a Cluster, Patroni's REST API, etcd's peers")

    def hindrance(self, servers: Servers, target: str) -> str | None:
        if (why := super().hindrance(servers, target)) is not None:
            return why
        group = self.group(servers, target)
        known = {_OTHERS, _PRIMARY, CLIENTS, *_FOLLOWERS, *group.name_of_nodes}
        known |= {name.rpartition("-")[0] for name in group.name_of_nodes}
        if wrong := [word for word in self.between if word not in known]:
            return f"{group.title} has no {wrong[0]}; it has {', '.join(sorted(known))}"
        if self.ports == "bus" and not group.has_bus:
            return f"the nodes of {group.title} have one port each"
        return None

    async def breaks_nothing(self, servers: Servers, target: str) -> str | None:
        group = self.group(servers, target)
        if await self._links_between(group):
            return None
        return f"there is no link between {self.between[0]} and {self.between[1]} now; {await _who_is_primary(group)}"

    async def inject(self, servers: Servers, target: str) -> None:
        group = self.group(servers, target)
        links = await self._links_between(group)
        self.expect_replacement(group)
        self.links(group).cut(links, silent=self.cut == "silent", is_bus_only=self.ports == "bus")

    async def _links_between(self, group: Group) -> list[Link]:
        one, other = [await self._named(group, word) for word in self.between]
        one, other = one or set(group.name_of_nodes) - other, other or set(group.name_of_nodes) - one
        both = [(caller, node) for caller in one for node in other if caller != node]
        if self.ports == "bus":
            both = [pair for pair in both if CLIENTS not in pair]  # they do not use it
        return [Link(*pair) for pair in (*both, *((node, caller) for caller, node in both))]

    async def _named(self, group: Group, word: str) -> set[str]:
        """Return the nodes that a word means; nothing: all that the other word does not mean."""
        if word in group.name_of_nodes or word == CLIENTS:
            return {word}
        if word == _PRIMARY:
            return {(await group.primaries())[0].name}
        if word in _FOLLOWERS:
            primaries = await group.primaries()
            return {node.name for node in group.servers if node not in primaries}
        return {name for name in group.name_of_nodes if name.startswith(f"{word}-")}


async def _who_is_primary(group: Group) -> str:
    names = ", ".join(node.name for node in await group.primaries())
    return f"the primary is {names}"
