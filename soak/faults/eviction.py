"""The server runs short of memory and throws keys away."""

from __future__ import annotations

from soak.checker.faults import Excuse, Promotion
from soak.faults.fault import RedisFault
from soak.faults.healing import Notes
from soak.faults.parameters import OneOf, Share
from soak.servers.servers import Servers

_CHANGED = ("maxmemory", "maxmemory-policy")


class Eviction(RedisFault):
    """A limit below what is stored, and a policy that keeps the server writable at the price of old keys."""

    name = "eviction"
    excuses = Excuse.NOTHING
    promotes = Promotion.NONE
    description = (
        "The memory limit falls below what is stored and keys are evicted, the least recently used first; "
        "only a contract that allows eviction excuses it."
    )
    kept = Share(0.5, "memory limit, as a share of what the data takes", least=0.0, most=1.0)
    policy = OneOf(
        "allkeys-lru",
        "allkeys-lfu",
        "allkeys-random",
        "volatile-lru",
        "volatile-ttl",
        help="which keys are evicted",
    )

    async def inject(self, servers: Servers, target: str) -> None:
        server = self.redis(servers, target)
        places = await server.primary_places()
        found = {place: await server.get_settings(*_CHANGED, place=place) for place in places}
        before = {f"{name} {place}".strip(): value for place in places for name, value in found[place].items()}
        Notes(server).begin(self.name, before)
        for place in places:
            memory = await server.information("memory", place)
            used, at_start = int(memory["used_memory"]), int(memory["used_memory_startup"])
            limit = at_start + int((used - at_start) * self.kept)
            # The policy first: with a limit and no policy the server refuses writes instead.
            await server.change_settings({"maxmemory-policy": self.policy, "maxmemory": str(limit)}, place)

    async def heal(self, servers: Servers, target: str) -> None:
        server = self.redis(servers, target)
        notes = Notes(server)
        for key, value in notes.before(self.name).items():
            # Of a group the server that was changed, also where another one is the primary by now.
            name, _, place = key.partition(" ")
            await server.change_settings({name: value}, place)
        notes.end(self.name)
