"""What Patroni is set to, as its REST API says: how far behind a standby may be promoted, and what commits wait for.

PostgreSQL itself reports none of it. Every Patroni of a group gives the same answer, for it stands in their DCS.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import msgspec

from soak.hosts import HostPort, hosts_of
from soak.servers.kinds import MAXIMUM_LAG, STRICT_MODE, SYNCHRONOUS_MODE

REST_PORT = 8008
"""Patroni's own default."""
MAXIMUM_LAG_DEFAULT = 1_048_576
_ANSWER_BYTES_MAX = 262_144
_ITS_OWN = frozenset({"ttl", "loop_wait", "retry_timeout", MAXIMUM_LAG, SYNCHRONOUS_MODE, "postgresql"})
"""Keys that tell its answer from that of something else at this port."""
_TRUE = frozenset({"on", "true", "yes", "1"})
_QUORUM = "quorum"


def rest_addresses(url: str) -> list[str]:
    """Return where the Patroni of every host of an address would be."""
    return [f"http://{HostPort(place.host, REST_PORT)}" for place in hosts_of(url) if not place.host.startswith("/")]


async def patroni_settings(addresses: Sequence[str], *, timeout_seconds: float) -> dict[str, str]:
    """Return what the first Patroni says that answers at one of these; nothing if none does."""
    answers = await asyncio.gather(*(_ask(f"{address}/config", timeout_seconds) for address in addresses))
    return next(filter(None, answers), {})


async def _ask(url: str, timeout_seconds: float) -> dict[str, str]:
    import aiohttp  # noqa: PLC0415  costly, and most servers need none of it

    timeout = aiohttp.ClientTimeout(total=timeout_seconds)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as client,
            client.get(url, allow_redirects=False) as answer,
        ):
            text = await _read_whole(answer.content.iter_any()) if answer.ok else b""
        told = msgspec.json.decode(text) if text else None
    except (aiohttp.ClientError, OSError, TimeoutError, ValueError):
        return {}
    return settings_in(told)


async def _read_whole(chunks: AsyncIterator[bytes]) -> bytes:
    text = bytearray()
    async for chunk in chunks:
        text += chunk
        if len(text) > _ANSWER_BYTES_MAX:
            return b""
    return bytes(text)


def settings_in(told: object) -> dict[str, str]:
    """Read the answer to `GET /config` as Patroni reads it; nothing if it is not Patroni's."""
    if not isinstance(told, dict) or not _ITS_OWN & told.keys():
        return {}
    mode = _word(told.get(SYNCHRONOUS_MODE))
    return {
        MAXIMUM_LAG: _number(told.get(MAXIMUM_LAG)),
        SYNCHRONOUS_MODE: mode if mode == _QUORUM else _truth(mode),
        STRICT_MODE: _truth(_word(told.get(STRICT_MODE))),
    }


def _word(value: object) -> str:
    return str(value).lower()


def _truth(word: str) -> str:
    return "true" if word in _TRUE else "false"


def _number(value: object) -> str:
    # What it cannot read, it takes for its default.
    text = str(value)
    return text if text.isascii() and text.isdigit() else str(MAXIMUM_LAG_DEFAULT)
