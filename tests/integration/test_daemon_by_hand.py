"""Faults over HTTP: for whoever has the token, on this machine, and for nobody's web page."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from soak.api.permission import TOKEN_HEADER, Permission
from soak.daemon.fault_routes import PATH, FaultRoutes
from soak.daemon.http import HttpServer
from soak.errors import ServerUnreachableError
from soak.faults.fault import Fault
from soak.faults.window import Injected
from soak.settings import HttpSettings
from tests.support.daemon_page import Source, a_snapshot

TOKEN = "0123456789abcdef"  # noqa: S105  of this test only
ORDER = {"fault": "crash", "target": "redis", "hold_seconds": 0.0}


class Hand:
    """Carries out nothing, and remembers what was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, float]] = []
        self.fails = False
        self.parameters: dict[str, str] = {}

    async def by_hand(self, fault: Fault, target: str, hold_seconds: float) -> Injected:
        if self.fails:
            raise ServerUnreachableError("it does not come back")
        self.asked.append((fault.name, target, hold_seconds))
        self.parameters = fault.values
        return Injected(fault="f", name=fault.name, target=target, parameters=fault.values, started=1, ended=2)


@contextlib.asynccontextmanager
async def page() -> AsyncIterator[tuple[HttpServer, FaultRoutes, Hand]]:
    hand = Hand()
    faults = FaultRoutes(Permission(TOKEN))
    faults.hand = hand
    faults.possible = {"redis": {"crash": None, "connection_refused": "there is no proxy"}}
    server = HttpServer(HttpSettings(port=0), Source(a_snapshot(), None), faults.routes())
    await server.start()
    try:
        yield server, faults, hand
    finally:
        await server.close()


async def post(server: HttpServer, body: object = ORDER, **headers: str) -> tuple[int, dict[str, Any]]:
    given = {TOKEN_HEADER: TOKEN, **{name.replace("_", "-"): value for name, value in headers.items()}}
    async with (
        aiohttp.ClientSession() as client,
        client.post(server.address + PATH, json=body, headers=given) as answer,
    ):
        return answer.status, await answer.json()


async def test_whoever_has_the_token_is_served() -> None:
    async with page() as (server, _, hand):
        assert (await post(server))[0] == 200
        assert (await post(server, Origin=server.address))[0] == 200
        assert hand.asked == [("crash", "redis", 0.0)] * 2


async def test_parameters_are_read_with_their_units_and_listed_with_their_ranges() -> None:
    async with page() as (server, _, hand):
        order = {**ORDER, "fault": "latency", "parameters": {"delay": "500ms", "jitter": 0.1}}
        status, told = await post(server, order)
        assert (status, told["parameters"]) == (200, hand.parameters)
        assert hand.parameters == {"delay": "500ms", "jitter": "100ms", "direction": "both"}
        async with aiohttp.ClientSession() as client, client.get(server.address + PATH) as answer:
            (latency,) = [one for one in await answer.json() if one["fault"] == "latency"]
        delay, _, direction = latency["parameters"]
        assert (delay["unit"], delay["default"], delay["least"], delay["most"]) == ("time", "200ms", "0ms", "1m")
        assert direction["choices"] == ["both", "to_server", "to_client"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"X_Soak_Token": ""}, 401),
        ({"X_Soak_Token": TOKEN[:-1]}, 401),
        ({"X_Soak_Token": "ä" * 16}, 401),
        ({"Origin": "https://example.org"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://127.0.0.1:1"}, 403),
        ({"Sec_Fetch_Site": "cross-site"}, 403),
        ({"Sec_Fetch_Site": "same-site"}, 403),
        ({"Host": "rebound.example.org"}, 403),
        ({"Content_Type": "text/plain"}, 415),
    ],
)
async def test_nobody_else_is(headers: dict[str, str], status: int) -> None:
    async with page() as (server, _, hand):
        answered, told = await post(server, **headers)
        assert answered == status
        assert told["exit_code"] == 2
        assert hand.asked == []


@pytest.mark.parametrize(
    ("body", "status", "complaint"),
    [
        ({**ORDER, "fault": "nonsense"}, 409, "there is no fault 'nonsense'"),
        ({**ORDER, "fault": "connection_refused"}, 409, "connection_refused cannot be injected: there is no proxy"),
        ({**ORDER, "fault": "outage"}, 409, "connection_refused cannot be injected: there is no proxy"),
        ({**ORDER, "target": "reddis"}, 409, "this soak has no server 'reddis'; did you mean redis?"),
        ({**ORDER, "parameters": {"delay": 1}}, 409, "crash has no parameter 'delay'; it has none"),
        ({**ORDER, "fault": "latency", "parameters": {"delay": "2h"}}, 409, "it may be from 0ms to 1m"),
        ({**ORDER, "hold_seconds": -1}, 409, "is held for 0 to 3600 seconds"),
        ({**ORDER, "hold_seconds": 1e9}, 409, "is held for 0 to 3600 seconds"),
        ({**ORDER, "more": 1}, 400, "invalid request"),
        ({"fault": "crash"}, 400, "invalid request"),
        ([1], 400, "invalid request"),
    ],
)
async def test_what_cannot_be_done_is_refused_with_a_reason(body: object, status: int, complaint: str) -> None:
    async with page() as (server, _, hand):
        answered, told = await post(server, body)
        assert answered == status
        assert complaint in told["error"]
        assert hand.asked == []


async def test_nothing_is_broken_before_the_soak_runs_or_where_it_is_switched_off() -> None:
    async with page() as (server, faults, _):
        faults.hand = None
        assert await post(server) == (409, {"error": "the soak is not running yet", "exit_code": 2})


async def test_a_fault_that_fails_is_inconclusive() -> None:
    async with page() as (server, _, hand):
        hand.fails = True
        assert await post(server) == (500, {"error": "it does not come back", "exit_code": 4})


async def test_requests_from_another_machine_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async with page() as (server, _, hand):
        monkeypatch.setattr(web.BaseRequest, "remote", property(lambda _: "192.0.2.7"))
        assert (await post(server))[0] == 403
        assert hand.asked == []


async def test_everybody_may_see_what_is_possible() -> None:
    async with page() as (server, _, _), aiohttp.ClientSession() as client, client.get(server.address + PATH) as answer:
        faults = {one["fault"]: one for one in await answer.json()}
    assert faults["crash"]["targets"] == {"redis": None}
    assert faults["connection_refused"]["targets"] == {"redis": "there is no proxy"}
    assert faults["replica_lag"]["targets"] == {}
