"""Sentinels of a group are away."""

from __future__ import annotations

import asyncio

from soak.checker.faults import Excuse, Promotion
from soak.faults.fault import RedisGroupFault
from soak.faults.parameters import Count
from soak.servers.sentinel import SENTINELS, SentinelGroup
from soak.servers.servers import Servers


class SentinelAway(RedisGroupFault):
    """Sentinels are killed. Nobody writes through them, so clients that are connected notice nothing."""

    name = "sentinel_away"
    excuses = Excuse.NOTHING
    promotes = Promotion.NONE
    description = (
        "Sentinels are killed; clients that connect ask the next one, and with two of three away nobody would replace "
        "a primary. Nothing may be lost."
    )
    groups = (SentinelGroup,)
    count = Count(1, "how many", least=1, most=len(SENTINELS) - 1)

    async def inject(self, servers: Servers, target: str) -> None:
        group = self.group(servers, target)
        if not isinstance(group, SentinelGroup):
            raise self.refusal(servers, target)
        # The first ones: clients ask them first.
        await asyncio.gather(*(sentinel.kill() for sentinel in group.sentinels[: self.count]))
