"""The network of a group: single links are cut, silently or with a reset, and heal."""

from __future__ import annotations

import asyncio
import contextlib
import time
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


class NeverFound:
    """Callers that are still looked up when all is over."""

    async def name_of(self, caller: tuple[str, int], front: tuple[str, int]) -> str | None:
        del caller, front
        await asyncio.Event().wait()
        return None


async def test_a_connection_whose_caller_is_still_looked_up_is_closed_with_the_links() -> None:
    links, front = Links(NeverFound()), free_port()
    await links.listen("redis-1", front, HOST, free_port())
    reader, writer = await asyncio.open_connection(HOST, front)
    await asyncio.sleep(SHORT_SECONDS)
    await links.close()
    async with asyncio.timeout(SHORT_SECONDS):
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""
    writer.close()


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


async def test_what_was_under_way_to_a_dead_machine_never_arrives(group: Group) -> None:
    client = await group.call()
    assert await said(client, b"one") == b"one"
    group.links.lose([Link(CLIENTS, "redis-1")])
    with pytest.raises(TimeoutError):
        await said(client, b"two")
    group.links.heal()
    with pytest.raises((OSError, asyncio.IncompleteReadError)):
        await said(client, b"three")
    assert await said(await group.call(), b"new") == b"new"


async def test_a_link_that_is_slow_is_late_and_no_other(group: Group) -> None:
    peer, client = await group.call(NODE), await group.call()
    group.links.slow_down([Link("redis-2", "redis-1")], 2 * SHORT_SECONDS)
    assert await said(client, b"one") == b"one"
    with pytest.raises(TimeoutError):
        await said(peer, b"one")
    async with asyncio.timeout(20 * SHORT_SECONDS):
        assert await peer[0].readexactly(3) == b"one", "it is late, and not lost"
    group.links.heal()
    assert await said(peer, b"two") == b"two"


async def test_clients_that_stay_with_a_node_are_remembered_and_its_peers_and_later_ones_are_not(group: Group) -> None:
    gone, staying, peer = await group.call(), await group.call(), await group.call(NODE)
    for one in (gone, staying, peer):
        await said(one, b"before")
    since = time.monotonic()
    for one in (staying, peer, await group.call()):
        await said(one, b"after")
    (found,) = group.links.stayed("redis-1", opened_before=since, sent_since=since)
    host, port = staying[1].get_extra_info("sockname")
    assert (found.client, found.last_sent_seconds >= since) == (f"{host}:{port}", True)
