"""What every built-in store promises, on real servers: what you write is what you read, and nothing else."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest
import redis.asyncio

from soak.checker.contract import Expiry, Order, Reads
from soak.checker.message import Garbled, Message
from soak.checker.text import MIXES, MessageGenerator
from soak.stores.protocol import MemoryStore, StoreContext
from soak.stores.redis_stores import RedisListStore
from soak.stores.registry import find, open_store, specs

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from soak.checker.message import Stored
    from soak.stores.redis_client import RedisClient

REPLICA_SECONDS_MAX = 20.0
AUTHOR = MessageGenerator("run-1", 7)

VALKEY = {"redis": "redis_url"}
REDIS62 = {"redis": "redis62_url"}
POSTGRES = {"postgres": "postgres_url"}
POSTGRES16 = {"postgres": "postgres16_url"}
SQLITE = {"sqlite": "sqlite_url"}
REPLICA = {"postgres": "postgres_url", "postgres-replica": "postgres_replica_url"}

REDIS_LAYOUTS = ("redis-list", "redis-stream", "redis-zset", "redis-hash")
Choice = tuple[str, dict[str, str], bool]
"""A store, the fixtures of its servers, and whether it is opened as the verifier does."""

EVERY_STORE = [
    *[
        pytest.param((name, servers, False), id=f"{name}-{version}")
        for name in REDIS_LAYOUTS
        for version, servers in (("valkey", VALKEY), ("redis62", REDIS62))
    ],
    *[pytest.param((name, VALKEY, True), id=f"{name}-verifier") for name in REDIS_LAYOUTS],
    pytest.param(("postgres", POSTGRES, False), id="postgres-18"),
    pytest.param(("postgres", POSTGRES16, False), id="postgres-16"),
    pytest.param(("postgres-replica", REPLICA, False), id="postgres-replica"),
    pytest.param(("pgvector", POSTGRES, False), id="pgvector-18"),
    pytest.param(("sqlite", SQLITE, False), id="sqlite"),
    pytest.param(("sqlite", SQLITE, True), id="sqlite-verifier"),
    pytest.param(("pgvector", POSTGRES16, False), id="pgvector-16", marks=pytest.mark.long),
]
LOOKALIKES = [
    "a", "A", "a,b", "a/b", "a:b", "a{b}", "{a}b", "a b", "a*", "a?", "[a]", "", " ", "\x00", "a\x00",
    "\u00e9", "e\u0301", "\u212b", "\u00c5", "ß", "ss", "a'b", 'a"b', "a;b", "%61", "\uff41", "n", "0",
]  # fmt: skip


@pytest.fixture
def context(choice: Choice, namespace: str, request: pytest.FixtureRequest) -> StoreContext:
    servers = {kind: request.getfixturevalue(fixture) for kind, fixture in choice[1].items()}
    return StoreContext(servers=servers, namespace=namespace, is_verifier=choice[2])


@pytest.fixture(params=EVERY_STORE)
def choice(request: pytest.FixtureRequest) -> Choice:
    chosen: Choice = request.param
    return chosen


@pytest.fixture
async def store(choice: Choice, context: StoreContext) -> AsyncIterator[Any]:
    opened: Any = await open_store(choice[0], context)
    try:
        yield opened
        await opened.clean_up()
    finally:
        await opened.close()


async def recall(store: MemoryStore, session: str, last: int | None = None) -> Sequence[Stored]:
    """Read a history; from a replica, once it has caught up with the primary."""
    if hasattr(store, "primary_history"):
        whole = list(await store.primary_history(session))
        expected = whole if last is None else whole[-last:]
        deadline = time.monotonic() + REPLICA_SECONDS_MAX
        while time.monotonic() < deadline:
            read = await store.history(session, last)
            if list(read) == expected:
                return read
            await asyncio.sleep(0.01)
    return await store.history(session, last)


async def write(store: MemoryStore, session: str, count: int, writer: int = 0) -> list[Message]:
    messages = [AUTHOR.write(session, writer, seq) for seq in range(1, count + 1)]
    for message in messages:
        await store.append(session, message)
    return messages


@pytest.mark.parametrize("mix", MIXES)
async def test_what_you_write_is_what_you_read(store: MemoryStore, mix: str) -> None:
    session = f"talk-{mix}"
    messages = [AUTHOR.write(session, 0, seq) for seq in range(1, 121)]
    for message in messages:
        await store.append(session, message)
    read = await recall(store, session)
    assert list(read) == messages
    assert all(isinstance(message, Message) and message.is_intact for message in read)


async def test_long_and_hostile_texts_come_back_byte_for_byte(store: MemoryStore) -> None:
    texts = [
        "x" * 32768,
        "\x00",
        "a\x00b",
        "\r\n",
        "\\",
        "'; DROP TABLE message; --",
        "👩‍👩‍👧‍👦" * 3000,
        "\ud7ff\ue000",
        "",
    ]
    messages = [Message("run-1", "s", 0, seq, "tool", text, seq) for seq, text in enumerate(texts, start=1)]
    for message in messages:
        await store.append("s", message)
    assert list(await recall(store, "s")) == messages


async def test_a_session_nobody_wrote_to_is_empty(store: MemoryStore) -> None:
    assert list(await store.history("nobody")) == []
    assert list(await store.history("nobody", last=3)) == []


async def test_each_of_sixteen_concurrent_writers_finds_its_messages_in_order(store: MemoryStore) -> None:
    count = 15
    await asyncio.gather(*(write(store, "shared-short", count, writer) for writer in range(16)))
    read = await recall(store, "shared-short")
    assert len(read) == 16 * count
    by_writer: dict[int, list[int]] = {}
    for message in read:
        assert isinstance(message, Message)
        by_writer.setdefault(message.writer, []).append(message.seq)
    assert by_writer == {writer: list(range(1, count + 1)) for writer in range(16)}


async def test_no_reader_sees_a_message_without_those_before_it(
    store: MemoryStore, choice: Choice, context: StoreContext
) -> None:
    reads: list[list[Stored]] = []
    is_writing = True

    async def read_on() -> None:
        while is_writing:
            reads.append(list(await store.history("watched-short")))
            await asyncio.sleep(0)

    reader = asyncio.create_task(read_on())
    await asyncio.gather(*(write(store, "watched-short", 10, writer) for writer in range(16)))
    is_writing = False
    await reader
    final = list(await recall(store, "watched-short"))
    assert len(final) == 160
    is_ordered = find(choice[0]).contract_for(context).order is not Order.NONE
    for read in reads:
        assert read == final[: len(read)] if is_ordered else set(read) <= set(final)


@pytest.mark.parametrize("last", [1, 3, 20, 25])
async def test_the_last_n_are_the_newest_n_in_order(store: MemoryStore, last: int) -> None:
    messages = await write(store, "window-short", 20)
    assert list(await recall(store, "window-short", last)) == messages[-last:]


async def test_ends_that_are_asked_for_at_once_are_those_of_their_own_sessions(store: MemoryStore) -> None:
    messages = {session: await write(store, session, 4) for session in ("a-short", "b-short")}
    asked = [("b-short", 1), ("a-short", 3), ("nobody-short", 2), ("b-short", 9), ("a-short", 4)]
    ends = await asyncio.gather(*(recall(store, session, last) for session, last in asked))
    assert [list(end) for end in ends] == [messages.get(session, [])[-last:] for session, last in asked]


@pytest.mark.parametrize(
    "choice",
    [
        ("redis-list", VALKEY, True),
        ("redis-zset", VALKEY, True),
        ("postgres", POSTGRES, False),
        ("postgres-replica", REPLICA, False),
    ],
    ids=lambda choice: choice[0],
    indirect=True,
)
async def test_ends_that_are_read_together_are_those_that_are_read_alone(store: Any) -> None:
    assert store.ends is not None
    for session in ("a-short", "b-short"):
        await write(store, session, 4)
    asked = [("b-short", 1), ("a-short", 3), ("nobody-short", 2), ("b-short", 9), ("a-short", 4)]
    alone = [list(await recall(store, session, last)) for session, last in asked]
    assert [end if isinstance(end, BaseException) else list(end) for end in await store.ends(asked)] == alone


@pytest.mark.parametrize("name", ["redis-list", "redis-zset"])
async def test_a_session_that_cannot_be_read_keeps_no_answer_from_those_it_is_read_with(
    name: str, redis_url: str, namespace: str
) -> None:
    context = StoreContext(servers={"redis": redis_url}, namespace=namespace, is_verifier=True)
    store: Any = await open_store(name, context)
    try:
        messages = await write(store, "a-short", 2)
        plain = redis.asyncio.from_url(redis_url)
        await plain.set(store.key("broken-short"), "of another type")
        await plain.aclose()
        broken, end = await store.ends([("broken-short", 3), ("a-short", 3)])
        assert isinstance(broken, Exception)
        assert "WRONGTYPE" in str(broken)
        assert list(end) == messages
    finally:
        await store.clean_up()
        await store.close()


class _Capped(RedisListStore):
    """A store of somebody's own that reads in a way of its own."""

    async def _history(self, client: RedisClient, session: str, last: int | None = None) -> Sequence[Stored]:
        return (await super()._history(client, session, last))[-1:]


