"""The server runs short of memory and throws keys away."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from soak.faults.fault import Fault
from soak.testbed.redis import RedisServer

if TYPE_CHECKING:
    from soak.testbed.local import LocalTestbed

POLICY = "allkeys-lru"
_KEPT_SHARE = 0.5
"""Of what the data takes at the time."""
_CHANGED = ("maxmemory", "maxmemory-policy")


class Eviction(Fault):
    """A limit below what is stored, and a policy that keeps the server writable at the price of old keys."""

    name = "eviction"
    kind = "eviction"
    description = (
        "The memory limit falls below what is stored and the least recently used keys are thrown away; "
        "only a contract that allows eviction excuses it."
    )
    targets = ("redis",)

    def __init__(self) -> None:
        self._before: weakref.WeakKeyDictionary[RedisServer, dict[str, str]] = weakref.WeakKeyDictionary()

    async def inject(self, bed: LocalTestbed, target: str) -> None:
        server = _redis(bed, target)
        # Again without heal: the values to go back to are the first ones.
        self._before.setdefault(server, await server.get_settings(*_CHANGED))
        memory = await server.information("memory")
        used, at_start = int(memory["used_memory"]), int(memory["used_memory_startup"])
        limit = at_start + int((used - at_start) * _KEPT_SHARE)
        # The policy first: with a limit and no policy the server refuses writes instead.
        await server.change_settings({"maxmemory-policy": POLICY, "maxmemory": str(limit)})

    async def heal(self, bed: LocalTestbed, target: str) -> None:
        server = _redis(bed, target)
        before = self._before.get(server)
        if before is not None:
            await server.change_settings(before)
            del self._before[server]


def _redis(bed: LocalTestbed, target: str) -> RedisServer:
    server = bed.servers[target]
    if not isinstance(server, RedisServer):
        raise TypeError(server)
    return server
