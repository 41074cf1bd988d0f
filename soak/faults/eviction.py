"""The server runs short of memory and throws keys away."""

from __future__ import annotations

from soak.checker.faults import Excuse
from soak.faults.fault import RedisFault
from soak.faults.healing import Notes
from soak.faults.parameters import OneOf, Share
from soak.servers.servers import Servers

_CHANGED = ("maxmemory", "maxmemory-policy")


class Eviction(RedisFault):
    """A limit below what is stored, and a policy that keeps the server writable at the price of old keys."""

    name = "eviction"
    excuses = Excuse.NOTHING
    description = (
        "The memory limit falls below what is stored and keys are thrown away, the least recently used first; "
        "only a contract that allows eviction excuses it."
    )
    kept = Share(0.5, "of the memory that the data takes: the limit", least=0.0, most=1.0)
    policy = OneOf(
        "allkeys-lru",
        "allkeys-lfu",
        "allkeys-random",
        "volatile-lru",
        "volatile-ttl",
        help="which keys are thrown away",
    )

    async def inject(self, servers: Servers, target: str) -> None:
        server = self.redis(servers, target)
        Notes(server).begin(self.name, await server.get_settings(*_CHANGED))
        memory = await server.information("memory")
        used, at_start = int(memory["used_memory"]), int(memory["used_memory_startup"])
        limit = at_start + int((used - at_start) * self.kept)
        # The policy first: with a limit and no policy the server refuses writes instead.
        await server.change_settings({"maxmemory-policy": self.policy, "maxmemory": str(limit)})

    async def heal(self, servers: Servers, target: str) -> None:
        server = self.redis(servers, target)
        notes = Notes(server)
        before = notes.before(self.name)
        if before:
            await server.change_settings(before)
            notes.end(self.name)
