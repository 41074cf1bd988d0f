"""What the load costs: CPU per acknowledged append through the whole path, and the ledger's share of throughput.

Run it: `python -m tests.benchmarks.bench_load`. The same file is the locustfile of the processes it measures.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import secrets
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from soak import join
from soak.checker.outcome import Outcome
from soak.checker.text import MessageGenerator
from soak.clock import now_us
from soak.ledger.records import FORMAT_VERSION, RunHeader
from soak.ledger.run import create_run, read_header
from soak.servers.local import LocalServers
from soak.settings import LedgerSettings
from soak.stores import registry
from soak.stores.protocol import MemoryStore, StoreContext
from tests.support.benchmark_report import machine
from tests.support.paths import ROOT

USERS = 50
WARM_UP_SECONDS = 2.0
MEASURED_SECONDS = 5.0
ROUNDS = 3
CONNECTIONS = 16
CORE_SHARE_MIN = 0.8
"""A load without pauses keeps a core busy. With less of one, rates say how busy the machine was, and nothing else."""
SEED = 7
SAME_BYTES = 2_000
PUSHES = 200_000

ROLE = os.environ.get("BENCH_ROLE", "")
"""What this process is when Locust loads this file: `plain`, `soak` or `soak-without-ledger`."""


def messages() -> list[bytes]:
    author = MessageGenerator("bench", SEED)
    return [author.write("bench-0-chat", 0, seq).to_bytes() for seq in range(1, SAME_BYTES + 1)]


# Inside the Locust process ------------------------------------------------------------------------------------


def measure_here(environment: Any) -> None:
    """Count CPU and appends between the warm-up and the end; write them where the parent looks."""
    import gevent  # noqa: PLC0415  only in the process that is measured

    def appends() -> int:
        return sum(entry.num_requests - entry.num_failures for (name, _), entry in entries() if name == "append")

    def entries() -> list[tuple[tuple[str, str], Any]]:
        return list(environment.stats.entries.items())

    def run() -> None:
        gevent.sleep(WARM_UP_SECONDS)
        count, cpu, clock = appends(), time.process_time(), time.perf_counter()
        gevent.sleep(MEASURED_SECONDS)
        count, cpu, clock = appends() - count, time.process_time() - cpu, time.perf_counter() - clock
        failures = environment.stats.total.num_failures
        result = {"appends": count, "cpu": cpu, "seconds": clock, "failures": failures}
        Path(os.environ["BENCH_RESULT"]).write_text(json.dumps(result))
        environment.runner.quit()

    gevent.spawn(run)


if ROLE:
    from locust import User, events, task

    @events.test_start.add_listener  # type: ignore[untyped-decorator]
    def _on_start(environment: Any, **_details: object) -> None:
        measure_here(environment)


if ROLE == "plain":
    import itertools

    import redis

    RAWS = messages()

    class PlainUser(User):
        """What one writes first: a redis-py client, RPUSH, an event."""

        client: Any = None
        numbers = itertools.count()

        def on_start(self) -> None:
            if PlainUser.client is None:
                PlainUser.client = redis.Redis.from_url(os.environ["BENCH_REDIS"])
            self.key = f"plain:{next(self.numbers)}"

        @task
        def append(self) -> None:
            raw = RAWS[next(self.numbers) % SAME_BYTES]
            started = time.perf_counter()
            self.client.rpush(self.key, raw)
            self.environment.events.request.fire(
                request_type="plain",
                name="append",
                response_time=(time.perf_counter() - started) * 1000,
                response_length=0,
                exception=None,
                context={},
            )


if ROLE.startswith("soak"):
    from locust import events

    from soak.load import session_pool
    from soak.load.locust_events import register
    from soak.load.locust_user import ChatUser as ChatUser  # noqa: PLC0414  Locust looks for users here

    register(events)

if ROLE == "soak-without-ledger":

    class NoLedger:
        """Takes everything and writes nothing."""

        def __init__(self, header: RunHeader) -> None:
            self.header, self.worker, self.lease_messages, self._sessions = header, "w00000000", 32, 0
            self.stalled, self.progress = False, None

        @classmethod
        async def connect(cls, url: str, _settings: object) -> NoLedger:
            return cls(await read_header(url))

        async def open_session(self, *_: object) -> int:
            self._sessions += 1
            return self._sessions

        async def lease(self, *_: object) -> None: ...

        async def intend_forget(self, *_: object) -> None: ...

        async def close(self) -> None: ...

        def attempted(self, *_: object) -> None: ...

        forgot = close_session = observe = latency = hurry = attempted

    session_pool.LedgerWriter = NoLedger  # type: ignore[assignment,attr-defined]


# The benchmark ------------------------------------------------------------------------------------------------


@asynccontextmanager
async def running_servers(*kinds: str) -> AsyncIterator[dict[str, str]]:
    folder = Path(tempfile.mkdtemp(prefix="soak-bench-"))
    folder.chmod(0o755)
    testbed = LocalServers(folder)
    try:
        yield await testbed.start(["ledger", *kinds])
    finally:
        await testbed.stop()
        shutil.rmtree(folder)


async def publish_run(folder: Path, urls: dict[str, str], store: str) -> None:
    """Begin a run of its own: what another one has written must not be read, nor its ledger grow."""
    servers = {kind: url for kind, url in urls.items() if kind != "ledger"}
    run = "bench" + secrets.token_hex(4)
    context = StoreContext(servers=servers, namespace=run)
    header = RunHeader(
        version=FORMAT_VERSION,
        run=run,
        seed=SEED,
        namespace=run,
        stores=[store],
        contracts={store: registry.find(store).contract_for(context)},
        started_wall_seconds=time.time(),
    )
    await create_run(urls["ledger"], header)
    info = join.JoinInfo(
        header=header,
        ledger_url=urls["ledger"],
        servers=servers,
        timeout_seconds=5.0,
        connections_max=CONNECTIONS,
        ttl_seconds=None,
        http_address="",
    )
    join.publish(folder, info.announced_by(os.getpid()))


async def locust(role: str, urls: dict[str, str], store: str = "redis-list", *options: str) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="soak-bench-") as name:
        folder = Path(name)
        await publish_run(folder, urls, store)
        command = [sys.executable, "-m", "locust", "-f", __file__, "--headless", "-u", str(USERS), "-r", str(USERS)]
        command += ["--only-summary", "--loglevel", "ERROR"]
        if role != "plain":
            command += ["--data-dir", name, "--think-time", "0s", *options]
        environment = os.environ | {
            "BENCH_ROLE": role,
            "BENCH_RESULT": str(folder / "result.json"),
            "BENCH_REDIS": urls.get("redis", ""),
            "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        }
        process = await asyncio.create_subprocess_exec(
            *command, env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        output, _ = await process.communicate()
        if not (folder / "result.json").exists():
            raise SystemExit(output.decode())
        result: dict[str, float] = json.loads((folder / "result.json").read_text())
        if result["failures"]:
            print(output.decode())
    result["microseconds"] = result["cpu"] / result["appends"] * 1e6
    result["rate"] = result["appends"] / result["seconds"]
    return result


async def bare_asyncpg(url: str, way: str) -> dict[str, float]:
    """Measure inserts of the same bytes by tasks on one uvloop, through asyncpg's pool or a connection each."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.benchmarks.bench_load", "--asyncpg", way, url, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    return _measured(output)


