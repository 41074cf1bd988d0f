"""Asking the verifier how it goes. It may be away at any moment; then there is simply no answer."""

from __future__ import annotations

from pathlib import Path

import aiohttp
import msgspec

from soak.api.status import VerifierStatus
from soak.daemon.whole_body import whole
from soak.exposition import Exposition
from soak.json_input import decode_json
from soak.verifier.endpoint import read_endpoint

TIMEOUT_SECONDS = 3.0


class VerifierClient:
    """Reads the verifier's status and metrics."""

    def __init__(self, endpoint_file: Path) -> None:
        self._endpoint_file = endpoint_file
        self._http = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=TIMEOUT_SECONDS))

    async def close(self) -> None:
        await self._http.close()

    async def status(self, pid: int | None) -> VerifierStatus | None:
        """Return the status of the verifier with this pid, if it answers."""
        body = await self._get("/status", pid)
        if body is None:
            return None
        try:
            return decode_json(body, type=VerifierStatus)
        except msgspec.MsgspecError:
            return None

    async def metrics(self, pid: int | None, exposition: Exposition) -> str | None:
        body = await self._get("/metrics", pid, exposition.value)
        return None if body is None else body.decode("utf-8", "replace")

    async def _get(self, path: str, pid: int | None, accept: str = "*/*") -> bytes | None:
        endpoint = read_endpoint(self._endpoint_file)
        # The file may be what a verifier that died has left; the port may be anybody's now.
        if endpoint is None or pid is None or endpoint.pid != pid:
            return None
        try:
            address = f"http://{endpoint.host}:{endpoint.port}{path}"
            async with self._http.get(address, headers={"Accept": accept}) as answer:
                if answer.status != 200:
                    return None
                return await whole(answer.content)
        except (aiohttp.ClientError, TimeoutError, OSError):
            return None
