"""The chat over HTTP, on a real server: what it lets in, what it says, and what it remembers."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from soak.chat.http import BODY_BYTES_MAX, serving
from soak.chat.memory import ChatMemory
from soak.chat.opening import serving_store
from soak.chat.service import ChatService
from soak.checker.message import Message
from soak.checker.outcome import NotApplied
from soak.conformance.examination import examine
from soak.servers.web_process import ServiceContext
from soak.stores.protocol import StoreContext
from soak.stores.redis_stores import RedisListStore
from soak.subjects.description import read_script
from soak.subjects.process import SubjectProcess
from tests.support.paths import EXAMPLES

SAID = {"id": "chat/c/1/1/00000000", "role": "user", "content": "My name is Ada"}


class Troubled(RedisListStore):
    """Remembers, unless told to fail in one way or another."""

    trouble: BaseException | None = None
    after_writing = False

    async def append(self, session: str, message: Message) -> None:
        if self.trouble is not None and not self.after_writing:
            raise self.trouble
        await super().append(session, message)
        if self.trouble is not None:
            raise self.trouble

    async def history(self, session: str, last: int | None = None) -> Any:
        if self.trouble is not None:
            raise self.trouble
        return await super().history(session, last)


class Client:
    """Asks as the page does."""

    def __init__(self, session: aiohttp.ClientSession, address: str, store: Troubled) -> None:
        self.session = session
        self.address = address
        self.store = store

    async def ask(self, path: str, question: Any, **options: Any) -> tuple[int, Any]:
        async with self.session.post(self.address + path, json=question, **options) as answer:
            return answer.status, json.loads(await answer.read())

    async def listen(self, question: Any) -> list[Any]:
        async with self.session.post(f"{self.address}/api/answer", json=question) as answer:
            assert answer.status == 200, await answer.text()
            return [json.loads(line) async for line in answer.content]

    async def history(self, conversation: str = "c") -> list[Any]:
        status, told = await self.ask("/api/history", {"conversation": conversation})
        assert status == 200, told
        messages: list[Any] = told["messages"]
        return messages


@contextlib.asynccontextmanager
async def chat(redis_url: str, namespace: str, pace_seconds: float = 0.0) -> AsyncIterator[Client]:
    context = StoreContext(servers={"redis": redis_url}, namespace=namespace, timeout_seconds=2.0)
    store = await Troubled.open(context)
    service = ChatService(ChatMemory(store, context.timeout_seconds), pace_seconds=pace_seconds)
    try:
        async with serving(service.application(), "127.0.0.1", 0) as address, aiohttp.ClientSession() as session:
            yield Client(session, address, store)
    finally:
        await store.clean_up()
        await store.close()


async def test_what_is_said_is_remembered_and_so_is_the_answer(redis_url: str, namespace: str) -> None:
    async with chat(redis_url, namespace) as client:
        assert await client.ask("/api/say", {"conversation": "c", "message": SAID}) == (200, {"state": "remembered"})
        *words, end = await client.listen({"conversation": "c", "message": SAID})
        assert len(words) > 3
        assert end["state"] == "remembered"
        assert "".join(one["words"] for one in words) == end["message"]["content"]
        history = await client.history()
        assert history == [SAID, end["message"]]
        assert end["message"]["content"].startswith("Nice to meet you, Ada.")
        question = {**SAID, "id": "chat/c/1/3/00000000", "content": "What is my name?"}
        await client.ask("/api/say", {"conversation": "c", "message": question})
        answer = (await client.listen({"conversation": "c", "message": question}))[-1]
        assert answer["message"]["content"] == "Your name is Ada."
        assert await client.history("another") == []


async def test_what_was_sent_before_and_asked_again_is_there_once(redis_url: str, namespace: str) -> None:
    async with chat(redis_url, namespace) as client:
        client.store.trouble, client.store.after_writing = ConnectionResetError("gone"), True
        status, told = await client.ask("/api/say", {"conversation": "c", "message": SAID})
        assert (status, told["state"]) == (504, "unknown")
        assert "applied" not in told
        client.store.trouble = None
        assert [one["id"] for one in await client.history()] == [SAID["id"]]
        again = {"conversation": "c", "message": SAID, "again": True}
        assert await client.ask("/api/say", again) == (200, {"state": "remembered"})
        assert len(await client.history()) == 1
        await client.listen({"conversation": "c", "message": SAID})
        await client.listen({"conversation": "c", "message": SAID})
        assert len(await client.history()) == 2


async def test_what_was_not_applied_is_said_again_and_then_there(redis_url: str, namespace: str) -> None:
    async with chat(redis_url, namespace) as client:
        client.store.trouble = NotApplied("full")
        status, told = await client.ask("/api/say", {"conversation": "c", "message": SAID})
        assert (status, told["state"], told["applied"]) == (422, "not remembered", False)
        client.store.trouble = None
        assert await client.history() == []
        await client.ask("/api/say", {"conversation": "c", "message": SAID, "again": True})
        assert await client.history() == [SAID]


async def test_no_answer_of_the_memory_is_no_empty_memory(redis_url: str, namespace: str) -> None:
    async with chat(redis_url, namespace) as client:
        client.store.trouble = TimeoutError()
        assert (await client.ask("/api/history", {"conversation": "c"}))[0] == 503
        assert (await client.ask("/v1/history", {"session": "c"}))[0] == 503
        (end,) = await client.listen({"conversation": "c", "message": SAID})
        assert "cannot reach my memory" in end["instead"]
        assert "message" not in end
        client.store.trouble = None
        assert await client.history() == []


async def test_an_answer_that_nobody_hears_to_its_end_is_remembered_whole(redis_url: str, namespace: str) -> None:
    async with chat(redis_url, namespace, pace_seconds=0.05) as client:
        await client.ask("/api/say", {"conversation": "c", "message": SAID})
        question = {"conversation": "c", "message": SAID}
        async with client.session.post(f"{client.address}/api/answer", json=question) as answer:
            await answer.content.readline()
        assert len(await client.history()) == 1
        assert (await client.ask("/api/answer", question))[0] == 409
        async with asyncio.timeout(20):
            while len(await client.history()) < 2:
                await asyncio.sleep(0.05)
        assert (await client.history())[1]["content"].endswith("your name.")


async def test_an_answer_that_is_cut_off_is_remembered_not_at_all(redis_url: str, namespace: str) -> None:
    context = StoreContext(servers={"redis": redis_url}, namespace=namespace)
    async with aiohttp.ClientSession() as session:
        async with serving_store("redis-list", context, "127.0.0.1", 0, 5.0) as address:
            question = {"conversation": "c", "message": SAID}
            async with session.post(f"{address}/api/answer", json=question) as answer:
                assert json.loads(await answer.content.readline())["words"] == "Nice"
        async with (
            serving_store("redis-list", context, "127.0.0.1", 0, 0.0) as address,
            session.post(f"{address}/api/history", json={"conversation": "c"}) as answer,
        ):
            assert await answer.json() == {"messages": []}


async def test_a_script_is_said_word_for_word(redis_url: str, namespace: str) -> None:
    script = {"id": "r/c/1/2/00000000", "role": "assistant", "content": "tab\tcr\rlf\ncrlf\r\n\x00 end  "}
    async with chat(redis_url, namespace) as client:
        told = await client.listen({"conversation": "c", "message": SAID, "script": script})
        assert "".join(one["words"] for one in told[:-1]) == script["content"]
        assert await client.history() == [script]


async def test_forgetting_forgets(redis_url: str, namespace: str) -> None:
    async with chat(redis_url, namespace) as client:
        for conversation in ("c", "d"):
            await client.ask("/api/say", {"conversation": conversation, "message": SAID})
        assert await client.ask("/api/forget", {"conversation": "c"}) == (200, {"state": "remembered"})
        assert (await client.history("c"), await client.history("d")) == ([], [SAID])


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Host": "evil.example"}, 403),
        ({"Content-Type": "text/plain"}, 415),
        ({}, 200),
    ],
)
async def test_other_sites_are_refused(redis_url: str, namespace: str, headers: dict[str, str], status: int) -> None:
    async with chat(redis_url, namespace) as client:
        sent = {"Content-Type": "application/json", **headers}
        body = json.dumps({"conversation": "c", "message": SAID})
        for path in ("/api/say", "/api/forget"):
            async with client.session.post(client.address + path, data=body, headers=sent) as answer:
                assert answer.status == status
                assert (json.loads(await answer.read()).get("applied") is False) == (status != 200)
        if "Host" in headers:
            async with client.session.get(f"{client.address}/v1/health", headers=headers) as answer:
                assert answer.status == 403


async def test_what_is_no_question_is_refused_and_changes_nothing(redis_url: str, namespace: str) -> None:
    async with chat(redis_url, namespace) as client:
        headers = {"Content-Type": "application/json"}
        for body in (b"", b"{", b"[]", b'{"conversation": ""}', b'{"conversation": "c"}', b"\xff", b"[" * 100_000):
            async with client.session.post(f"{client.address}/api/say", data=body, headers=headers) as answer:
                assert answer.status == 400
        long = json.dumps({"conversation": "c", "message": {**SAID, "content": "x" * BODY_BYTES_MAX}}).encode()
        async with client.session.post(f"{client.address}/api/say", data=io.BytesIO(long), headers=headers) as answer:
            assert (answer.status, (await answer.json())["applied"]) == (413, False)
        half = json.dumps({"conversation": "c", "message": {**SAID, "content": "\ud800"}}).encode()
        async with client.session.post(f"{client.address}/api/say", data=half, headers=headers) as answer:
            assert (answer.status, (await answer.json())["applied"]) == (400, False)
        assert await client.history() == []


async def test_half_a_character_that_a_store_holds_is_told_as_it_is(redis_url: str, namespace: str) -> None:
    class Half(Troubled):
        async def history(self, session: str, last: int | None = None) -> Any:
            del last
            return [Message("r", session, 1, 1, "user", "half \udc4d", 0), b"bytes"]

    context = StoreContext(servers={"redis": redis_url}, namespace=namespace)
    store = await Half.open(context)
    service = ChatService(ChatMemory(store, 2.0))
    try:
        async with serving(service.application(), "127.0.0.1", 0) as address, aiohttp.ClientSession() as session:
            first, second = await Client(session, address, store).history()
    finally:
        await store.close()
    assert first["content"] == "half \udc4d"
    assert "id" not in second


@pytest.mark.long
async def test_the_contract_of_soak_is_kept_over_the_same_memory(redis_url: str, namespace: str) -> None:
    async with chat(redis_url, namespace) as client:
        findings = [finding async for finding in examine(client.address, timeout_seconds=5.0)]
        assert {finding.check: finding.found for finding in findings if finding.outcome == "wrong"} == {}
        assert sum(finding.outcome == "ok" for finding in findings) >= 14
        # Both ways lead to the same memory.
        await client.ask("/v1/append", {"session": "both", "message": SAID})
        assert await client.history("both") == [SAID]


async def test_cleaning_up_takes_the_sessions_of_one_prefix_also_after_a_restart(
    redis_url: str, namespace: str
) -> None:
    async with chat(redis_url, namespace) as first:
        for session in ("one.a", "one.b", "two.a"):
            await first.ask("/v1/append", {"session": session, "message": SAID})
        async with chat(redis_url, namespace) as second:
            assert await second.ask("/v1/clean-up", {"namespace": "one."}) == (200, {"removed": 2})
            assert [len(await second.history(name)) for name in ("one.a", "one.b", "two.a")] == [0, 0, 1]


@pytest.mark.long
async def test_the_chat_is_a_subject_that_comes_up_is_killed_and_knows_what_it_knew(
    redis_url: str, tmp_path: Path
) -> None:
    subject = read_script(EXAMPLES / "chat_subject.py")[0]
    told = ServiceContext(servers={"redis": redis_url}, folder=str(tmp_path))
    process = SubjectProcess(subject, Path(sys.executable), told, tmp_path / "log")
    question = {"session": tmp_path.name, "message": SAID}
    async with aiohttp.ClientSession() as session:
        try:
            await process.start()
            async with session.post(f"{process.url}/v1/append", json=question) as answer:
                assert await answer.json() == {"id": SAID["id"]}
            await process.kill()
            await process.start()
            async with session.post(f"{process.url}/v1/history", json={"session": tmp_path.name}) as answer:
                assert await answer.json() == {"messages": [SAID]}
        finally:
            await process.stop()
