"""Memories behind HTTP that were given: only their own answers tell whether they are there."""

from __future__ import annotations

from soak.errors import ServerUnreachableError
from soak.servers.backend import StillLoadingError
from soak.servers.chroma import ChromaServer
from soak.servers.external.server import ASK_SECONDS_MAX, GivenServer
from soak.stores import http_contract as wire
from soak.stores.http import HttpStore
from soak.stores.protocol import StoreContext


class GivenService(GivenServer):
    """A web service. What it is configured to, and what it rests on, is not known."""

    started_mark = "started"

    async def stop_cleanly(self) -> None:
        """Let its operator's command restart it; one that does not tell when it was started could not be seen to be."""
        if await self._mark() is None:
            raise ServerUnreachableError(
                f"{self.title} does not say 'started' in {wire.HEALTH}, so nobody can tell whether it was restarted"
            )
        await super().stop_cleanly()

    async def answers(self) -> bool:
        """Tell whether it says that it is well: after a restart the new one, for commands return before all is done."""
        if self._before is not None and await self._mark() in (None, self._before):
            raise StillLoadingError
        return await self._health() is not None

    async def read_configuration(self) -> dict[str, str]:
        return {}

    async def read_limits(self) -> dict[str, str]:
        return {}

    async def telemetry(self) -> dict[str, str]:
        health = await self._health()
        return {self.started_mark: health.started} if health is not None and health.started else {}

    async def _health(self) -> wire.Health | None:
        context = StoreContext(servers={"http": self._url}, namespace="soak", timeout_seconds=ASK_SECONDS_MAX)
        try:
            store = await HttpStore.open(context)
        except ServerUnreachableError:
            return None
        await store.close()
        return store.health


class GivenChroma(GivenServer, ChromaServer):
    """A Chroma that already runs. It does not tell when it was started, so nobody could see that it was restarted."""

    started_mark = "started"

    async def stop_cleanly(self) -> None:
        raise ServerUnreachableError(f"{self.title} does not say when it was started, so no restart could be seen")

    async def read_limits(self) -> dict[str, str]:
        return {}

    async def telemetry(self) -> dict[str, str]:
        return {}
