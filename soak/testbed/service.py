"""A memory service that is started here: any program that speaks the contract of the http store."""

from __future__ import annotations

from soak.stores.http import HttpStore
from soak.stores.protocol import StoreContext
from soak.testbed.web_server import ASK_SECONDS_MAX, WebServer


class ServiceServer(WebServer):
    """A web service, which may tell the life it is in."""

    async def greet(self) -> dict[str, str]:
        context = StoreContext(
            servers={self.kind: self.address(self.port)}, namespace="soak", timeout_seconds=ASK_SECONDS_MAX
        )
        store = await HttpStore.open(context)
        await store.close()
        return {"started": store.health.started} if store.health.started else {}
