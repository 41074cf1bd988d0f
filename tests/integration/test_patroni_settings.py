"""What is asked of Patroni's REST API, and what is made of an answer that is not Patroni's."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from soak.servers.patroni_settings import patroni_settings, rest_addresses, settings_in
from soak.servers.ports import HOST, free_port

CONFIG = {"ttl": 30, "loop_wait": 10, "maximum_lag_on_failover": 4096, "synchronous_mode": True, "postgresql": {}}
READ = {"maximum_lag_on_failover": "4096", "synchronous_mode": "true", "synchronous_mode_strict": "false"}


@contextlib.asynccontextmanager
async def answering(answer: web.StreamResponse) -> AsyncIterator[str]:
    """Answer one question for /config at the address that is given."""

    async def config(_: web.Request) -> web.StreamResponse:
        return answer

    application = web.Application()
    application.router.add_get("/config", config)
    runner = web.AppRunner(application)
    await runner.setup()
    port = free_port()
    try:
        await web.TCPSite(runner, HOST, port).start()
        yield f"http://{HOST}:{port}"
    finally:
        await runner.cleanup()


async def asked(*addresses: str) -> dict[str, str]:
    return await asyncio.wait_for(patroni_settings(addresses, timeout_seconds=5.0), 20.0)


async def test_the_first_patroni_that_answers_is_believed_and_one_that_is_away_costs_nothing() -> None:
    async with answering(web.json_response(CONFIG)) as address:
        assert await asked(f"http://{HOST}:{free_port()}", address) == READ
    assert await asked(address) == await asked() == {}


@pytest.mark.parametrize(
    "answer",
    [
        lambda: web.json_response({"some": "service"}),
        lambda: web.json_response(["ttl"]),
        lambda: web.Response(text="<html>"),
        lambda: web.Response(body=b"\xff\x00"),
        lambda: web.json_response(CONFIG, status=503),
        lambda: web.Response(text='{"ttl": "' + "x" * 300_000 + '"}'),
        lambda: web.Response(status=302, headers={"Location": "/config"}),
    ],
    ids=["another service", "a list", "a page", "bytes", "an error", "too much", "a detour"],
)
async def test_what_is_not_patronis_answer_says_nothing(answer: object) -> None:
    assert callable(answer)
    async with answering(answer()) as address:
        assert await asked(address) == {}


def test_settings_are_read_as_patroni_reads_them() -> None:
    assert settings_in(CONFIG) == READ
    assert settings_in({"ttl": 30}) == {**READ, "maximum_lag_on_failover": "1048576", "synchronous_mode": "false"}
    odd = {"synchronous_mode": "quorum", "synchronous_mode_strict": "on", "maximum_lag_on_failover": "much"}
    assert list(settings_in(odd).values()) == ["1048576", "quorum", "true"]


def test_a_patroni_is_looked_for_at_every_host_at_its_own_port() -> None:
    url = "postgresql://me:sesame@a:5433,[::1]/memory?target_session_attrs=read-write"
    assert rest_addresses(url) == ["http://a:8008", "http://[::1]:8008"]
