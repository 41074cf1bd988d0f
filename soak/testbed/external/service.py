"""A memory behind HTTP that was given: only its own answer tells whether it is there."""

from __future__ import annotations

from soak.errors import ServerUnreachableError
from soak.stores.http import HttpStore
from soak.stores.protocol import StoreContext
from soak.testbed.external.server import ASK_SECONDS_MAX, GivenServer


class GivenService(GivenServer):
    """A web service. What it is configured to, and what it rests on, is not known."""

    started_mark = "started"

    async def answers(self) -> bool:
        """Tell whether it says that it is well; a restart is over when the operator's command is and it does."""
        context = StoreContext(servers={"http": self._url}, namespace="soak", timeout_seconds=ASK_SECONDS_MAX)
        try:
            store = await HttpStore.open(context)
        except ServerUnreachableError:
            return False
        await store.close()
        return True

    async def read_configuration(self) -> dict[str, str]:
        return {}

    async def read_limits(self) -> dict[str, str]:
        return {}

    async def telemetry(self) -> dict[str, str]:
        return {}
