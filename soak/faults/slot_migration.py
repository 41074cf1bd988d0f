"""Slots of a Redis Cluster move from one primary to another while clients use them."""

from __future__ import annotations

from soak.checker.faults import Excuse, Promotion
from soak.faults.fault import RedisGroupFault
from soak.faults.parameters import Count, OneOf
from soak.servers import slot_migration
from soak.servers.redis_cluster import ClusterGroup
from soak.servers.redis_group import RedisGroup
from soak.servers.servers import Servers

ATOMIC_SINCE = 9
"""The Valkey that moves slots in one step; no Redis of ours does."""


class SlotMigration(RedisGroupFault):
    """What an operator does to make a cluster larger, or to share its load."""

    name = "slot_migration"
    excuses = Excuse.CLEAN
    promotes = Promotion.NONE
    serves = False
    groups = (ClusterGroup,)
    description = "Slots with their keys move from one primary to another, for good; nothing may be lost."
    slots = Count(32, "how many move, those with keys first", least=1, most=1024)
    how = OneOf("keys", "atomic", help="key by key, or in one step (Valkey 9)")

    def hindrance(self, servers: Servers, target: str) -> str | None:
        if (why := super().hindrance(servers, target)) is not None:
            return why
        is_possible = self.how == "keys" or _moves_atomically(self.group(servers, target))
        return None if is_possible else "only Valkey 9 and newer move slots in one step; set how to keys"

    async def inject(self, servers: Servers, target: str) -> None:
        group = self._cluster(servers, target)
        moves = await slot_migration.choose_moves(group, self.slots)
        if self.how == "atomic":
            await slot_migration.move_atomically(group, moves)
        else:
            await slot_migration.move_keys(group, moves)

    async def heal(self, servers: Servers, target: str) -> None:
        if self.hindrance(servers, target) is None:
            await slot_migration.finish_moves(self._cluster(servers, target))
        await super().heal(servers, target)

    def _cluster(self, servers: Servers, target: str) -> ClusterGroup:
        group = self.group(servers, target)
        if not isinstance(group, ClusterGroup):
            raise self.refusal(servers, target)
        return group


def _moves_atomically(group: RedisGroup) -> bool:
    return group.version.family == "valkey" and group.version.major >= ATOMIC_SINCE
