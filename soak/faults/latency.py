"""Everything takes longer to arrive."""

from __future__ import annotations

from soak.checker.faults import Excuse, Promotion
from soak.faults.fault import NetworkFault
from soak.faults.parameters import OneOf, Time
from soak.servers.proxy import Proxy, directions


class Latency(NetworkFault):
    """Another region, a saturated router: as much arrives as before, later."""

    name = "latency"
    excuses = Excuse.NOTHING
    promotes = Promotion.NONE
    description = (
        "Every byte arrives later by the delay, and by up to the jitter more; "
        "clients that wait shorter than that may see timeouts, and nothing may be lost."
    )

    delay = Time(0.2, "how much later everything arrives", least=0.0, most=60.0)
    jitter = Time(0.0, "extra random delay, at most this much; the order on a connection stays", least=0.0, most=60.0)
    direction = OneOf("both", "to_server", "to_client", help="which way is slow")

    async def begin(self, proxy: Proxy) -> None:
        proxy.delay(self.delay, *directions(self.direction), jitter_seconds=self.jitter)

    async def end(self, proxy: Proxy) -> None:
        proxy.delay(0.0)
