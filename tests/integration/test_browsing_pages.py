"""The chat's page as a memory, in a real Chromium on real servers: byte for byte, and true about its failures."""

from __future__ import annotations

import contextlib
import signal
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from soak.browsing.page_memory import PageError, PageMemory
from soak.browsing.tabs import NoBrowserError, Tabs
from soak.chat.http import serving
from soak.chat.memory import ChatMemory
from soak.chat.service import ChatService
from soak.checker.message import Garbled, Message, checksum
from soak.checker.outcome import NotApplied
from soak.checker.text import HARD_TEXTS, MessageGenerator
from soak.stores.protocol import StoreContext
from soak.stores.redis_stores import RedisListStore
from tests.support.needs import installed

pytestmark = pytest.mark.long

STEP_SECONDS = 20.0
STARTS_MAX = 3


@pytest.fixture(autouse=True)
def _litter(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let Chromium put its sockets where they are removed: one that is killed leaves them. Paths must be short."""
    with tempfile.TemporaryDirectory(prefix="b") as folder:
        monkeypatch.setenv("TMPDIR", folder)
        yield


class Troubled(RedisListStore):
    """Remembers, unless told to fail in one way or another."""

    trouble: BaseException | None = None

    async def append(self, session: str, message: Message) -> None:
        if self.trouble is not None:
            raise self.trouble
        await super().append(session, message)

    async def history(self, session: str, last: int | None = None) -> Any:
        if self.trouble is not None:
            raise self.trouble
        return await super().history(session, last)

    async def forget(self, session: str) -> None:
        if self.trouble is not None:
            raise self.trouble
        await super().forget(session)


@contextlib.asynccontextmanager
async def pages(redis_url: str, namespace: str, tabs_max: int = 4) -> AsyncIterator[tuple[PageMemory, Troubled]]:
    chromium = installed("chromium")
    store = await Troubled.open(StoreContext(servers={"redis": redis_url}, namespace=namespace, timeout_seconds=2.0))
    service = ChatService(ChatMemory(store, 2.0), pace_seconds=0.0)
    try:
        async with (
            serving(service.application(), "127.0.0.1", 0) as address,
            Tabs.open(Path(chromium), tabs_max=tabs_max, step_seconds=STEP_SECONDS, starts_max=STARTS_MAX) as tabs,
        ):
            yield PageMemory(tabs, address), store
    finally:
        store.trouble = None
        await store.clean_up()
        await store.close()


def message(session: str, seq: int, content: str, writer: int = 0) -> Message:
    role = "user" if seq % 2 else "assistant"
    unsigned = Message("r", session, writer, seq, role, content, 0)
    return Message("r", session, writer, seq, role, content, checksum(unsigned))


async def test_every_text_goes_through_the_page_byte_for_byte(redis_url: str, namespace: str) -> None:
    texts = [text for kind, some in HARD_TEXTS.items() for text in some if kind != "32 KiB"] + ["記" * 32_768]
    said = [message("hard", seq, text) for seq, text in enumerate(texts, start=1)]
    async with pages(redis_url, namespace) as (memory, store):
        for one in said:
            await memory.append("hard", one)
        assert list(await store.history("hard")) == said
        assert list(await memory.history("hard")) == said
        assert list(await memory.history("hard", 5)) == said[-5:]


async def test_what_the_load_says_is_what_is_read_and_sessions_are_apart(redis_url: str, namespace: str) -> None:
    author = MessageGenerator("r1", 7)
    sessions = ("browser-w1-1-chat", "a/b?c#d%20e 小明")
    async with pages(redis_url, namespace) as (memory, store):
        said = {name: [author.write(name, writer, seq) for writer in (0, 1) for seq in (1, 2, 3)] for name in sessions}
        for name in sessions:
            for one in said[name]:
                await memory.append(name, one)
        for name in sessions:
            assert list(await memory.history(name)) == list(await store.history(name)) == said[name]
        await memory.forget(sessions[0])
        assert await store.history(sessions[0]) == []
        assert list(await memory.history(sessions[0])) == []
        assert list(await memory.history(sessions[1])) == said[sessions[1]]


async def test_a_long_session_is_read_whole(redis_url: str, namespace: str) -> None:
    said = [message("long", seq, f"message {seq}") for seq in range(1, 451)]
    async with pages(redis_url, namespace) as (memory, store):
        for one in said:
            await store.append("long", one)
        assert list(await memory.history("long")) == said
        assert list(await memory.history("long", 10)) == said[-10:]
        assert list(await memory.history("long", 300)) == said[-300:]


async def test_what_stands_there_twice_or_cannot_be_read_is_seen_as_it_is(redis_url: str, namespace: str) -> None:
    twice = message("s", 1, "continue")
    async with pages(redis_url, namespace) as (memory, store):
        await store.append("s", twice)
        await store._client.execute("RPUSH", store.key("s"), b"\xc1 no message")
        await store.append("s", twice)
        first, second, third = await memory.history("s")
        assert (first, third) == (twice, twice)
        assert isinstance(second, Garbled)


async def test_each_way_to_fail_is_told_apart(redis_url: str, namespace: str) -> None:
    async with pages(redis_url, namespace) as (memory, store):
        await memory.append("s", message("s", 1, "before"))
        store.trouble = NotApplied("full")
        for seq in (3, 4):
            with pytest.raises(NotApplied):
                await memory.append("s", message("s", seq, "refused"))
        with pytest.raises(NotApplied):
            await memory.forget("s")
        store.trouble = ConnectionResetError("gone")
        for seq in (5, 6):
            with pytest.raises(PageError):
                await memory.append("s", message("s", seq, "who knows"))
        with pytest.raises(PageError):
            await memory.forget("s")
        with pytest.raises(PageError, match="cannot reach its memory"):
            await memory.history("s")
        store.trouble = None
        assert list(await memory.history("s")) == [message("s", 1, "before")]


async def test_tabs_are_bounded_and_a_killed_chromium_is_started_again_so_often_and_no_more(
    redis_url: str, namespace: str
) -> None:
    async with pages(redis_url, namespace, tabs_max=2) as (memory, store):
        for number in range(4):
            await memory.append(f"s{number}", message(f"s{number}", 1, "hello"))
        assert len(memory._tabs._tabs) == 2
        assert len(memory._tabs._browser.contexts) == 2  # type: ignore[union-attr]
        for start in range(1, STARTS_MAX):
            _kill_chromium()
            with contextlib.suppress(Exception):
                await memory.history("s0")  # which may be when its death is noticed
            assert list(await memory.history("s0")) == [message("s0", 1, "hello")]
            assert len(memory._tabs._starts) == start + 1
        _kill_chromium()
        with contextlib.suppress(Exception):
            await memory.history("s0")
        with pytest.raises(NoBrowserError, match="has died 3 times"):
            await memory.append("s0", message("s0", 3, "never sent"))
        assert list(await store.history("s0")) == [message("s0", 1, "hello")]


def _kill_chromium() -> None:
    """Kill the browsers that this very process has started."""
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if "--type=" not in " ".join(child.cmdline()) and "--remote-debugging" in " ".join(child.cmdline()):
                child.send_signal(signal.SIGKILL)
