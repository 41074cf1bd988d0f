"""Reading an answer to its end: a plain read of a stream returns what has arrived by then, which may be half a line."""

from __future__ import annotations

import aiohttp

BODY_BYTES_MAX = 16 * 2**20
_CHUNK_BYTES = 64 * 2**10


async def whole(content: aiohttp.StreamReader) -> bytes:
    """Return all of it; raises `ClientPayloadError` if there is more than is sensible."""
    body = bytearray()
    async for chunk in content.iter_chunked(_CHUNK_BYTES):
        body += chunk
        if len(body) > BODY_BYTES_MAX:
            raise aiohttp.ClientPayloadError(f"an answer of more than {BODY_BYTES_MAX} bytes")
    return bytes(body)
