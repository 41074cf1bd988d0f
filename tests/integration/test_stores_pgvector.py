"""The store that is searched: what was said is found by its own words, in its own session, and not after a forget."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from soak.checker.message import Garbled, Message, checksum
from soak.checker.text import HARD_TEXTS, MessageGenerator
from soak.errors import UsageError
from soak.flaws.vector_memory import VectorMemory
from soak.stores.embedding import embed
from soak.stores.protocol import StoreContext, search_of
from soak.stores.registry import open_store

if TYPE_CHECKING:
    from soak.stores.pgvector import PgvectorStore

AUTHOR = MessageGenerator("run-1", 7)
SESSION = "s1-chat"


@pytest.fixture(params=["postgres_url", pytest.param("postgres16_url", marks=pytest.mark.long)])
def url(request: pytest.FixtureRequest) -> str:
    found: str = request.getfixturevalue(request.param)
    return found


@contextlib.asynccontextmanager
async def opened(url: str, namespace: str) -> AsyncIterator[PgvectorStore]:
    store: Any = await open_store("pgvector", StoreContext(servers={"postgres": url}, namespace=namespace))
    try:
        yield store
        await store.clean_up()
    finally:
        await store.close()


@pytest.fixture
async def store(url: str, namespace: str) -> AsyncIterator[PgvectorStore]:
    async with opened(url, namespace) as ready:
        yield ready


async def say(store: PgvectorStore, session: str, count: int) -> list[Message]:
    said = [AUTHOR.write(session, 0, seq) for seq in range(1, count + 1)]
    await asyncio.gather(*(store.append(session, message) for message in said))
    return said


async def test_each_message_is_found_by_its_own_words(store: PgvectorStore) -> None:
    said = await say(store, SESSION, 40)
    for message in said:
        found = list(await store.search(SESSION, message.content, len(said)))
        assert found[0] in said
        assert found[0].content == message.content
        assert message in found
    assert set(await store.search(SESSION, "anything", len(said))) == set(await store.history(SESSION))


async def test_no_more_than_asked_for_and_the_nearest_first(store: PgvectorStore) -> None:
    said = await say(store, SESSION, 30)
    text = said[7].content
    found = [one.content for one in await store.search(SESSION, text, 5)]  # type: ignore[union-attr]
    assert len(found) == 5
    distances = [sum((a - b) ** 2 for a, b in zip(embed(text), embed(one), strict=True)) for one in found]
    assert distances == pytest.approx(sorted(distances), abs=1e-6)
    assert distances[0] == 0
    assert list(await store.search(SESSION, text, 0)) == []


async def test_a_search_sees_its_own_session_and_nothing_of_a_forgotten_one(store: PgvectorStore) -> None:
    said = await say(store, SESSION, 5)
    other = await say(store, "s2-chat", 5)
    await store.forget(SESSION)
    for message in [*said, *other]:
        assert list(await store.search(SESSION, message.content, 100)) == []
        assert set(await store.search("s2-chat", message.content, 100)) == set(other)


async def test_hard_text_is_found(store: PgvectorStore) -> None:
    texts = [text for texts in HARD_TEXTS.values() for text in texts]
    for seq, text in enumerate(texts, start=1):
        bare = Message("r", SESSION, 0, seq, "user", text, 0)
        await store.append(SESSION, Message("r", SESSION, 0, seq, "user", text, checksum(bare)))
    for text in texts:
        nearest = (await store.search(SESSION, text, 1))[0]
        assert isinstance(nearest, Message)
        assert nearest.content == text


async def test_a_bad_row_hides_no_other_from_a_search(store: PgvectorStore, url: str, namespace: str) -> None:
    said = await say(store, SESSION, 2)
    connection: Any = await asyncpg.connect(url)
    await connection.execute(
        f'UPDATE "{namespace}-pgvector".message SET body = $1 WHERE seq = 1',  # noqa: S608  a name of our own
        b"\xc1",
    )
    await connection.close()
    found = await store.search(SESSION, said[1].content, 5)
    assert found[0] == said[1]
    assert isinstance(found[1], Garbled)


async def test_many_processes_may_open_it_at_once(url: str, namespace: str) -> None:
    async with a_database(url, f"fresh_{namespace}") as fresh:
        contexts = [StoreContext(servers={"postgres": fresh}, namespace=f"{namespace}_{n}") for n in range(6)]
        stores: list[Any] = await asyncio.gather(*(open_store("pgvector", context) for context in contexts))
        for store in stores:
            assert search_of(store) is not None
            await store.clean_up()
            await store.close()


async def test_a_server_without_pgvector_is_told_so_in_one_line(postgres_url: str, namespace: str) -> None:
    async with a_database(postgres_url, f"bare_{namespace}") as fresh:
        # A server of version 18 can be told to look for extensions elsewhere, where none is.
        text = await refusal(f"{fresh}&extension_control_path=/nowhere", namespace)
        assert "no pgvector" in text
        assert "postgresql-NN-pgvector" in text


async def test_a_user_who_may_not_install_it_is_told_who_may(postgres_url: str, namespace: str) -> None:
    role = f"plain_{time.monotonic_ns()}"
    async with a_database(postgres_url, f"plain_{namespace}") as fresh:
        admin: Any = await asyncpg.connect(postgres_url)
        try:
            await admin.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'secret'")
            await admin.execute(f'GRANT CREATE ON DATABASE "plain_{namespace}" TO {role}')
            text = await refusal(fresh, namespace, role)
        finally:
            await admin.execute(f'REVOKE ALL ON DATABASE "plain_{namespace}" FROM {role}')
            await admin.execute(f"DROP ROLE {role}")
            await admin.close()
        assert "superuser" in text
        assert "secret" not in text


async def refusal(url: str, namespace: str, role: str | None = None) -> str:
    if role is not None:
        parts = urlsplit(url)
        url = urlunsplit(parts._replace(netloc=f"{role}:secret@{parts.hostname}:{parts.port}"))
    with pytest.raises(UsageError) as caught:
        await open_store("pgvector", StoreContext(servers={"postgres": url}, namespace=namespace))
    assert "\n" not in str(caught.value)
    return str(caught.value)


@contextlib.asynccontextmanager
async def a_database(url: str, name: str) -> AsyncIterator[str]:
    """Make a database that nobody has touched, and remove it."""
    admin: Any = await asyncpg.connect(url)
    try:
        await admin.execute(f'CREATE DATABASE "{name}"')
        yield urlunsplit(urlsplit(url)._replace(path=f"/{name}"))
        await admin.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
    finally:
        await admin.close()


async def test_the_memory_that_flaws_of_searches_are_held_against_erases_from_both_tables_or_from_none(
    postgres_url: str, namespace: str
) -> None:
    memory = await VectorMemory.open(StoreContext(servers={"postgres": postgres_url}, namespace=namespace))
    function = f"{memory.table}_wait"
    try:
        # The erasure of the messages takes long, and an append arrives before that of the index begins.
        await memory.pool.execute(
            f"CREATE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN PERFORM pg_sleep(0.5); RETURN NULL; END $$"
        )
        await memory.pool.execute(
            f"CREATE TRIGGER late AFTER DELETE ON {memory.table} FOR EACH STATEMENT EXECUTE FUNCTION {function}()"
        )
        forgetting = asyncio.create_task(memory.forget(SESSION))
        await asyncio.sleep(0.1)
        message = AUTHOR.write(SESSION, 0, 1)
        await asyncio.gather(forgetting, memory.append(SESSION, message))
        assert list(await memory.history(SESSION)) == [message]
        assert list(await memory.search(SESSION, message.content, 5)) == [message]
    finally:
        await memory.pool.execute(f"DROP TABLE {memory.table}, {memory.index}")
        await memory.pool.execute(f"DROP FUNCTION IF EXISTS {function}")
        await memory.close()