@pytest.mark.parametrize(("kind", "is_verifier", "reads"), [(RedisListStore, True, True), (_Capped, True, False)])
async def test_what_reads_in_a_way_of_its_own_is_read_in_that_way(
    kind: type[RedisListStore], is_verifier: bool, reads: bool, redis_url: str, namespace: str
) -> None:
    context = StoreContext(servers={"redis": redis_url}, namespace=namespace, is_verifier=is_verifier)
    store = await kind.open(context)
    try:
        assert (store.ends is not None) == reads
    finally:
        await store.close()


@pytest.mark.parametrize("last", [0, -1])
async def test_the_last_none_are_none(store: MemoryStore, last: int) -> None:
    await write(store, "window-short", 2)
    assert list(await store.history("window-short", last)) == []


async def test_sessions_that_look_alike_do_not_leak(store: MemoryStore) -> None:
    written = {session: [Message("run-1", session, 0, 1, "user", session, 5)] for session in LOOKALIKES}
    for session, messages in written.items():
        await store.append(session, messages[0])
    assert {session: list(await recall(store, session)) for session in LOOKALIKES} == written


async def test_identical_turns_are_all_remembered(store: MemoryStore) -> None:
    turns = [Message("run-1", "s", 0, seq, "user", "continue", seq) for seq in range(1, 9)]
    for turn in turns:
        await store.append("s", turn)
    assert list(await recall(store, "s")) == turns


