"""A chat service's memory behind soak's HTTP contract: what a team writes once, in any language.

python examples/http_memory.py --redis redis://127.0.0.1:6379 --port 8000
soak conformance --url http://127.0.0.1:8000
soak check --store http --url http://127.0.0.1:8000 --duration 60s
"""

import argparse
import json
import os
import uuid
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

REDIS = web.AppKey("redis", Redis)
TOKEN = os.environ.get("MEMORY_TOKEN")
PREFIX = "memory:"
PAGE = 1_000
STARTED = uuid.uuid4().hex  # changes with each start, so that a restart can be seen from outside


@web.middleware
async def check_token(request: web.Request, handler: Handler) -> web.StreamResponse:
    if TOKEN and request.headers.get("Authorization") != f"Bearer {TOKEN}":
        return web.json_response({"error": "the token is missing or wrong", "applied": False}, status=401)
    return await handler(request)


async def fields(request: web.Request, *wanted: str) -> list[Any]:
    """Read fields of the request body; refuse a wrong one before anything changes. A name with ? is optional."""
    try:
        body = json.loads(await request.read())
        return [body.get(name[:-1]) if name.endswith("?") else body[name] for name in wanted]
    except (ValueError, KeyError, TypeError) as error:
        refusal = json.dumps({"error": f"the body is wrong: {error!r}", "applied": False})
        raise web.HTTPBadRequest(text=refusal, content_type="application/json") from error


async def health(_request: web.Request) -> web.Response:
    return web.json_response({"contract": "soak-memory/1", "features": ["clean-up"], "started": STARTED})


async def append(request: web.Request) -> web.Response:
    session, message = await fields(request, "session", "message")
    await request.app[REDIS].rpush(PREFIX + session, json.dumps(message))
    return web.json_response({"id": message["id"]}, status=201)


async def history(request: web.Request) -> web.Response:
    session, last = await fields(request, "session", "last?")
    rows = await request.app[REDIS].lrange(PREFIX + session, -last if last else 0, -1)
    return web.json_response({"messages": [json.loads(row) for row in rows]})


async def forget(request: web.Request) -> web.Response:
    (session,) = await fields(request, "session")
    await request.app[REDIS].unlink(PREFIX + session)
    return web.json_response({"forgotten": True})


async def clean_up(request: web.Request) -> web.Response:
    (namespace,) = await fields(request, "namespace")
    redis, removed = request.app[REDIS], 0
    async for key in redis.scan_iter(count=PAGE):
        if key.startswith((PREFIX + namespace).encode()):
            removed += await redis.unlink(key)
    return web.json_response({"removed": removed})


def application(redis_url: str) -> web.Application:
    app = web.Application(middlewares=[check_token], client_max_size=2**24)
    app[REDIS] = Redis.from_url(redis_url, socket_timeout=5, retry=Retry(NoBackoff(), 0))
    app.add_routes([
        web.get("/v1/health", health),
        web.post("/v1/append", append),
        web.post("/v1/history", history),
        web.post("/v1/forget", forget),
        web.post("/v1/clean-up", clean_up),
    ])  # fmt: skip
    return app


if __name__ == "__main__":
    options = argparse.ArgumentParser(description="A chat memory behind HTTP.")
    options.add_argument("--redis", default="redis://127.0.0.1:6379")
    options.add_argument("--port", type=int, default=8000)
    chosen = options.parse_args()
    web.run_app(application(chosen.redis), host="127.0.0.1", port=chosen.port, print=None)
