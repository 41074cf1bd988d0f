"""What the proxy before a server costs, against the same server without it: `python -m tests.benchmarks.bench_proxy`.

The servers and their proxies live in a process of their own, as they do in a soak; rounds of both ways alternate.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import statistics
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import uvloop

from soak.checker.text import MessageGenerator
from soak.servers.local import LocalServers
from soak.stores.protocol import StoreContext
from soak.stores.registry import open_store

TASKS = 50
ROUNDS = 7
APPENDS = {"redis-list": 8_000, "postgres": 2_000}
SERVERS = {"redis-list": "redis", "postgres": "postgres"}
AUTHOR = MessageGenerator("bench", 1)


async def serve(pipe: Connection, folder: str) -> None:
    servers = LocalServers(Path(folder), proxied=True)
    urls = await servers.start(["redis", "postgres"])
    try:
        pipe.send({kind: (urls[kind], servers.nodes[kind].port) for kind in ("redis", "postgres")})
        await asyncio.to_thread(pipe.recv)
    finally:
        await servers.stop()


def serving(pipe: Connection, folder: str) -> None:
    asyncio.run(serve(pipe, folder))


async def appends_per_second(store: str, url: str, count: int, number: int) -> float:
    context = StoreContext(servers={SERVERS[store]: url}, namespace="bench", connections_max=16)
    memory = await open_store(store, context)
    left = count

    async def talk(task: int) -> None:
        nonlocal left
        session, seq = f"s{number}-{task}-short", 0
        while left > 0:
            left -= 1
            seq += 1
            await memory.append(session, AUTHOR.write(session, 0, seq))

    began = time.perf_counter()
    await asyncio.gather(*(talk(task) for task in range(TASKS)))
    seconds = time.perf_counter() - began
    await memory.close()
    return count / seconds


async def compare(store: str, proxied: str, port: int, server: psutil.Process) -> None:
    direct = proxied.replace(f":{urlsplit(proxied).port}", f":{port}")
    rates: dict[str, list[float]] = {"direct": [], "proxied": []}
    cpu_us: list[float] = []
    count = APPENDS[store]
    for number in range(ROUNDS):
        rates["direct"].append(await appends_per_second(store, direct, count, 2 * number))
        before = sum(server.cpu_times()[:2])
        rates["proxied"].append(await appends_per_second(store, proxied, count, 2 * number + 1))
        cpu_us.append((sum(server.cpu_times()[:2]) - before) / count * 1e6)
    ratios = [through / past for through, past in zip(rates["proxied"], rates["direct"], strict=True)]
    print(
        f"{store:12} direct {statistics.median(rates['direct']):8,.0f}/s  "
        f"proxied {statistics.median(rates['proxied']):8,.0f}/s  ratio {statistics.median(ratios):.2f}  "
        f"the proxy's CPU {statistics.median(cpu_us):.0f} us per append"
    )


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="soak-bench-") as folder:
        Path(folder).chmod(0o755)  # so that a PostgreSQL that runs as another user gets in
        ours, theirs = multiprocessing.Pipe()
        process = multiprocessing.get_context("spawn").Process(target=serving, args=(theirs, folder))
        process.start()
        try:
            server = psutil.Process(process.pid)
            for kind, (url, port) in ours.recv().items():
                store = next(name for name, needed in SERVERS.items() if needed == kind)
                uvloop.run(compare(store, url, port, server))
        finally:
            ours.send("stop")
            process.join()


if __name__ == "__main__":
    main()
