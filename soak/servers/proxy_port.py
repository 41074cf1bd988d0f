"""A proxy at a port that stays the same: chosen once, then pinned."""

from __future__ import annotations

from collections.abc import Callable

from soak.errors import ServerUnreachableError
from soak.servers.ports import free_port
from soak.servers.proxy import Proxy
from soak.servers.state import Pinned

FRESH_PORTS_MAX = 5


async def start_proxy(pinned: Pinned, make: Callable[[int], Proxy]) -> Proxy:
    """Start the proxy that is made for a port: the pinned one, or a free one that is pinned from now on."""
    for _ in range(FRESH_PORTS_MAX):
        fresh = pinned.proxy_port is None
        if pinned.proxy_port is None:
            pinned.proxy_port = free_port()
        proxy = make(pinned.proxy_port)
        try:
            await proxy.start()
        except ServerUnreachableError:
            # Lost the race for a port nobody has been told about yet: take another.
            if not fresh:
                raise
            pinned.proxy_port = None
        else:
            return proxy
    raise ServerUnreachableError(f"{FRESH_PORTS_MAX} free ports for a proxy were taken by others; start it again")