async def test_a_forgotten_session_is_gone_and_others_stay(store: MemoryStore) -> None:
    await write(store, "gone-short", 5)
    kept = await write(store, "kept-short", 5)
    await store.forget("gone-short")
    await store.forget("never was")
    assert list(await recall(store, "gone-short")) == []
    assert list(await recall(store, "kept-short")) == kept


async def test_a_forgotten_session_can_begin_anew(store: MemoryStore) -> None:
    await write(store, "s-short", 5)
    await store.forget("s-short")
    again = await write(store, "s-short", 3)
    assert list(await recall(store, "s-short")) == again


async def test_two_runs_in_one_namespace_do_not_swallow_each_other(store: MemoryStore) -> None:
    first = Message("run-1", "s", 0, 1, "user", "hello", 1)
    second = Message("run-2", "s", 0, 1, "user", "hello", 1)
    await store.append("s", first)
    await store.append("s", second)
    assert list(await recall(store, "s")) == [first, second]


async def test_a_second_store_object_sees_what_the_first_wrote(
    store: MemoryStore, choice: Choice, context: StoreContext
) -> None:
    messages = await write(store, "s-short", 3)
    other = await open_store(choice[0], context)
    try:
        assert list(await recall(other, "s-short")) == messages
    finally:
        await other.close()


