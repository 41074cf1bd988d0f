"""Only so much gets through in a second."""

from __future__ import annotations

from soak.checker.faults import Excuse
from soak.faults.fault import NetworkFault
from soak.servers.proxy import Proxy

BYTES_PER_SECOND_DEFAULT = 64 * 1024


class SlowLink(NetworkFault):
    """A link that is full or throttled: short messages pass, long histories crawl and hold up what comes after."""

    name = "slow_link"
    excuses = Excuse.NOTHING
    description = (
        "All clients together get 64 KiB a second through in each direction; "
        "long reads time out before short ones do, and nothing may be lost."
    )

    def __init__(self, bytes_per_second: float = BYTES_PER_SECOND_DEFAULT) -> None:
        """Let so much through in each direction."""
        self.bytes_per_second = bytes_per_second

    async def begin(self, proxy: Proxy) -> None:
        proxy.narrow(self.bytes_per_second)

    async def end(self, proxy: Proxy) -> None:
        proxy.narrow(0.0)
