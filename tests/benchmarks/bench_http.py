"""What an append over HTTP costs: the http store on an event loop against Locust's own fast client."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import time
from typing import Any

import uvloop

from tests.support.benchmark_report import Row, print_rows

APPENDS = 6_000
AT_ONCE = 16


def serve(pipe: Any) -> None:
    from tests.support.http_services import Service, serving  # noqa: PLC0415

    async def main() -> None:
        async with serving(Service()) as url:
            pipe.send(url)
            await asyncio.sleep(3600)

    uvloop.run(main())


def with_store(url: str, pipe: Any) -> None:
    from soak.checker.text import MessageGenerator  # noqa: PLC0415
    from soak.stores.protocol import StoreContext  # noqa: PLC0415
    from soak.stores.registry import open_store  # noqa: PLC0415

    async def main() -> None:
        author = MessageGenerator("bench", 1)
        store = await open_store("http", StoreContext(servers={"http": url}, namespace="bench"))

        async def talk(writer: int) -> None:
            for seq in range(1, APPENDS // AT_ONCE + 1):
                await store.append(f"s{writer}", author.write(f"s{writer}", writer, seq))

        began = time.process_time()
        await asyncio.gather(*map(talk, range(AT_ONCE)))
        pipe.send((time.process_time() - began) / APPENDS * 1e6)
        await store.close()

    uvloop.run(main())


def with_locust(url: str, pipe: Any) -> None:
    from gevent import monkey  # noqa: PLC0415

    monkey.patch_all()
    import gevent  # noqa: PLC0415
    from locust.contrib.fasthttp import FastHttpSession  # noqa: PLC0415
    from locust.env import Environment  # noqa: PLC0415

    session = FastHttpSession(url, Environment().events.request, None, concurrency=AT_ONCE)

    def talk(writer: int) -> None:
        for seq in range(APPENDS // AT_ONCE):
            name = f"bench/s{writer}/{writer}/{seq}/00000000"
            message = {"id": name, "role": "user", "content": "remember that my name is Ada, please" * 2}
            body = json.dumps({"session": f"s{writer}", "message": message})
            with session.post("/v1/append", data=body, headers={"Content-Type": "application/json"}) as answer:
                answer.json()

    began = time.process_time()
    gevent.joinall([gevent.spawn(talk, writer) for writer in range(AT_ONCE)])
    pipe.send((time.process_time() - began) / APPENDS * 1e6)


def measured(spawn: Any, client: Any, url: str) -> float:
    ours, theirs = spawn.Pipe()
    process = spawn.Process(target=client, args=(url, theirs))
    process.start()
    taken: float = ours.recv()
    process.join()
    return taken


def main() -> None:
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    server = spawn.Process(target=serve, args=(theirs,), daemon=True)
    server.start()
    url = ours.recv()
    rounds = [(measured(spawn, with_store, url), measured(spawn, with_locust, url)) for _ in range(3)]
    server.terminate()
    store, locust = (min(column) for column in zip(*rounds, strict=True))
    row = Row("http store, µs of CPU per acknowledged append", store, locust, "Locust's FastHttpSession, same body", "")
    print_rows("Appends over HTTP", [row])


if __name__ == "__main__":
    main()
