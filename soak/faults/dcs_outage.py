"""Nobody reaches etcd, where Patroni keeps who is the leader."""

from __future__ import annotations

from soak.checker.faults import Excuse, Promotion
from soak.faults.fault import GroupFault
from soak.faults.parameters import OneOf
from soak.servers.links import Link
from soak.servers.patroni import ETCDS, SERVERS, PatroniGroup
from soak.servers.servers import Servers


class DcsOutage(GroupFault):
    """A leader that cannot renew its lock steps down, although its server is well."""

    name = "dcs_outage"
    excuses = Excuse.FAILOVER
    promotes = Promotion.BESIDE_THE_OLD
    groups = (PatroniGroup,)
    description = (
        "Patroni cannot reach etcd: the leader steps down, and nobody takes writes until it is healed. If another one "
        "is elected then, what it had not received is lost."
    )
    cut = OneOf("silent", "reset", help="whether packets vanish, or connections are reset and refused")

    async def inject(self, servers: Servers, target: str) -> None:
        group = self.group(servers, target)
        if group.links is None or not isinstance(group, PatroniGroup):
            raise self.refusal(servers, target)
        leader = (await group.primaries())[0]
        self.expect_replacement(group)
        group.links.cut([Link(node, etcd) for node in SERVERS for etcd in ETCDS], silent=self.cut == "silent")
        await group.until_demoted(leader)
