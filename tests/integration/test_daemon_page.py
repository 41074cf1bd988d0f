"""The status page over HTTP: bounded in what it gives, strict in what it takes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from soak.api import permission
from soak.api.http import is_literal
from soak.api.permission import TOKEN_HEADER, Permission
from soak.daemon import audience
from soak.page.assets import read_assets
from soak.report.outcome import RunOutcome
from tests.support.daemon_page import SECONDS_MAX, TOKEN, Served, a_snapshot

OUTCOME = RunOutcome(
    run="r1",
    verdict="pass",
    exit_code=0,
    reasons=[],
    data_dir="/data",
    finished=True,
    child_restarts={},
    server_restarts={},
    notes=[],
    result=None,
)


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    made = Served(tmp_path)
    await made.http.start()
    await made.page.show(a_snapshot())
    yield made
    made.page.end(OUTCOME)
    await made.client.close()
    await made.http.close()


@contextlib.asynccontextmanager
async def watching(served: Served) -> AsyncIterator[aiohttp.ClientResponse]:
    async with served.client.get(served.http.address + "/events") as answer:
        assert answer.status == 200
        yield answer


async def next_event(answer: aiohttp.ClientResponse) -> tuple[str, dict[str, Any]]:
    name = ""
    async for line in answer.content:
        if line.startswith(b"event: "):
            name = line[7:].strip().decode()
        elif line.startswith(b"data: "):
            return name, json.loads(line[6:])
    raise AssertionError("it ended without an event")


async def stall(served: Served) -> socket.socket:
    """Connect somebody who asks for events and then takes nothing."""
    host, port = served.http.address.removeprefix("http://").split(":")
    stalled = socket.socket()
    stalled.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    stalled.connect((host, int(port)))
    stalled.send(f"GET /events HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
    await served.until_watched_by(1)
    return stalled


# What it gives ----------------------------------------------------------------------------------------------


async def test_whoever_connects_hears_the_state_at_once_and_then_each_new_one(served: Served) -> None:
    async with watching(served) as answer:
        name, state = await next_event(answer)
        assert (name, state["soak"]["run"], state["standing"]["word"]) == ("state", "r1", "unsaid")
        await served.page.show(a_snapshot(phase="draining"))
        assert (await next_event(answer))[1]["soak"]["phase"] == "draining"


async def test_at_the_end_everybody_hears_the_verdict_with_the_last_state_and_so_does_whoever_comes_later(
    served: Served,
) -> None:
    await served.page.show(a_snapshot({"totals": {"verified": 7, "acknowledged": 8}}))
    async with watching(served) as answer:
        await next_event(answer)
        await served.page.show(a_snapshot(phase="draining"))  # the verifier has given its verdict and ended
        name, state = await next_event(answer)
        assert (name, state["soak"]["verifier"]["totals"]["verified"], state["verifier_silent"]) == ("state", 7, True)
        served.page.end(OUTCOME)
        name, told = await next_event(answer)
        assert (name, told["end"]["verdict"], told["end"]["exit_code"]) == ("end", "pass", 0)
        assert (told["soak"]["phase"], told["soak"]["verifier"]["totals"]["verified"]) == ("done", 7)
        assert {one["state"] for one in (*told["soak"]["servers"], *told["soak"]["children"])} == {"ended"}
        assert await answer.content.read() == b"\n"
    async with watching(served) as answer:
        assert (await next_event(answer))[1]["end"]["verdict"] == "pass"


async def test_one_who_takes_nothing_slows_nobody_costs_one_state_and_is_let_go(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audience, "STALLED_SECONDS_MAX", 1.0)
    stalled = await stall(served)
    try:
        async with watching(served) as answer:
            large = a_snapshot(warnings=["x" * 200_000])
            for number in range(60):
                async with asyncio.timeout(5.0):  # generous: it waits for nobody
                    await served.page.show(large)
                    await served.page.show(a_snapshot(run=f"r{number}"))
            async with asyncio.timeout(SECONDS_MAX):
                while (await next_event(answer))[1]["soak"]["run"] != "r59":
                    pass
            await served.until_watched_by(1)
    finally:
        stalled.close()


async def test_a_watcher_that_is_busy_has_room_for_the_newest_only() -> None:
    watcher = audience.Watcher()
    for number in range(1000):
        watcher.give(b"%d" % number)
    assert await watcher.take() == (b"999", False)
    watcher.give(b"newest")
    watcher.give(b"end", is_last=True)
    assert await watcher.take() == (b"newestend", True)


async def test_there_is_room_for_so_many_and_no_more(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audience, "WATCHERS_MAX", 1)
    async with watching(served):
        status, text, _ = await served.get("/events")
        assert (status, "too many pages are open" in text) == (503, True)
    await served.until_watched_by(0)
    async with watching(served) as answer:
        assert (await next_event(answer))[0] == "state"


async def test_another_site_may_not_take_a_place(served: Served) -> None:
    assert (await served.get("/events", Sec_Fetch_Site="cross-site"))[0] == 403


async def test_the_page_and_all_it_asks_for_are_its_own_and_nothing_else_may_run(served: Served) -> None:
    status, page, headers = await served.get("/")
    policy = headers["Content-Security-Policy"]
    assert status == 200
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    asked = set(re.findall(r'(?:src|href)="(/page/[^"]+)"', page))
    for name, asset in read_assets().items():
        asked |= {found.decode() for found in re.findall(rb'from "(/page/[^"]+)"', asset.body)}
        assert b"innerHTML" not in asset.body
        assert b"insertAdjacentHTML" not in asset.body
        answered = await served.get(f"/page/{name}")
        assert (answered[0], answered[2]["X-Content-Type-Options"]) == (200, "nosniff")
        assert (await served.get(f"/page/{name}", If_None_Match=asset.tag))[0] == 304
    assert asked
    assert {(await served.get(path))[0] for path in asked} == {200}
    assert re.findall(r'style="|<script>|onclick=|https?://', page) == []
    assert (await served.get("/page/..%2fassets.py"))[0] == 404


async def test_a_violation_that_is_not_on_record_and_a_filter_that_is_none_are_one_line(served: Served) -> None:
    served.page._folder.prepare()
    status, text, _ = await served.get("/violations/0123456789ab")
    assert (status, "no violation 0123456789ab is on record" in text) == (404, True)
    assert (await served.get("/violations/0123456789ab/evidence"))[0] == 404
    status, text, _ = await served.get("/violations?kind=lost&store=&state=open")
    assert (status, json.loads(text)["violations"]) == (200, [])


# What it takes ----------------------------------------------------------------------------------------------


async def test_it_stops_for_whoever_has_the_token_and_for_nobody_else(served: Served) -> None:
    for headers, status in (
        ({}, 401),
        ({TOKEN_HEADER: TOKEN[:-1]}, 401),
        ({TOKEN_HEADER: TOKEN, "Origin": "https://example.org"}, 403),
        ({TOKEN_HEADER: TOKEN, "Sec-Fetch-Site": "cross-site"}, 403),
        ({TOKEN_HEADER: TOKEN, "Host": "rebound.example.org"}, 403),
        ({TOKEN_HEADER: TOKEN, "Content-Type": "text/plain"}, 415),
    ):
        assert (await served.post("/stop", {}, **headers))[0] == status
    assert served.stops == []
    assert await served.post("/stop", {}, **{TOKEN_HEADER: TOKEN}) == (200, {"stopping": True})
    assert served.stops == ["the page"]


async def test_a_code_is_good_once_and_only_for_the_page_itself(served: Served) -> None:
    assert (await served.post("/codes", {}))[0] == 401
    status, told = await served.post("/codes", {}, **{TOKEN_HEADER: TOKEN})
    assert status == 200
    assert (await served.post("/session", told, Origin="https://example.org"))[0] == 403
    assert await served.post("/session", told) == (200, {"token": TOKEN})
    assert (await served.post("/session", told))[0] == 401
    assert (await served.post("/session", {"code": ""}))[0] == 401
    assert (await served.post("/session", ["code"]))[0] == 400


def test_codes_get_old_and_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    permitted = Permission(TOKEN)
    codes = [permitted.new_code() for _ in range(permission.CODES_MAX + 1)]
    assert permitted.token_for(codes[0]) is None
    assert permitted.token_for(codes[-1]) == TOKEN
    monkeypatch.setattr(permission, "CODE_SECONDS_MAX", 0.0)
    assert permitted.token_for(permitted.new_code()) is None


async def test_a_page_is_told_whether_it_may_act(served: Served) -> None:
    async def session(**headers: str) -> object:
        return json.loads((await served.get("/session", **headers))[1])

    assert await session() == {"permitted": False, "local": True}
    assert await session(**{TOKEN_HEADER: TOKEN}) == {"permitted": True, "local": True}
    assert await session(**{TOKEN_HEADER: TOKEN, "Sec-Fetch-Site": "cross-site"}) == {
        "permitted": False,
        "local": False,
    }


@pytest.mark.parametrize("path", ["/", "/status", "/metrics", "/events", "/violations", "/healthz"])
async def test_under_a_name_that_anybody_could_point_here_nothing_is_answered(served: Served, path: str) -> None:
    assert (await served.get(path, Host="rebound.example.org"))[0] == 403
    assert (await served.get("/healthz", Host="localhost:9464"))[0] == 200


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        *(
            (host, True)
            for host in ("127.0.0.1", "127.0.0.1:9464", "localhost:1", "[::1]:9464", "LOCALHOST", "10.0.0.5:1")
        ),
        *((host, False) for host in ("example.org", "localhost.example.org:9464", "", "[evil]", "127.0.0.1.nip.io")),
    ],
)
def test_an_address_cannot_be_pointed_elsewhere_and_a_name_can(host: str, expected: bool) -> None:
    assert is_literal(host) is expected
