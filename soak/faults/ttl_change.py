"""Somebody gives sessions a shorter life."""

from __future__ import annotations

import asyncio
import time

from soak.checker.faults import Excuse, Promotion
from soak.faults.fault import RedisFault
from soak.faults.healing import Notes
from soak.faults.parameters import Time
from soak.servers.servers import Servers

KEYS_MAX = 10_000
_ENDS = "ends_wall_seconds"


class TtlChange(RedisFault):
    """A new default for the time to live, or a job that cleans up: keys of the run's own namespace expire at once."""

    name = "ttl_change"
    excuses = Excuse.NOTHING
    promotes = Promotion.NONE
    description = (
        "The time to live of the run's keys is cut short, and sessions expire that were to stay; "
        "no contract excuses it."
    )

    ttl = Time(1.0, "how long the keys have left to live", least=0.001, most=300.0)

    def hindrance(self, servers: Servers, target: str) -> str | None:
        del target
        if not servers.namespace:
            return "the testbed was not told the run's namespace, and keys of others must not be touched"
        return None

    async def inject(self, servers: Servers, target: str) -> None:
        if not servers.namespace:
            raise self.refusal(servers, target)
        server = self.redis(servers, target)
        notes = Notes(server)
        notes.begin(self.name)
        await server.shorten_life(f"{servers.namespace}:", self.ttl, KEYS_MAX)
        notes.begin(self.name, {_ENDS: str(time.time() + self.ttl)})

    async def heal(self, servers: Servers, target: str) -> None:
        """Wait until the last of them is gone: nothing brings back what has expired, and nothing more expires."""
        notes = Notes(self.redis(servers, target))
        ends = float(notes.before(self.name).get(_ENDS, 0.0))
        await asyncio.sleep(min(max(0.0, ends - time.time()), type(self).ttl.most))
        notes.end(self.name)
