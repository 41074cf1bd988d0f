"""CPU per operation of the stores against the plain clients, in one run: `python -m tests.benchmarks.bench_stores`.

Rounds of all contenders alternate and the median counts, because a busy machine makes each round differ.
"""

from __future__ import annotations

import asyncio
import resource
import statistics
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import asyncpg
import redis.asyncio
import uvloop
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from soak.checker.text import MessageGenerator
from soak.servers.local import LocalServers
from soak.stores.embedding import embed
from soak.stores.protocol import StoreContext
from soak.stores.registry import open_store

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    Operation = Callable[[int, int], Awaitable[object]]

TASKS = 50
ROUNDS = 7
OPERATIONS = {"redis": 5_000, "postgres": 1_500}
POSTGRES_CONNECTIONS = 16
AUTHOR = MessageGenerator("bench", 1)
SESSIONS = [f"s{number}-short" for number in range(TASKS)]
BARE_INSERT = "INSERT INTO soak_bench_bare (session, body) VALUES ($1, $2)"


def cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def cpu_us_per_operation(operation: Operation, count: int, tasks: int, first_seq: int) -> float:
    left = count

    async def work(task: int) -> None:
        nonlocal left
        seq = first_seq
        while left > 0:
            left -= 1
            seq += 1
            await operation(task, seq)

    before = cpu_seconds()
    await asyncio.gather(*(work(task) for task in range(tasks)))
    return (cpu_seconds() - before) / count * 1e6


async def compare(kind: str, contenders: dict[str, tuple[Operation, int]]) -> None:
    results: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(ROUNDS):
        for name, (operation, tasks) in contenders.items():
            first_seq = number * 1_000_000
            results[name].append(await cpu_us_per_operation(operation, OPERATIONS[kind], tasks, first_seq))
    for name, rounds in results.items():
        print(f"{name:44} {statistics.median(rounds):7.1f} us   (best {min(rounds):.1f})")


async def bench_redis(url: str) -> None:
    store: Any = await open_store("redis-list", StoreContext(servers={"redis": url}, namespace="bench"))
    plain: Any = redis.asyncio.Redis.from_url(url, retry=Retry(NoBackoff(), 0))

    async def append(task: int, seq: int) -> None:
        await store.append(SESSIONS[task], AUTHOR.write(SESSIONS[task], 0, seq))

    async def plain_append(task: int, seq: int) -> None:
        await plain.rpush("bench:plain:" + SESSIONS[task], AUTHOR.write(SESSIONS[task], 0, seq).to_bytes())

    async def history(task: int, seq: int) -> None:
        await store.history(SESSIONS[task], 10)

    async def plain_history(task: int, seq: int) -> None:
        await plain.lrange("bench:plain:" + SESSIONS[task], -10, -1)

    await compare(
        "redis",
        {
            "redis.asyncio RPUSH": (plain_append, TASKS),
            "redis-list append": (append, TASKS),
            "redis.asyncio LRANGE 10, not decoded": (plain_history, TASKS),
            "redis-list history(10)": (history, TASKS),
        },
    )
    await store.clean_up()
    await plain.delete(*("bench:plain:" + session for session in SESSIONS))
    await store.close()
    await plain.aclose()


async def bench_postgres(url: str) -> None:
    context = StoreContext(servers={"postgres": url}, namespace="bench", connections_max=POSTGRES_CONNECTIONS)
    store: Any = await open_store("postgres", context)
    bare = [await asyncpg.connect(url) for _ in range(POSTGRES_CONNECTIONS)]
    await bare[0].execute(
        "CREATE TABLE soak_bench_bare (id bigserial PRIMARY KEY, session text, body bytea);"
        "CREATE INDEX ON soak_bench_bare (session, id)"
    )

    async def append(task: int, seq: int) -> None:
        await store.append(SESSIONS[task], AUTHOR.write(SESSIONS[task], 0, seq))

    async def append_of_another_writer(task: int, seq: int) -> None:
        await store.append(SESSIONS[task], AUTHOR.write(SESSIONS[task], 1, seq))

    async def bare_insert(task: int, seq: int) -> None:
        await bare[task].execute(BARE_INSERT, SESSIONS[task], AUTHOR.write(SESSIONS[task], 0, seq).to_bytes())

    async def history(task: int, seq: int) -> None:
        await store.history(SESSIONS[task], 10)

    await compare(
        "postgres",
        {
            "bare asyncpg INSERT, a task per connection": (bare_insert, POSTGRES_CONNECTIONS),
            "postgres append, a task per connection": (append, POSTGRES_CONNECTIONS),
            f"postgres append, {TASKS} tasks": (append_of_another_writer, TASKS),
            "postgres history(10)": (history, TASKS),
        },
    )
    await store.clean_up()
    await bare[0].execute("DROP TABLE soak_bench_bare")
    await store.close()
    for connection in bare:
        await connection.close()


async def bench_pgvector(url: str) -> None:
    context = StoreContext(servers={"postgres": url}, namespace="bench", connections_max=POSTGRES_CONNECTIONS)
    store: Any = await open_store("pgvector", context)

    async def embed_only(task: int, seq: int) -> None:
        embed(AUTHOR.write(SESSIONS[task], 0, seq).content)

    async def append(task: int, seq: int) -> None:
        await store.append(SESSIONS[task], AUTHOR.write(SESSIONS[task], 0, seq))

    async def search(task: int, seq: int) -> None:
        await store.search(SESSIONS[task], AUTHOR.write(SESSIONS[task], 0, seq).content, 10)

    await compare(
        "postgres",
        {
            "the vector of a message, without a store": (embed_only, TASKS),
            f"pgvector append, {TASKS} tasks": (append, TASKS),
            "pgvector search(10)": (search, TASKS),
        },
    )
    await store.clean_up()
    await store.close()


async def main() -> None:
    with tempfile.TemporaryDirectory(prefix="soak-bench-") as folder:
        Path(folder).chmod(0o755)
        testbed = LocalServers(Path(folder))
        urls = await testbed.start(["redis", "postgres"])
        try:
            await bench_redis(urls["redis"])
            await bench_postgres(urls["postgres"])
            await bench_pgvector(urls["postgres"])
        finally:
            await testbed.stop()


if __name__ == "__main__":
    uvloop.run(main())