def insert_with_asyncpg(way: str, url: str) -> None:
    import asyncpg  # noqa: PLC0415  only in the process that is measured
    import uvloop  # noqa: PLC0415  only in the process that is measured

    raws = messages()
    done = 0

    async def insert_for_ever(connection: Any, session: str) -> None:
        nonlocal done
        while True:
            await connection.execute(
                "INSERT INTO bare (session, message) VALUES ($1, $2)", session, raws[done % SAME_BYTES]
            )
            done += 1

    async def run() -> None:
        pool = await asyncpg.create_pool(url, min_size=CONNECTIONS, max_size=CONNECTIONS)
        await pool.execute(
            "CREATE TABLE IF NOT EXISTS bare "
            "(position bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, session text NOT NULL, message bytea NOT NULL)"
        )
        connections = [pool] * CONNECTIONS if way == "pool" else [await pool.acquire() for _ in range(CONNECTIONS)]
        tasks = [asyncio.create_task(insert_for_ever(each, f"s{n}")) for n, each in enumerate(connections)]
        await asyncio.sleep(1.0)
        count, cpu, clock = done, time.process_time(), time.perf_counter()
        await asyncio.sleep(MEASURED_SECONDS)
        result = {
            "appends": done - count,
            "cpu": time.process_time() - cpu,
            "seconds": time.perf_counter() - clock,
        }
        for one in tasks:
            one.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        pool.terminate()
        print(json.dumps(result))

    uvloop.run(run())


