"""The network of a group: single links are cut, silently or with a reset, and heal."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import pytest

from soak.servers.callers import CLIENTS, CallersByAddress
from soak.servers.links import Link, Links
from soak.servers.ports import HOST, free_port

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

NODE = "127.77.0.1"
SHORT_SECONDS = 0.3


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(1024):
            writer.write(data)
            await writer.drain()
    writer.close()


class Group:
    """A server that answers what it is told, behind a front."""

    def __init__(self, links: Links, front: int) -> None:
        self.links = links
        self._front = front
        self._open: list[asyncio.StreamWriter] = []

    async def call(self, source: str = HOST) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(HOST, self._front, local_addr=(source, 0))
        self._open.append(writer)
        return reader, writer

    def close(self) -> None:
        for writer in self._open:
            writer.close()


@pytest.fixture
async def group() -> AsyncIterator[Group]:
    port, front = free_port(), free_port()
    server = await asyncio.start_server(echo, HOST, port)
    links = Links(CallersByAddress({NODE: "redis-2"}))
    await links.listen("redis-1", front, HOST, port)
    made = Group(links, front)
    yield made
    made.close()
    await links.close()
    server.close()


async def said(connection: tuple[asyncio.StreamReader, asyncio.StreamWriter], text: bytes) -> bytes:
    reader, writer = connection
    writer.write(text)
    async with asyncio.timeout(SHORT_SECONDS):
        return await reader.readexactly(len(text))


async def test_a_silent_cut_holds_one_caller_and_nobody_else(group: Group) -> None:
    peer, client = await group.call(NODE), await group.call()
    assert (await said(peer, b"one"), await said(client, b"one")) == (b"one", b"one")
    group.links.cut([Link("redis-2", "redis-1")], silent=True)
    assert await said(client, b"two") == b"two"
    with pytest.raises(TimeoutError):
        await said(peer, b"two")
    with pytest.raises(TimeoutError):
        await said(await group.call(NODE), b"new")
    group.links.heal()
    async with asyncio.timeout(SHORT_SECONDS):
        assert await peer[0].readexactly(3) == b"two", "what was held arrives"


async def test_a_cut_that_resets_is_noticed_at_once_and_new_calls_are_reset(group: Group) -> None:
    client = await group.call()
    assert await said(client, b"one") == b"one"
    group.links.cut([Link(CLIENTS, "redis-1")], silent=False)
    with pytest.raises((OSError, asyncio.IncompleteReadError)):
        await said(client, b"two")
    with pytest.raises((OSError, asyncio.IncompleteReadError)):
        await said(await group.call(), b"new")
    group.links.heal()
    assert await said(await group.call(), b"three") == b"three"