async def test_cleaning_up_leaves_other_namespaces_alone(choice: Choice, context: StoreContext, namespace: str) -> None:
    longer = StoreContext(servers=context.servers, namespace=namespace + "_2")
    ours: Any = await open_store(choice[0], context)
    theirs: Any = await open_store(choice[0], longer)
    try:
        await asyncio.gather(*(ours.append(f"s{n}", AUTHOR.write(f"s{n}", 0, 1)) for n in range(50)))
        kept = await write(theirs, "s0", 3)
        await ours.clean_up()
        assert list(await recall(theirs, "s0")) == kept
        await ours.close()
        ours = await open_store(choice[0], context)
        assert list(await recall(ours, "s0")) == []
        await ours.clean_up()
        await theirs.clean_up()
    finally:
        await ours.close()
        await theirs.close()


async def test_stores_that_share_a_namespace_clean_up_only_after_themselves(
    postgres_url: str, postgres_replica_url: str, redis_url: str, namespace: str
) -> None:
    context = StoreContext(
        servers={"redis": redis_url, "postgres": postgres_url, "postgres-replica": postgres_replica_url},
        namespace=namespace,
    )
    stores: dict[str, Any] = {
        name: await open_store(name, context) for name, spec in specs().items() if set(spec.needs) <= {*context.servers}
    }
    try:
        written = {name: await write(store, "s-short", 3) for name, store in stores.items()}
        left = dict(stores)
        for name in list(stores):
            await left.pop(name).clean_up()
            for other, store in left.items():
                assert list(await recall(store, "s-short")) == written[other]
    finally:
        for store in stores.values():
            await store.close()


async def test_cleaning_up_redis_touches_no_foreign_key(redis_url: str, namespace: str) -> None:
    context = StoreContext(servers={"redis": redis_url}, namespace=namespace)
    store: Any = await open_store("redis-list", context)
    foreign = [f"{namespace}:listed", f"{namespace}", f"x{namespace}:list:s", f"{namespace.upper()}:list:s"]
    client: Any = redis.asyncio.Redis.from_url(redis_url)
    try:
        for key in foreign:
            await client.set(key, "mine")
        await write(store, "s-short", 2)
        await store.clean_up()
        assert [await client.get(key) for key in foreign] == [b"mine"] * len(foreign)
        assert [key async for key in client.scan_iter(match=f"{namespace}:list:*")] == []
        await client.delete(*foreign)
    finally:
        await client.aclose()
        await store.close()


async def test_a_namespace_is_no_pattern(redis_url: str, namespace: str) -> None:
    store: Any = await open_store(
        "redis-list", StoreContext(servers={"redis": redis_url}, namespace=f"{namespace}*[a-z]?")
    )
    other: Any = await open_store("redis-list", StoreContext(servers={"redis": redis_url}, namespace=f"{namespace}xab"))
    try:
        await write(store, "s-short", 2)
        kept = await write(other, "s-short", 2)
        await store.clean_up()
        assert list(await store.history("s-short")) == []
        assert list(await other.history("s-short")) == kept
        await other.clean_up()
    finally:
        await store.close()
        await other.close()


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("redis-list", ("RPUSH", "{key}", b"\xc1 not a message")),
        ("redis-stream", ("XADD", "{key}", "*", "other", b"field")),
        ("redis-zset", ("ZADD", "{key}", "99", b"\xc1 not a message")),
        ("redis-hash", ("HSET", "{key}", "note", b"\xc1 not a message")),
    ],
)
async def test_one_bad_entry_hides_no_other_in_redis(
    redis_url: str, namespace: str, name: str, command: tuple[str | bytes, ...]
) -> None:
    store: Any = await open_store(name, StoreContext(servers={"redis": redis_url}, namespace=namespace))
    client: Any = redis.asyncio.Redis.from_url(redis_url)
    try:
        messages = await write(store, "s-short", 3)
        await client.execute_command(*(store.key("s-short") if part == "{key}" else part for part in command))
        *good, bad = await store.history("s-short")
        assert good == messages
        assert isinstance(bad, Garbled)
        await store.clean_up()
    finally:
        await client.aclose()
        await store.close()


