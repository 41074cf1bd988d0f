"""A memory in a real Chroma server: presence, search and absence; what an error means; what survives which fault."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import aiohttp
import msgspec
import pytest

from soak.checker.message import Garbled, Message
from soak.checker.outcome import NotApplied
from soak.checker.telemetry import FOLDER_MARK
from soak.checker.text import MessageGenerator
from soak.cli import main
from soak.errors import ServerUnreachableError, UsageError
from soak.faults import ALL
from soak.servers.external.backend import OperatorCommand
from soak.servers.external.servers import ExternalServers
from soak.servers.local import LocalServers
from soak.servers.ports import free_port
from soak.stores.chroma import COLLECTIONS, ChromaStore
from soak.stores.http_contract import HttpAnswerError
from soak.stores.protocol import StoreContext
from tests.support.needs import missing
from tests.support.servers.breaking import started

AUTHOR = MessageGenerator("run-1", 7)
SECONDS_MAX = 30.0


@asynccontextmanager
async def opened(url: str, namespace: str, timeout_seconds: float = SECONDS_MAX) -> AsyncIterator[ChromaStore]:
    context = StoreContext(servers={"chroma": url}, namespace=namespace, timeout_seconds=timeout_seconds)
    store = await ChromaStore.open(context)
    try:
        yield store
        await store.clean_up()
    finally:
        await store.close()


def bed_of(folder: Path, **options: bool) -> AbstractAsyncContextManager[LocalServers]:
    """Start a Chroma of our own; what a machine cannot have was said by the fixture that is asked for first."""
    return started(folder, "chroma", **options)


async def say(store: ChromaStore, session: str, *seqs: int) -> list[Message]:
    said = [AUTHOR.write(session, 0, seq) for seq in seqs]
    for message in said:
        await store.append(session, message)
    return said


async def test_what_is_written_is_read_byte_for_byte_and_nothing_else(chroma_url: str, namespace: str) -> None:
    async with opened(chroma_url, namespace) as store:
        said = await say(store, "talk-hard", *range(1, 25))
        assert Counter(await store.history("talk-hard")) == Counter(said)
        assert await store.history("other") == []
        assert len(await store.history("talk-hard", 5)) == 5
        assert await store.history("talk-hard", 0) == []


async def test_sessions_that_look_alike_are_apart(chroma_url: str, namespace: str) -> None:
    names = ["a", "A", "a,b", "a b", " a", "", "é", "e\u0301", "ß", "ss", "%61", "\x00"]
    async with opened(chroma_url, namespace) as store:
        for number, name in enumerate(names):
            await store.append(name, AUTHOR.write(name, 0, number + 1))
        for number, name in enumerate(names):
            assert [one.seq for one in await store.history(name) if isinstance(one, Message)] == [number + 1]


async def test_a_search_finds_a_text_by_itself_and_by_its_words_within_its_session(
    chroma_url: str, namespace: str
) -> None:
    async with opened(chroma_url, namespace) as store:
        for seq, text in enumerate(("the red bicycle is in the garden", "my flight leaves at noon", "stop"), start=1):
            message = msgspec.structs.replace(AUTHOR.write("talk", 0, seq), content=text)
            await store.append("talk", message)
        await say(store, "other", 1)
        found = await store.search("talk", "the red bicycle is in the garden", 1)
        assert [one.seq for one in found if isinstance(one, Message)] == [1]
        found = await store.search("talk", "when does the flight leave", 2)
        assert next(one.seq for one in found if isinstance(one, Message)) == 2
        assert {one.session for one in await store.search("talk", "stop", 10) if isinstance(one, Message)} == {"talk"}


async def test_what_is_forgotten_is_found_by_neither_get_nor_search(chroma_url: str, namespace: str) -> None:
    async with opened(chroma_url, namespace) as store:
        (said,) = await say(store, "talk", 1)
        await say(store, "other", 1)
        await store.forget("talk")
        assert await store.history("talk") == []
        assert await store.search("talk", said.content, 3) == []
        assert len(await store.history("other")) == 1


async def test_cleaning_up_removes_the_own_collection_and_no_other(chroma_url: str, namespace: str) -> None:
    async with opened(chroma_url, namespace) as mine, opened(chroma_url, f"{namespace}x") as theirs:
        await say(mine, "talk", 1)
        await say(theirs, "talk", 1)
        await mine.clean_up()
        assert await mine.history("talk") == [], "made again by whoever asks, and empty"
        assert len(await theirs.history("talk")) == 1


async def test_a_document_that_is_no_message_hides_no_other(chroma_url: str, namespace: str) -> None:
    async with opened(chroma_url, namespace) as store:
        said = await say(store, "talk", 1)
        strange = {
            "ids": ["strange", "bare"],
            "documents": ["text", None],
            "metadatas": [{"session": "talk", "role": "user"}, {"session": "talk"}],
            "embeddings": [[0.0] * 64, [1.0] * 64],
        }
        status, _ = await store._client.post(f"{COLLECTIONS}/{store._collection}/add", strange)
        assert status == 201
        found = await store.history("talk")
        assert [one for one in found if isinstance(one, Message)] == said
        assert sum(isinstance(one, Garbled) for one in found) == 2


async def test_a_message_is_stored_once_however_often_it_is_sent(chroma_url: str, namespace: str) -> None:
    async with opened(chroma_url, namespace) as store:
        (message,) = await say(store, "talk", 1)
        await store.append("talk", message)
        assert await store.history("talk") == [message]


async def test_a_server_that_is_not_there_is_one_line_and_what_cannot_be_sent_is_not_applied(
    chroma_url: str, namespace: str
) -> None:
    nowhere = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(ServerUnreachableError, match="does not answer as a Chroma server"):
        await ChromaStore.open(StoreContext(servers={"chroma": nowhere}, namespace=namespace))
    with pytest.raises(UsageError, match=r"servers\.chroma"):
        await ChromaStore.open(StoreContext(servers={}, namespace=namespace))
    async with opened(chroma_url, namespace) as store:
        half = msgspec.structs.replace(AUTHOR.write("talk", 0, 1), content="\ud800")
        with pytest.raises(NotApplied):
            await store.append("talk", half)


async def test_a_lost_reply_leaves_it_open_and_the_message_stands_once(
    chroma_url: str, namespace: str, tmp_path: Path
) -> None:
    del chroma_url
    async with bed_of(tmp_path, proxied=True) as servers, opened(servers.nodes["chroma"].url, namespace) as store:
        proxy = servers.nodes["chroma"].proxy
        assert proxy is not None
        proxy.drop_replies(1)
        with pytest.raises(aiohttp.ClientError) as raised:
            await say(store, "talk", 1)
        proxy.drop_replies(0)
        assert not isinstance(raised.value, NotApplied)
        assert len(await store.history("talk")) == 1


async def test_what_was_acknowledged_survives_every_death_and_a_wiped_volume_takes_it(
    chroma_url: str, namespace: str, tmp_path: Path
) -> None:
    del chroma_url
    async with bed_of(tmp_path) as servers, opened(servers.nodes["chroma"].url, namespace) as store:
        said = await say(store, "talk", *range(1, 9))
        before = await servers.telemetry("chroma")
        for name in ("restart", "crash", "pause"):
            await ALL[name].inject(servers, "chroma")
            await ALL[name].heal(servers, "chroma")
            assert Counter(await store.history("talk")) == Counter(said)
        assert (await servers.telemetry("chroma"))[FOLDER_MARK] == before[FOLDER_MARK]
        await ALL["wiped_volume"].inject(servers, "chroma")
        await ALL["wiped_volume"].heal(servers, "chroma")
        assert (await servers.telemetry("chroma"))[FOLDER_MARK] != before[FOLDER_MARK]
        assert await store.history("talk") == [], "an answer, and no error: what is missing is lost"
        await say(store, "talk", 9)
        assert len(await store.history("talk")) == 1


@pytest.mark.extra
async def test_after_a_power_cut_its_documents_are_on_the_disk_and_cannot_be_read(
    chroma_url: str, namespace: str, tmp_path: Path
) -> None:
    """As measured on 1.5.9, which never syncs the files of its index. Should this fail, it has learned to."""
    del chroma_url
    async with bed_of(tmp_path, power_cuts=True) as servers:
        if servers.no_power_cuts is not None:
            missing(servers.no_power_cuts)
        async with opened(servers.nodes["chroma"].url, namespace) as store:
            await asyncio.gather(*(say(store, f"talk {number}", *range(1, 40)) for number in range(4)))
            await ALL["power_cut"].inject(servers, "chroma")
            await ALL["power_cut"].heal(servers, "chroma")
            with pytest.raises(HttpAnswerError, match="status 500"):
                await store.history("talk 0")


async def test_one_that_was_given_is_taken_as_it_is_and_no_restart_of_it_could_be_seen(
    chroma_url: str, tmp_path: Path
) -> None:
    servers = ExternalServers(
        tmp_path, {"chroma": chroma_url}, allow_faults=["restart"], restart_command=OperatorCommand("true")
    )
    assert await servers.start(["chroma"]) == {"chroma": chroma_url}
    try:
        assert await servers.nodes["chroma"].answers()
        assert FOLDER_MARK not in await servers.telemetry("chroma")
        assert servers.refuses("crash", "chroma") is not None
        with pytest.raises(ServerUnreachableError, match="a restart cannot be noticed"):
            await ALL["restart"].inject(servers, "chroma")
    finally:
        await servers.stop()


def test_what_a_run_left_on_one_that_was_given_is_cleaned_by_name(chroma_url: str, namespace: str) -> None:
    async def leave_something() -> None:
        async with opened(chroma_url, f"{namespace}other") as theirs:
            context = StoreContext(servers={"chroma": chroma_url}, namespace=namespace)
            mine = await ChromaStore.open(context)
            await say(mine, "talk", 1)
            await mine.close()
            await say(theirs, "talk", 1)
            words = ("clean", "--namespace", namespace, "--store", "chroma", "--chroma", chroma_url)
            assert await asyncio.to_thread(main, words) == 0
            again = await ChromaStore.open(context)
            assert await again.history("talk") == []
            await again.clean_up()
            await again.close()
            assert len(await theirs.history("talk")) == 1

    asyncio.run(leave_something())
