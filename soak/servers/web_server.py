"""A server that is asked over HTTP, as its supervisor sees it: whether it answers, and which folder it has."""

from __future__ import annotations

import abc

from soak.errors import ServerUnreachableError
from soak.servers.exchange import HttpExchange
from soak.servers.folder_mark import mark_of
from soak.servers.ports import HOST
from soak.servers.server import Server
from soak.stores.http import HttpStore
from soak.stores.protocol import StoreContext

ASK_SECONDS_MAX = 2.0


class WebServer(Server):
    """What is the same for all of them. None tells how it is configured."""

    exchange = HttpExchange

    @abc.abstractmethod
    async def greet(self) -> dict[str, str]:
        """Ask it how it is; returns what it tells, raises `ServerUnreachableError` where it does not answer."""

    def address(self, port: int) -> str:
        return f"http://{HOST}:{port}"

    async def answers(self) -> bool:
        try:
            await self.greet()
        except ServerUnreachableError:
            return False
        return True

    async def read_configuration(self) -> dict[str, str]:
        return {}

    async def telemetry(self) -> dict[str, str]:
        return {**await self.greet(), **mark_of(self.working_folder)}


class ServiceServer(WebServer):
    """A memory service that is started here: any program that speaks the contract of the http store.

    It may tell the life it is in.
    """

    async def greet(self) -> dict[str, str]:
        context = StoreContext(
            servers={self.kind: self.address(self.port)}, namespace="soak", timeout_seconds=ASK_SECONDS_MAX
        )
        store = await HttpStore.open(context)
        await store.close()
        return {"started": store.health.started} if store.health.started else {}
