"""HTTP clients: commands ask the daemon, the daemon asks the verifier."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import aiohttp
import msgspec

from soak.api.permission import TOKEN_HEADER
from soak.api.status import VerifierStatus
from soak.errors import ServerUnreachableError
from soak.exposition import Exposition
from soak.join import JoinInfo
from soak.json_input import decode_json
from soak.verifier.endpoint import read_endpoint

BODY_BYTES_MAX = 16 * 2**20
_CHUNK_BYTES = 64 * 2**10


async def read_whole(content: aiohttp.StreamReader) -> bytes:
    """Return all of it; raises `ClientPayloadError` if there is more than is sensible."""
    body = bytearray()
    async for chunk in content.iter_chunked(_CHUNK_BYTES):
        body += chunk
        if len(body) > BODY_BYTES_MAX:
            raise aiohttp.ClientPayloadError(f"an answer of more than {BODY_BYTES_MAX} bytes")
    return bytes(body)


CONNECT_SECONDS_MAX = 5.0


class DaemonAnswer(NamedTuple):
    """What the daemon said."""

    status: int
    body: bytes


async def ask(info: JoinInfo, method: str, path: str, body: object = None) -> DaemonAnswer:
    """Send one request with the run's token and wait for the answer, which may take as long as a fault."""
    timeout = aiohttp.ClientTimeout(total=None, connect=CONNECT_SECONDS_MAX)
    headers = {TOKEN_HEADER: info.token}
    if body is not None:
        headers["Content-Type"] = "application/json"
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as client,
            client.request(
                method,
                info.http_address + path,
                headers=headers,
                data=None if body is None else msgspec.json.encode(body),
            ) as answer,
        ):
            return DaemonAnswer(answer.status, await read_whole(answer.content))
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise ServerUnreachableError(
            f"the soak at {info.http_address} gave no answer ({error or type(error).__name__}); is it still running?"
        ) from error


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
                return await read_whole(answer.content)
        except (aiohttp.ClientError, TimeoutError, OSError):
            return None