async def generator(urls: dict[str, str]) -> dict[str, float]:
    """Measure what soak sends with: generated messages, its Redis connections, its ledger; no Locust, nothing read."""
    with tempfile.TemporaryDirectory(prefix="soak-bench-") as name:
        await publish_run(Path(name), urls, "redis-list")
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.benchmarks.bench_load", "--generator", urls["ledger"], urls["redis"]),
            stdout=asyncio.subprocess.PIPE,
        )
        output, _ = await process.communicate()
    return _measured(output)


def generate(ledger_url: str, redis_url: str) -> None:
    import uvloop  # noqa: PLC0415  only in the process that is measured

    from soak.ledger.writer import LedgerWriter  # noqa: PLC0415  only in the process that is measured

    done = 0

    async def speak_for_ever(ledger: LedgerWriter, store: MemoryStore, author: MessageGenerator, name: str) -> None:
        nonlocal done
        number, seq = await ledger.open_session(name, "redis-list", 1), 0
        while True:
            if seq % ledger.lease_messages == 0:
                await ledger.lease(number, 0, seq + ledger.lease_messages)
            if ledger.stalled:
                await ledger.ready()
            seq += 1
            sent = now_us()
            await store.append(name, author.write(name, 0, seq))
            ledger.attempted(number, 0, seq, Outcome.OK, sent, now_us())
            done += 1

    async def run() -> None:
        ledger = await LedgerWriter.connect(ledger_url, LedgerSettings())
        header = ledger.header
        context = StoreContext(
            servers={"redis": redis_url}, namespace=header.namespace, connections_max=CONNECTIONS, timeout_seconds=5.0
        )
        store = await registry.open_store("redis-list", context)
        author = MessageGenerator(header.run, header.seed)
        tasks = [
            asyncio.create_task(speak_for_ever(ledger, store, author, f"bench-{number}-chat"))
            for number in range(USERS)
        ]
        await asyncio.sleep(WARM_UP_SECONDS)
        count, cpu, clock = done, time.process_time(), time.perf_counter()
        await asyncio.sleep(MEASURED_SECONDS)
        result = {"appends": done - count, "cpu": time.process_time() - cpu, "seconds": time.perf_counter() - clock}
        failed = [one.exception() for one in tasks if one.done()]
        for one in tasks:
            one.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await store.close()
        await ledger.close()
        if failed:
            raise SystemExit(f"it stopped sending: {failed[0]!r}")
        print(json.dumps(result))

    uvloop.run(run())


def _measured(output: bytes) -> dict[str, float]:
    result: dict[str, float] = json.loads(output)
    result["microseconds"] = result["cpu"] / result["appends"] * 1e6
    result["rate"] = result["appends"] / result["seconds"]
    return result


