"""A ledger on the very server under test is refused, however it is reached."""

from __future__ import annotations

import asyncio

import pytest

from soak.errors import UsageError
from soak.ledger.connection import check_ledger_is_apart


@pytest.mark.parametrize("change", ["", "/5", "localhost"])
async def test_the_same_server_is_known_by_another_name_or_database(redis_url: str, change: str) -> None:
    other = (
        redis_url.replace("127.0.0.1", "localhost") if change == "localhost" else redis_url.removesuffix("/0") + change
    )
    with pytest.raises(UsageError, match=r"the ledger is on the server under test \(redis\).*with --ledger") as caught:
        await check_ledger_is_apart(other, {"redis": redis_url})
    assert "\n" not in str(caught.value)


async def test_the_same_server_is_known_behind_a_proxy(redis_url: str) -> None:
    port = int(redis_url.rpartition(":")[2].partition("/")[0])

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(pass_on(reader, back), pass_on(there, writer))

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    proxied = redis_url.replace(f":{port}", f":{server.sockets[0].getsockname()[1]}")
    with pytest.raises(UsageError, match="lead to the same process"):
        await check_ledger_is_apart(proxied, {"redis": redis_url, "postgres": "postgresql://h/d"})
    server.close()


async def test_another_server_is_fine(redis_url: str, ledger_url: str) -> None:
    await check_ledger_is_apart(ledger_url, {"redis": redis_url, "postgres": "postgresql://h/d"})
