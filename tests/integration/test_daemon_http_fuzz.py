"""The daemon's interface under nonsense: it answers everybody else meanwhile, and nobody stays for ever."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import random
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from soak import log
from soak.daemon import connections
from soak.daemon.by_hand import FaultsPage
from soak.daemon.http import HttpServer
from soak.masking import mask
from soak.settings import HttpSettings, LogSettings
from tests.support.daemon_page import TOKEN, Served, a_snapshot

pytestmark = pytest.mark.long

REQUESTS = 400
AT_ONCE = 64
ANSWER_SECONDS_MAX = 10.0
SEED = int(os.environ.get("SOAK_FUZZ_SEED", "0")) or random.SystemRandom().randrange(10**6)

METHODS = ["GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "G\x00T", "get", "", "A" * 9000]
PATHS = [
    *("/", "/status", "/healthz", "/readyz", "/metrics", "/events", "/series", "/session", "/codes", "/stop"),
    *("/faults", "/violations", "/violations?kind=%ff&limit=x", "/violations/abcd", "/violations/abcd/evidence"),
    *("/page/app.js", "/page/../../etc/passwd", "*", "http://127.0.0.1/", "//", "/%00", "/%ff", "/\xff"),
    *("/" + "a" * 9000, "", "?", "/a b"),
]
HEADERS = [
    *("Host: 127.0.0.1", "Host: evil.example", "Host:", "Host: [::1", "Host: \xff", "Content-Type: application/json"),
    *("Content-Type: \xff", "Content-Length: -1", "Content-Length: 99999999999", "Content-Length: x"),
    *("Content-Length: 5", "Transfer-Encoding: chunked", "Transfer-Encoding: x", "Expect: 100-continue"),
    *("Upgrade: websocket", "Connection: Upgrade", "Connection: close", "Accept: \xff", "Origin: \xff"),
    *("Origin: http://127.0.0.1", "X-Soak-Token: \xff\xfe", f"X-Soak-Token: {TOKEN}", "X" * 9000 + ": y"),
    *("X: " + "y" * 9000, ": x", "X", "If-None-Match: \xff", "Range: bytes=9-1", "Cookie: " + "a=b;" * 500),
    "X-Prometheus-Scrape-Timeout-Seconds: \xff",
]
BODIES = [
    *(b"", b"\xff", b"{", b'{"code":"\xff"}', b'{"code":1}', b"[" * 50_000, b"5\r\nhello\r\n0\r\n\r\n", b"zz\r\n"),
    b"\x00" * 2_000_000,
]
POST = b"HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"


def nonsense(source: random.Random) -> bytes:
    lines = [f"{source.choice(METHODS)} {source.choice(PATHS)} HTTP/{source.choice(['1.1', '1.0', '2', 'x'])}"]
    lines += source.choices(HEADERS, k=source.randrange(8))
    if source.random() < 0.7:
        lines.insert(1, "Host: 127.0.0.1")
    head = "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"
    whole = bytearray(head + source.choice(BODIES))
    for _ in range(source.choice([0, 0, 0, 1, 5])):
        whole[source.randrange(len(whole))] = source.randrange(256)
    return bytes(whole)


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    log.configure(LogSettings(), file=tmp_path / "daemon.log", to_stderr=False)
    served = Served(tmp_path)
    faults = FaultsPage(served.permission)
    served.http = HttpServer(HttpSettings(port=0), served.http._source, [*faults.routes(), *served.page.routes()])
    await served.http.start()
    await served.page.show(a_snapshot())
    try:
        yield served
    finally:
        await served.client.close()
        await served.http.close()
        for handler in list(logging.getLogger().handlers):
            logging.getLogger().removeHandler(handler)
            handler.close()


async def ask(address: str, request: bytes, *, patience_seconds: float = 1.0) -> bytes:
    """Send this, and return the first of what comes back."""
    parts = urlsplit(address)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    try:
        with contextlib.suppress(OSError):
            writer.write(request)
            async with asyncio.timeout(patience_seconds):
                await writer.drain()
                return await reader.read(4096)
    except TimeoutError:
        pass
    finally:
        writer.transport.abort()
    return b""


async def is_well(served: Served) -> None:
    async with asyncio.timeout(ANSWER_SECONDS_MAX):
        for path in ("/healthz", "/status", "/metrics"):
            status, _, _ = await served.get(path)
            assert status == 200


async def test_nonsense_is_answered_with_a_refusal_and_holds_up_nobody(served: Served) -> None:
    print(f"SOAK_FUZZ_SEED={SEED}")
    source = random.Random(SEED)
    requests = [nonsense(source) for _ in range(REQUESTS)]
    at_once = asyncio.Semaphore(AT_ONCE)
    wrong: list[tuple[bytes, bytes]] = []

    async def one(request: bytes) -> None:
        async with at_once:
            answer = await ask(served.http.address, request)
        if answer.split(b" ")[1:2] == [b"500"]:
            wrong.append((request[:300], answer[:300]))

    async def watch() -> None:
        while True:
            await is_well(served)
            await asyncio.sleep(0.2)

    watching = asyncio.create_task(watch())
    await asyncio.gather(*map(one, requests))
    assert not watching.done() or watching.exception() is None
    watching.cancel()
    assert not wrong
    assert served.stops in ([], ["the page"] * len(served.stops))
    await is_well(served)


@pytest.mark.parametrize("path", ["/session", "/faults"])
async def test_a_body_that_is_no_text_is_refused_with_a_line(served: Served, path: str) -> None:
    headers = {"Content-Type": "application/json", "X-Soak-Token": TOKEN}
    for body in (b"\xff\xfe", b'{"code":"\xff"}', b"[" * 100_000, b""):
        async with served.client.post(served.http.address + path, data=body, headers=headers) as answer:
            assert answer.status == 400
            assert "\n" not in json.loads(await answer.read())["error"]


async def test_a_token_that_is_no_text_is_refused(served: Served) -> None:
    request = (
        b"POST /stop HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nX-Soak-Token: \xff\xfe\r\n\r\n"
    )
    assert (await ask(served.http.address, request)).startswith(b"HTTP/1.1 401")


async def test_long_lines_that_are_logged_do_not_hold_up_the_others(served: Served) -> None:
    requests = [b"GET /" + b"a" * 8_000 + b"\x00 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"] * AT_ONCE
    await asyncio.gather(*(ask(served.http.address, one) for one in requests), is_well(served))
    await is_well(served)


async def test_sockets_that_say_nothing_or_half_of_it_are_closed(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "IDLE_SECONDS_MAX", 0.5)
    monkeypatch.setattr(connections, "LOOK_SECONDS", 0.1)
    monkeypatch.setattr(connections, "BODY_SECONDS_MAX", 0.5)
    slow_body = (
        b"POST /session HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{"
    )
    parts = urlsplit(served.http.address)
    for said in (b"", b"GET /status HT", b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nGET /hea", slow_body):
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        writer.write(said)
        async with asyncio.timeout(ANSWER_SECONDS_MAX):
            while await reader.read(4096):
                pass
        writer.transport.abort()
    await is_well(served)


async def test_many_sockets_leave_room_for_those_who_ask(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "CONNECTIONS_MAX", 20)
    parts = urlsplit(served.http.address)
    with contextlib.ExitStack() as stack:
        for _ in range(100):
            stack.enter_context(socket.create_connection((parts.hostname, parts.port)))
            await asyncio.sleep(0)
        await is_well(served)
        server = served.http._runner.server
        assert server is not None
        async with asyncio.timeout(ANSWER_SECONDS_MAX):
            while len(server.connections) > 20:
                await asyncio.sleep(0.05)
        await is_well(served)


def test_masking_takes_time_in_proportion_to_the_text() -> None:
    """Twenty times the text must not take four hundred times as long; in steps, not in seconds, it would be endless."""
    for part in ("a", "a+", "a://x:", "http://a", "?token=a"):
        assert mask(part * 100_000 + "@") is not None
    assert mask("redis://u:pa:ss@w@h:1/0 and x?token=abc&y") == "redis://u:***@h:1/0 and x?token=***&y"
