"""A Chroma server, as its supervisor sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import aiohttp
import msgspec

from soak.errors import ServerUnreachableError
from soak.testbed.exchange import HttpExchange
from soak.testbed.folder_mark import mark_of
from soak.testbed.ports import HOST
from soak.testbed.server import Server

if TYPE_CHECKING:
    from typing import Any

ASK_SECONDS_MAX = 2.0


class ChromaServer(Server):
    """A server of vectors with their documents. It tells little of itself."""

    exchange = HttpExchange

    def address(self, port: int) -> str:
        return f"http://{HOST}:{port}"

    async def answers(self) -> bool:
        try:
            await self._ask("/heartbeat")
        except ServerUnreachableError:
            return False
        return True

    async def read_configuration(self) -> dict[str, str]:
        return {}

    async def telemetry(self) -> dict[str, str]:
        checks = await self._ask("/pre-flight-checks")
        batch = {"max_batch_size": str(checks["max_batch_size"])} if "max_batch_size" in checks else {}
        return {**batch, **mark_of(self.working_folder)}

    async def _ask(self, path: str) -> dict[str, Any]:
        timeout = aiohttp.ClientTimeout(total=ASK_SECONDS_MAX)
        url = f"{self.address(self.port)}/api/v2{path}"
        try:
            async with aiohttp.ClientSession(timeout=timeout) as client, client.get(url) as answer:
                answer.raise_for_status()
                return msgspec.json.decode(await answer.read(), type=dict)
        except (aiohttp.ClientError, TimeoutError, msgspec.MsgspecError) as error:
            raise ServerUnreachableError(
                f"{self.title} on port {self.port} does not answer ({type(error).__name__}); see {self.log_path}"
            ) from error
