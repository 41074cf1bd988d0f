"""Asking the daemon of a run on this machine."""

from __future__ import annotations

from typing import NamedTuple

import aiohttp
import msgspec

from soak.api.permission import TOKEN_HEADER
from soak.daemon.whole_body import whole
from soak.errors import ServerUnreachableError
from soak.join import JoinInfo

CONNECT_SECONDS_MAX = 5.0


class Answer(NamedTuple):
    """What the daemon said."""

    status: int
    body: bytes


async def ask(info: JoinInfo, method: str, path: str, body: object = None) -> Answer:
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
            return Answer(answer.status, await whole(answer.content))
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise ServerUnreachableError(
            f"the soak at {info.http_address} gave no answer ({error or type(error).__name__}); is it still running?"
        ) from error
