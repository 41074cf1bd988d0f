"""A Chroma server: it says that its heart beats, and little else."""

from __future__ import annotations

import aiohttp
import msgspec

from soak.errors import ServerUnreachableError
from soak.json_input import decode_json
from soak.servers.web_server import ASK_SECONDS_MAX, WebServer


class ChromaServer(WebServer):
    """A server of vectors with their documents."""

    async def greet(self) -> dict[str, str]:
        timeout = aiohttp.ClientTimeout(total=ASK_SECONDS_MAX)
        url = f"{self.address(self.port)}/api/v2/pre-flight-checks"
        try:
            async with aiohttp.ClientSession(timeout=timeout) as client, client.get(url) as answer:
                answer.raise_for_status()
                told = decode_json(await answer.read(), type=dict[str, object])
        except (aiohttp.ClientError, TimeoutError, msgspec.MsgspecError) as error:
            raise ServerUnreachableError(
                f"{self.title} on port {self.port} does not answer ({type(error).__name__}); see {self.log_path}"
            ) from error
        return {name: str(told[name]) for name in ("max_batch_size",) if name in told}
