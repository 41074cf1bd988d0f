"""Only so much gets through in a second."""

from __future__ import annotations

from soak.checker.faults import Excuse, Promotion
from soak.faults.fault import NetworkFault
from soak.faults.parameters import Rate
from soak.servers.proxy import Proxy


class SlowLink(NetworkFault):
    """A link that is full or throttled: short messages pass, long histories crawl and hold up what comes after."""

    name = "slow_link"
    excuses = Excuse.NOTHING
    promotes = Promotion.NONE
    description = (
        "All clients together get only the rate through in each direction; "
        "long reads time out before short ones do, and nothing may be lost."
    )

    rate = Rate(64 * 2**10, "what gets through in each direction, of all clients together", least=2**10, most=2**30)

    async def begin(self, proxy: Proxy) -> None:
        proxy.narrow(self.rate)

    async def end(self, proxy: Proxy) -> None:
        proxy.narrow(0.0)
