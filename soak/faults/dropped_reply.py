"""The server applies a write and its answer never arrives."""

from __future__ import annotations

from soak.checker.faults import Excuse, Promotion
from soak.faults.fault import NetworkFault
from soak.faults.parameters import Share
from soak.servers.proxy import Proxy
from soak.servers.servers import Servers


class DroppedReply(NetworkFault):
    """The acknowledgement of a write is lost, and its connection cut.

    A client that takes this for a failure and sends the write again stores it twice.
    """

    name = "dropped_reply"
    excuses = Excuse.NOTHING
    promotes = Promotion.NONE
    description = (
        "Some writes are applied but their replies are lost and their connections cut; "
        "nothing may be lost, and nothing stored twice."
    )

    share = Share(
        0.25, "of the replies to writes, evenly: a client that tries again gets through", least=0.001, most=1.0
    )

    def hindrance(self, servers: Servers, target: str) -> str | None:
        reason = super().hindrance(servers, target)
        if reason is None and self.proxies(servers, target)[0].is_opaque:
            return (
                f"clients of {target} may encrypt what they say, and no reply can be told from another then; "
                "give an address without TLS (redis://, sslmode=disable)"
            )
        return reason

    async def begin(self, proxy: Proxy) -> None:
        proxy.drop_replies(self.share)

    async def end(self, proxy: Proxy) -> None:
        proxy.drop_replies(0)
