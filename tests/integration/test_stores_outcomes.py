"""Three outcomes, not two: what a store raises tells for certain that nothing was written, or it does not."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest
import redis.asyncio

from soak.checker.message import Message
from soak.checker.outcome import NotApplied
from soak.checker.text import MessageGenerator
from soak.stores import redis_pool, redis_wire
from soak.stores.protocol import StoreContext
from soak.stores.registry import open_store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

AUTHOR = MessageGenerator("run-1", 7)
REDIS_STORES = ["redis-list", "redis-stream", "redis-zset", "redis-hash"]
AS_VERIFIER = "-as-verifier"
"""Behind the name of a store: it is opened as the verifier does, with redis-py's client."""
REDIS_STORES_AND_CLIENTS = [*REDIS_STORES, f"redis-list{AS_VERIFIER}", f"redis-zset{AS_VERIFIER}"]
ALL_STORES = [*REDIS_STORES_AND_CLIENTS, "postgres"]

LOCK_SESSIONS = "SELECT FROM {schema}.conversation FOR UPDATE"
END_OUR_SESSIONS = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'soak'"

Mode = Literal["pass", "drop", "hold"]


class Proxy:
    """Stands before a server. It may drop a reply and the connection with it, or hold back all replies."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._upstream = (parts.hostname, parts.port)
        self._server: asyncio.Server | None = None
        self._port = 0
        self._writers: set[asyncio.StreamWriter] = set()
        self.mode: Mode = "pass"

    async def start(self) -> int:
        """Listen on a port that stays the same when it goes away and comes back."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]
        return self._port

    async def go_away(self) -> None:
        assert self._server is not None
        self._server.close()
        # Connections that were being accepted are cut as well.
        await asyncio.sleep(0.05)
        self.cut()
        await asyncio.sleep(0.05)

    def cut(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up_reader, up_writer = await asyncio.open_connection(*self._upstream)
        self._writers |= {writer, up_writer}
        try:
            await asyncio.gather(self._to_server(reader, up_writer), self._to_client(up_reader, writer))
        finally:
            writer.transport.abort()
            up_writer.transport.abort()
            self._writers -= {writer, up_writer}

    async def _to_server(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                writer.write(data)
        writer.transport.abort()

    async def _to_client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                if self.mode == "drop":
                    break
                if self.mode == "pass":
                    writer.write(data)
        writer.transport.abort()


def at_port(url: str, port: int) -> str:
    parts = urlsplit(url)
    login = f"{parts.username or ''}:{parts.password or ''}@" if parts.password else ""
    return urlunsplit(parts._replace(netloc=f"{login}127.0.0.1:{port}"))


async def open_named(name: str, server: str, namespace: str, **options: Any) -> Any:
    kind = "postgres" if name == "postgres" else "redis"
    is_verifier = name.endswith(AS_VERIFIER)
    context = StoreContext(servers={kind: server}, namespace=namespace, is_verifier=is_verifier, **options)
    return await open_store(name.removesuffix(AS_VERIFIER), context)


class Rig:
    """A store behind a proxy, and the same store directly on the server."""

    def __init__(self, behind: Any, direct: Any, proxy: Proxy) -> None:
        self.behind = behind
        self.direct = direct
        self.proxy = proxy


@contextlib.asynccontextmanager
async def rig_of(name: str, url: str, namespace: str, **options: Any) -> AsyncIterator[Rig]:
    proxy = Proxy(url)
    through = at_port(url, await proxy.start())
    direct: Any = await open_named(name, url, namespace)
    behind: Any = await open_named(name, through, namespace, **options)
    try:
        yield Rig(behind, direct, proxy)
    finally:
        await behind.close()
        await direct.clean_up()
        await direct.close()
        await proxy.go_away()


@pytest.fixture(params=ALL_STORES)
def name(request: pytest.FixtureRequest) -> str:
    chosen: str = request.param
    return chosen


@pytest.fixture
def url(name: str, request: pytest.FixtureRequest) -> str:
    found: str = request.getfixturevalue("postgres_url" if name == "postgres" else "redis_url")
    return found


async def outcome_of(write: Any) -> str:
    try:
        await write
    except NotApplied:
        return "failed"
    except Exception:  # noqa: BLE001  that is what unknown means
        return "unknown"
    return "ok"


async def test_a_lost_reply_is_unknown_and_the_write_stands_once(name: str, url: str, namespace: str) -> None:
    async with rig_of(name, url, namespace) as rig:
        first, second, third = (AUTHOR.write("s-short", 0, seq) for seq in (1, 2, 3))
        await rig.behind.append("s-short", first)
        rig.proxy.mode = "drop"
        assert await outcome_of(rig.behind.append("s-short", second)) == "unknown"
        rig.proxy.mode = "pass"
        await rig.behind.append("s-short", third)
        assert list(await rig.direct.history("s-short")) == [first, second, third]


async def test_a_reply_that_never_comes_is_unknown_and_the_next_write_gets_through(
    name: str, url: str, namespace: str
) -> None:
    async with rig_of(name, url, namespace, timeout_seconds=0.3, connections_max=1) as rig:
        await rig.behind.append("s-short", AUTHOR.write("s-short", 0, 1))
        rig.proxy.mode = "hold"
        assert await outcome_of(rig.behind.append("s-short", AUTHOR.write("s-short", 0, 2))) == "unknown"
        rig.proxy.mode = "pass"
        # The connection that went silent was replaced; nothing was sent again.
        assert await outcome_of(rig.behind.append("s-short", AUTHOR.write("s-short", 0, 3))) == "ok"
        assert [message.seq for message in await rig.direct.history("s-short")] == [1, 2, 3]


async def test_connections_cut_while_idle_are_replaced_without_an_error(name: str, url: str, namespace: str) -> None:
    async with rig_of(name, url, namespace) as rig:
        await rig.behind.append("s-short", AUTHOR.write("s-short", 0, 1))
        rig.proxy.cut()
        await asyncio.sleep(0.05)
        await rig.behind.append("s-short", AUTHOR.write("s-short", 0, 2))
        assert len(await rig.direct.history("s-short")) == 2


async def test_a_server_that_is_away_is_a_certain_failure_until_it_is_back(name: str, url: str, namespace: str) -> None:
    async with rig_of(name, url, namespace, timeout_seconds=1.0) as rig:
        await rig.proxy.go_away()
        for seq in (1, 2, 3):
            assert await outcome_of(rig.behind.append("s-short", AUTHOR.write("s-short", 0, seq))) == "failed"
        await rig.proxy.start()
        await rig.behind.append("s-short", AUTHOR.write("s-short", 0, 4))
        assert [message.seq for message in await rig.direct.history("s-short")] == [4]


async def test_a_read_of_a_server_that_is_away_is_an_error_and_never_an_empty_history(
    name: str, url: str, namespace: str
) -> None:
    async with rig_of(name, url, namespace, timeout_seconds=1.0) as rig:
        await rig.behind.append("s-short", AUTHOR.write("s-short", 0, 1))
        await rig.proxy.go_away()
        for last in (None, 5):
            assert await outcome_of(rig.behind.history("s-short", last)) != "ok"


async def test_a_forget_whose_reply_was_lost_is_unknown(redis_url: str, namespace: str) -> None:
    async with rig_of("redis-list", redis_url, namespace) as rig:
        await rig.behind.append("s-short", AUTHOR.write("s-short", 0, 1))
        rig.proxy.mode = "drop"
        assert await outcome_of(rig.behind.forget("s-short")) == "unknown"
        assert list(await rig.direct.history("s-short")) == []


async def test_a_forget_cut_off_before_its_commit_certainly_forgot_nothing(postgres_url: str, namespace: str) -> None:
    async with rig_of("postgres", postgres_url, namespace) as rig:
        await rig.behind.append("s-short", AUTHOR.write("s-short", 0, 1))
        rig.proxy.mode = "drop"
        assert await outcome_of(rig.behind.forget("s-short")) == "failed"
        assert len(await rig.direct.history("s-short")) == 1


# A replica of a primary that cannot be reached keeps its data and takes no writes.
READ_ONLY = (("REPLICAOF", "127.0.0.1", "1"), ("REPLICAOF", "NO", "ONE"))
FULL = (("CONFIG", "SET", "maxmemory", "1"), ("CONFIG", "SET", "maxmemory", "0"))


@pytest.mark.parametrize("version", ["redis_url", "redis62_url"])
@pytest.mark.parametrize(("close", "open_again"), [FULL, READ_ONLY], ids=["full", "read only"])
@pytest.mark.parametrize("store_name", REDIS_STORES_AND_CLIENTS)
async def test_a_redis_that_takes_no_writes_refuses_for_certain(
    version: str,
    close: Sequence[str],
    open_again: Sequence[str],
    store_name: str,
    namespace: str,
    request: pytest.FixtureRequest,
) -> None:
    address = request.getfixturevalue(version)
    store: Any = await open_named(store_name, address, namespace)
    client: Any = redis.asyncio.Redis.from_url(address)
    try:
        await store.append("s-short", AUTHOR.write("s-short", 0, 1))
        await client.execute_command(*close)
        assert await outcome_of(store.append("s-short", AUTHOR.write("s-short", 0, 2))) == "failed"
        await client.execute_command(*open_again)
        await store.append("s-short", AUTHOR.write("s-short", 0, 3))
        assert [message.seq for message in await store.history("s-short")] == [1, 3]
    finally:
        await client.execute_command(*open_again)
        await client.aclose()
        await store.clean_up()
        await store.close()


@pytest.mark.parametrize("store_name", ["redis-zset", "redis-hash", f"redis-zset{AS_VERIFIER}"])
async def test_a_server_that_forgot_its_scripts_is_told_them_again(
    redis_url: str, store_name: str, namespace: str
) -> None:
    store: Any = await open_named(store_name, redis_url, namespace)
    client: Any = redis.asyncio.Redis.from_url(redis_url)
    try:
        for seq in (1, 2, 3):
            await client.script_flush()
            await store.append("s-short", AUTHOR.write("s-short", 0, seq))
        assert [message.seq for message in await store.history("s-short", last=5)] == [1, 2, 3]
    finally:
        await client.aclose()
        await store.clean_up()
        await store.close()


async def test_a_key_of_another_type_refuses_for_certain(redis_url: str, namespace: str) -> None:
    store: Any = await open_store("redis-list", StoreContext(servers={"redis": redis_url}, namespace=namespace))
    client: Any = redis.asyncio.Redis.from_url(redis_url)
    try:
        await client.set(store.key("s"), "text")
        assert await outcome_of(store.append("s", AUTHOR.write("s", 0, 1))) == "failed"
    finally:
        await client.aclose()
        await store.clean_up()
        await store.close()


async def test_an_exhausted_redis_connection_is_an_error_and_never_a_skipped_write(
    redis_url: str, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_wire, "IN_FLIGHT_MAX", 4)
    monkeypatch.setattr(redis_pool, "LINE_MAX", 3)
    async with rig_of("redis-list", redis_url, namespace, timeout_seconds=0.5, connections_max=1) as rig:
        await rig.behind.append("s-short", AUTHOR.write("s-short", 0, 100))
        rig.proxy.mode = "hold"
        writes = [outcome_of(rig.behind.append("s-short", AUTHOR.write("s-short", 0, seq))) for seq in range(1, 10)]
        outcomes = await asyncio.gather(*writes)
        # Four were sent; three stood in line; for two there was no room even there.
        assert outcomes == ["unknown"] * 4 + ["failed"] * 5
        stored = {message.seq for message in await rig.direct.history("s-short")}
        assert stored == {100, 1, 2, 3, 4}


async def test_those_who_stand_in_line_get_their_turn_in_order(
    redis_url: str, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_wire, "IN_FLIGHT_MAX", 2)
    async with rig_of("redis-list", redis_url, namespace, connections_max=1) as rig:
        messages = [AUTHOR.write("s-short", 0, seq) for seq in range(1, 201)]
        await asyncio.gather(*(rig.behind.append("s-short", message) for message in messages))
        assert list(await rig.direct.history("s-short")) == messages


async def test_an_exhausted_postgres_pool_is_an_error_and_never_a_skipped_write(
    postgres_url: str, namespace: str
) -> None:
    async with rig_of("postgres", postgres_url, namespace, timeout_seconds=0.5, connections_max=2) as rig:
        await rig.behind.append("s-short", AUTHOR.write("s-short", 0, 100))
        blocker = await asyncpg.connect(postgres_url)
        try:
            async with blocker.transaction():
                await blocker.execute(LOCK_SESSIONS.format(schema=namespace))
                writes = [outcome_of(rig.behind.append("s-short", AUTHOR.write("s-short", 0, n))) for n in range(1, 6)]
                outcomes = await asyncio.gather(*writes)
        finally:
            await blocker.close()
        assert outcomes == ["unknown"] * 2 + ["failed"] * 3
        await rig.behind.append("s-short", AUTHOR.write("s-short", 0, 101))
        stored = {message.seq for message in await rig.direct.history("s-short")}
        assert {100, 101} <= stored <= {100, 101, 1, 2}


async def test_a_postgres_message_is_stored_once_however_often_it_is_sent(postgres_url: str, namespace: str) -> None:
    store: Any = await open_store("postgres", StoreContext(servers={"postgres": postgres_url}, namespace=namespace))
    try:
        messages = [AUTHOR.write("s-short", writer, 1) for writer in range(3)]
        for message in [*messages, *messages]:
            await store.append("s-short", message)
        await asyncio.gather(*(store.append("s-short", messages[0]) for _ in range(10)))
        assert list(await store.history("s-short")) == messages
        await store.clean_up()
    finally:
        await store.close()


@pytest.mark.parametrize(
    "spoil",
    [
        "ALTER TABLE {schema}.message ADD CONSTRAINT never CHECK (seq < 2)",
        "DROP TABLE {schema}.message CASCADE",
        "ALTER DATABASE postgres SET default_transaction_read_only = on",
    ],
)
async def test_what_postgres_refuses_was_certainly_not_written(postgres_url: str, namespace: str, spoil: str) -> None:
    context = StoreContext(servers={"postgres": postgres_url}, namespace=namespace)
    store: Any = await open_store("postgres", context)
    other = await asyncpg.connect(postgres_url)
    try:
        await store.append("s-short", AUTHOR.write("s-short", 0, 1))
        await other.execute(spoil.format(schema=namespace))
        if "read_only" in spoil:
            # It holds for new connections.
            await other.execute(END_OUR_SESSIONS)
            await asyncio.sleep(0.05)
        assert await outcome_of(store.append("s-short", AUTHOR.write("s-short", 0, 2))) == "failed"
    finally:
        await other.execute("ALTER DATABASE postgres RESET default_transaction_read_only")
        await other.execute(END_OUR_SESSIONS)
        await other.close()
        await asyncio.sleep(0.05)
        await store.clean_up()
        await store.close()


async def test_a_terminated_postgres_session_is_unknown(postgres_url: str, namespace: str) -> None:
    store: Any = await open_store("postgres", StoreContext(servers={"postgres": postgres_url}, namespace=namespace))
    other = await asyncpg.connect(postgres_url)
    try:
        await store.append("s", AUTHOR.write("s", 0, 1))
        async with other.transaction():
            await other.execute(LOCK_SESSIONS.format(schema=namespace))
            write = asyncio.create_task(outcome_of(store.append("s", AUTHOR.write("s", 0, 2))))
            await asyncio.sleep(0.1)
            await other.execute(END_OUR_SESSIONS)
            assert await write == "unknown"
        await store.append("s", AUTHOR.write("s", 0, 3))
        await store.clean_up()
    finally:
        await other.close()
        await store.close()


async def test_forgetting_waits_for_an_append_under_way_and_erases_it_too(postgres_url: str, namespace: str) -> None:
    store: Any = await open_store("postgres", StoreContext(servers={"postgres": postgres_url}, namespace=namespace))
    other = await asyncpg.connect(postgres_url)
    try:
        await store.append("s-short", AUTHOR.write("s-short", 0, 1))
        pending = AUTHOR.write("s-short", 1, 1)
        async with other.transaction():
            await other.execute(store._append, b"s-short", "run-1", 1, 1, pending.to_bytes())
            forgetting = asyncio.create_task(store.forget("s-short"))
            await asyncio.sleep(0.1)
            assert not forgetting.done()
        await forgetting
        assert list(await store.history("s-short")) == []
        await store.clean_up()
    finally:
        await other.close()
        await store.close()


async def test_a_cancelled_postgres_append_harms_no_other(postgres_url: str, namespace: str) -> None:
    context = StoreContext(servers={"postgres": postgres_url}, namespace=namespace, connections_max=2)
    store: Any = await open_store("postgres", context)
    try:
        for round_number in range(5):
            messages = [AUTHOR.write(f"s{n}-short", 0, round_number + 1) for n in range(20)]
            tasks = [asyncio.create_task(store.append(message.session, message)) for message in messages]
            await asyncio.sleep(0.002)
            for task in tasks[::3]:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
            for message, result in zip(messages, results, strict=True):
                if result is None:
                    assert message in await store.history(message.session)
                else:
                    assert isinstance(result, asyncio.CancelledError)
        await store.clean_up()
    finally:
        await store.close()


async def test_many_processes_may_open_and_migrate_at_once(postgres_url: str, namespace: str) -> None:
    context = StoreContext(servers={"postgres": postgres_url}, namespace=namespace, connections_max=2)
    stores: list[Any] = await asyncio.gather(*(open_store("postgres", context) for _ in range(8)))
    try:
        message = Message("run-1", "s", 0, 1, "user", "hello", 1)
        await stores[0].append("s", message)
        assert [list(await store.history("s")) for store in stores] == [[message]] * 8
        await stores[0].clean_up()
    finally:
        for store in stores:
            await store.close()
