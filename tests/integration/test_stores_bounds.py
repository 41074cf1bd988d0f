"""Servers that answer with too much, or with nonsense: it costs a connection and a clear line, not our memory."""

from __future__ import annotations

import resource
from collections.abc import Iterator

import pytest

from soak.answer_bounds import ANSWER_BYTES_MAX, announces_too_much
from soak.checker.outcome import NotApplied
from soak.errors import ServerUnreachableError, SoakError
from soak.ledger.run import read_header
from soak.postgres_bounds import AnswerTooLargeError
from soak.servers.inspect import inspect
from soak.stores import registry
from soak.stores.postgres_pool import PostgresPool
from soak.stores.protocol import StoreContext
from tests.support.servers.lying import Talk, always_ok, endless_line, huge_array, huge_bulk, huge_message, serving

TOO_LARGE = "more than 64 MiB in one answer"
MEMORY_BYTES_MAX = 4 * ANSWER_BYTES_MAX
"""What all that is held meanwhile may come to: the answer, a copy of it, and what the other side of the test needs."""


@pytest.fixture(autouse=True)
def little_memory() -> Iterator[None]:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    grown_bytes = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    assert grown_bytes < MEMORY_BYTES_MAX


@pytest.mark.parametrize("is_verifier", [False, True], ids=["load", "verifier"])
@pytest.mark.parametrize("talk", [huge_bulk, huge_array, endless_line])
async def test_a_redis_that_answers_without_end_is_refused_in_one_line(talk: Talk, *, is_verifier: bool) -> None:
    async with serving(talk) as port:
        servers = {"redis": f"redis://127.0.0.1:{port}"}
        context = StoreContext(servers=servers, namespace="soak_test", timeout_seconds=20.0, is_verifier=is_verifier)
        with pytest.raises(SoakError, match=TOO_LARGE) as caught:
            await registry.open_store("redis-list", context)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("talk", [huge_bulk, endless_line])
async def test_a_ledger_that_answers_without_end_is_refused_in_one_line(talk: Talk) -> None:
    async with serving(talk) as port:
        with pytest.raises(ServerUnreachableError, match=TOO_LARGE):
            await read_header(f"redis://127.0.0.1:{port}")


async def test_a_postgres_that_answers_without_end_is_refused_in_one_line() -> None:
    async with serving(huge_message) as port:
        pool = PostgresPool(
            f"postgresql://u@127.0.0.1:{port}/d", address="here", connections_max=1, timeout_seconds=20.0
        )
        with pytest.raises(NotApplied, match=TOO_LARGE):
            await pool.connect()
        await pool.close()


async def test_a_query_whose_rows_are_too_many_is_cut_and_the_next_one_is_answered(postgres_url: str) -> None:
    pool = PostgresPool(postgres_url, address="here", connections_max=1, timeout_seconds=30.0)
    with pytest.raises(AnswerTooLargeError, match=TOO_LARGE):
        await pool.fetch("SELECT repeat('x', 1000000) FROM generate_series(1, 1000)")
    for _ in range(3):  # each answer has the limit to itself
        (row,) = await pool.fetch("SELECT repeat('x', 25000000)")
        assert len(row[0]) == 25_000_000
    await pool.close()


@pytest.mark.parametrize("is_verifier", [False, True], ids=["load", "verifier"])
@pytest.mark.parametrize("store", ["redis-list", "redis-stream", "redis-zset", "redis-hash"])
async def test_a_redis_that_says_ok_to_everything_is_no_internal_error(store: str, *, is_verifier: bool) -> None:
    async with serving(always_ok) as port:
        servers = {"redis": f"redis://127.0.0.1:{port}"}
        context = StoreContext(servers=servers, namespace="soak_test", is_verifier=is_verifier)
        with pytest.raises(SoakError, match="answers PING with b'OK', so it is no Redis; check the address"):
            await registry.open_store(store, context)


async def test_a_ledger_that_says_ok_to_everything_is_one_line() -> None:
    async with serving(always_ok) as port:
        with pytest.raises(SoakError) as caught:
            await read_header(f"redis://127.0.0.1:{port}")
        assert "\n" not in str(caught.value)


async def test_a_server_that_says_ok_to_everything_tells_nothing_of_itself() -> None:
    async with serving(always_ok) as port:
        with pytest.raises(ServerUnreachableError, match="does not report its configuration"):
            await inspect("redis", f"redis://127.0.0.1:{port}", timeout_seconds=5.0)


def test_what_a_reply_announces_is_looked_at() -> None:
    assert announces_too_much(b"$2000000000\r\n")
    assert announces_too_much(b"*2000000\r\n")
    for harmless in (b"$5\r\nhello", b"*3\r\n", b"+2000000000\r\n", b":9999999999\r\n", b"$-1\r\n", b"$20000", b""):
        assert not announces_too_much(harmless)
