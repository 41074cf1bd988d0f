"""What only a web service can be asked: how it answers nonsense and strangers, and that it cleans up."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import aiohttp
import msgspec

from soak.contract_suite.comparison import broken
from soak.contract_suite.memory import Memory
from soak.stores import http_contract as wire
from soak.stores.http import HttpStore

SERVER_ERROR = 500


class HttpReply(NamedTuple):
    """How the service answered a plain request."""

    status: int
    body: bytes
    content_type: str


async def request(
    store: HttpStore, method: str, path: str, body: bytes | None, token: str | None, timeout_seconds: float
) -> HttpReply:
    """Ask without the store in between, with another token or none."""
    headers = {"Content-Type": "application/json"} if body is not None else {}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    url = store.address.url(path)
    async with (
        asyncio.timeout(timeout_seconds),
        aiohttp.request(method, url, data=body, headers=headers, allow_redirects=False) as reply,
    ):
        return HttpReply(reply.status, await reply.read(), reply.content_type)


async def says_what_it_sends(store: HttpStore, timeout_seconds: float) -> None:
    reply = await request(store, "GET", wire.HEALTH, None, store.address.token, timeout_seconds)
    if reply.content_type != "application/json":
        broken(f"{wire.HEALTH} is sent as {reply.content_type!r}")


async def refuses_nonsense(store: HttpStore, timeout_seconds: float) -> None:
    no_session = msgspec.json.encode({"message": {"id": "x"}})
    for what, body in (("no JSON", b"{"), ("no session", no_session), ("a list", b"[]")):
        reply = await request(store, "POST", wire.APPEND, body, store.address.token, timeout_seconds)
        if reply.status < 400:
            broken(f"an append with {what} is answered with {reply.status}")
        if reply.status >= SERVER_ERROR and not wire.refuses(reply.status, reply.body):
            broken(f"an append with {what} is answered with {reply.status}, which leaves open whether it was applied")


async def asks_for_the_token(store: HttpStore, timeout_seconds: float) -> None:
    if store.address.token is None:
        return
    question = msgspec.json.encode({"session": "stranger"})
    for token in (None, "not-the-token"):
        reply = await request(store, "POST", wire.HISTORY, question, token, timeout_seconds)
        if reply.status not in {401, 403}:
            with_token = "without a" if token is None else "with a wrong"
            broken(f"a history asked for {with_token} token is answered with {reply.status}")


async def cleans_up(memory: Memory) -> None:
    """Remove all that the examination has written, in every namespace it used."""
    for namespace in memory.namespaces:
        store = await memory.open(namespace=namespace)
        session = memory.session("litter")
        await memory.say(store, memory.turns(session, 2))
        assert isinstance(store, HttpStore)  # noqa: S101  it was opened as one
        await store.clean_up()
        await memory.expect("A user of a service that was cleaned up", store, session, [])