async def test_one_bad_row_hides_no_other_in_postgres(postgres_url: str, namespace: str) -> None:
    store: Any = await open_store("postgres", StoreContext(servers={"postgres": postgres_url}, namespace=namespace))
    connection = await asyncpg.connect(postgres_url)
    try:
        messages = await write(store, "s-short", 3)
        await connection.execute(
            f"UPDATE {namespace}.message SET body = $1 WHERE position = 2",  # noqa: S608  a name of our own
            b"\xc1 not a message",
        )
        first, bad, third = await store.history("s-short")
        assert [first, third] == [messages[0], messages[2]]
        assert isinstance(bad, Garbled)
        await store.clean_up()
    finally:
        await connection.close()
        await store.close()


@pytest.mark.parametrize("version", ["redis_url", "redis62_url"])
async def test_every_append_gives_the_session_its_whole_time_again(
    version: str, namespace: str, request: pytest.FixtureRequest
) -> None:
    url = request.getfixturevalue(version)
    store: Any = await open_store(
        "redis-hash", StoreContext(servers={"redis": url}, namespace=namespace, ttl_seconds=0.8)
    )
    try:
        messages = [AUTHOR.write("s-short", 0, seq) for seq in range(1, 6)]
        for message in messages:
            await store.append("s-short", message)
            await asyncio.sleep(0.3)
        assert list(await store.history("s-short")) == messages
        await asyncio.sleep(0.9)
        assert list(await store.history("s-short")) == []
        assert list(await store.history("s-short", last=3)) == []
    finally:
        await store.close()


def test_the_context_store_promises_the_time_to_live_it_was_given() -> None:
    spec = find("redis-hash")
    assert spec.contract_for(StoreContext(servers={}, namespace="n")).ttl_seconds == 3600.0
    short = spec.contract_for(StoreContext(servers={}, namespace="n", ttl_seconds=9.0))
    assert (short.ttl_seconds, short.expiry) == (9.0, Expiry.SLIDING)


def test_the_replica_store_promises_bounded_staleness_only() -> None:
    contract = find("postgres-replica").contract_for(StoreContext(servers={}, namespace="n"))
    assert (contract.reads, contract.staleness_seconds) == (Reads.BOUNDED_STALENESS, 5.0)


async def test_the_replica_lags_while_the_primary_knows(
    postgres_url: str, postgres_replica_url: str, namespace: str
) -> None:
    servers = {"postgres": postgres_url, "postgres-replica": postgres_replica_url}
    store: Any = await open_store("postgres-replica", StoreContext(servers=servers, namespace=namespace))
    replica = await asyncpg.connect(postgres_replica_url)
    try:
        await replica.execute("SELECT pg_wal_replay_pause()")
        while await replica.fetchval("SELECT pg_get_wal_replay_pause_state()") != "paused":
            await asyncio.sleep(0.01)
        messages = await write(store, "s-short", 3)
        assert list(await store.primary_history("s-short")) == messages
        assert list(await store.history("s-short")) == []
        await replica.execute("SELECT pg_wal_replay_resume()")
        assert list(await recall(store, "s-short")) == messages
        await store.clean_up()
    finally:
        await replica.execute("SELECT pg_wal_replay_resume()")
        await replica.close()
        await store.close()
