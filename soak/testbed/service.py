"""A memory service that is started here, as its supervisor sees it: whether it answers, and which life it is in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from soak.errors import ServerUnreachableError
from soak.stores.http import HttpStore
from soak.stores.protocol import StoreContext
from soak.testbed.exchange import HttpExchange
from soak.testbed.folder_mark import mark_of
from soak.testbed.ports import HOST
from soak.testbed.server import Server

if TYPE_CHECKING:
    from soak.stores import http_contract as wire

ASK_SECONDS_MAX = 2.0


class ServiceServer(Server):
    """A web service that speaks the contract of the http store."""

    exchange = HttpExchange

    def address(self, port: int) -> str:
        return f"http://{HOST}:{port}"

    async def answers(self) -> bool:
        try:
            await self._health()
        except ServerUnreachableError:
            return False
        return True

    async def read_configuration(self) -> dict[str, str]:
        return {}

    async def telemetry(self) -> dict[str, str]:
        health = await self._health()
        started = {"started": health.started} if health.started else {}
        return {**started, **mark_of(self.working_folder)}

    async def _health(self) -> wire.Health:
        context = StoreContext(
            servers={self.kind: self.address(self.port)}, namespace="soak", timeout_seconds=ASK_SECONDS_MAX
        )
        store = await HttpStore.open(context)
        await store.close()
        return store.health