async def redis_benchmark(url: str) -> dict[str, float] | None:
    """Measure Redis' own generator with as many connections and as many bytes; None where it is not installed."""
    program = shutil.which("redis-benchmark") or shutil.which("valkey-benchmark")
    if program is None:
        return None
    address, size = urlsplit(url), statistics.mean(map(len, messages()))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        *(program, "-h", str(address.hostname), "-p", str(address.port), "-c", str(USERS), "-n", str(PUSHES), "-q"),
        *(("-a", address.password) if address.password else ()),
        *("RPUSH", "redis-benchmark", "x" * round(size)),
        stdout=asyncio.subprocess.DEVNULL,
    )
    if await process.wait():
        raise SystemExit(f"{program} failed; see what it printed")
    seconds, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"appends": PUSHES, "cpu": cpu, "microseconds": cpu / PUSHES * 1e6, "rate": PUSHES / seconds}


def row(name: str, result: dict[str, float], ratio: str = "") -> None:
    print(f"{name:<52} {result['microseconds']:8.1f} {result['rate']:9.0f}  {ratio}")


async def main() -> None:
    async with running_servers("redis", "postgres") as urls:
        # In turns: on a busy machine one round differs from the next by more than what is to be measured.
        rounds = [
            [await locust(what, urls) for what in ("plain", "soak", "soak-without-ledger")] for _ in range(ROUNDS)
        ]
        plain, whole, unrecorded = (_median([one[which] for one in rounds]) for which in range(3))
        shares = [1 - recorded["rate"] / without["rate"] for _, recorded, without in rounds]
        pooled = await bare_asyncpg(urls["postgres"], "pool")
        bare = await bare_asyncpg(urls["postgres"], "connections")
        postgres = await locust("soak", urls, "postgres")
        generated = await generator(urls)
        pushed = await redis_benchmark(urls["redis"])
    print(machine())
    print(f"{'load':<52} {'cpu µs':>8} {'append/s':>9}  ratio")
    row("plain Locust user, redis-py RPUSH, same bytes", plain)
    row("soak redis-list, whole path", whole, _ratio(whole, plain, "0.5"))
    row("soak redis-list, whole path, without ledger", unrecorded)
    row("bare asyncpg INSERT on one loop, its pool", pooled)
    row("bare asyncpg INSERT on one loop, a connection each", bare)
    row("soak postgres, whole path, to the pool", postgres, _ratio(postgres, pooled, "1.3"))
    row("soak postgres, whole path, to a connection each", postgres, _ratio(postgres, bare, "1.3"))
    row("soak's generator, connections and ledger, no Locust", generated)
    if pushed is not None:
        row("redis-benchmark RPUSH, as many bytes", pushed)
        share = pushed["microseconds"] / generated["microseconds"]
        print(f"{'soak without Locust, appends per core second to it':<52} {share:8.1%} {'':>9}  target at least 25%")
        share = pushed["microseconds"] / whole["microseconds"]
        print(f"{'soak redis-list, whole path, the same':<52} {share:8.1%}")
    of_cpu = 1 - unrecorded["microseconds"] / whole["microseconds"]
    print(f"{'ledger: share of CPU, of the medians':<52} {of_cpu:8.1%}")
    print(f"{'ledger: share of throughput, median of the rounds':<52} {statistics.median(shares):8.1%}", end=" ")
    print(f"{'':>9}  target at most 10%; rounds: {', '.join(f'{share:.1%}' for share in shares)}")
    cores = [one["cpu"] / one["seconds"] for _, *both in rounds for one in both]
    if min(cores) < CORE_SHARE_MIN:
        print(f"not measured: the load had only {min(cores):.2f} to {max(cores):.2f} of a core; use an idle machine")


def _median(results: list[dict[str, float]]) -> dict[str, float]:
    return {key: statistics.median(result[key] for result in results) for key in results[0]}


def _ratio(one: dict[str, float], other: dict[str, float], target: str) -> str:
    return f"{one['microseconds'] / other['microseconds']:.2f}x (target at most {target}x)"


if __name__ == "__main__":
    if "--generator" in sys.argv:
        generate(*sys.argv[-2:])
    elif "--asyncpg" in sys.argv:
        insert_with_asyncpg(*sys.argv[-2:])
    else:
        asyncio.run(main())
