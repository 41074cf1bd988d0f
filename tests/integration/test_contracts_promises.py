"""Before a soak begins: promises held against real servers, refused, allowed, or kept from an earlier beginning."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from soak.configuration import read
from soak.daemon.contracts import SettledContracts, settle_promises
from soak.daemon.plan import make_plan
from soak.errors import UsageError
from soak.ledger.records import FORMAT_VERSION, RunHeader
from soak.servers.ports import free_port
from soak.settings import SoakSettings
from soak.stores.protocol import StoreContext
from tests.support.servers.reconfigured import reconfigurable


@pytest.fixture
async def client(redis_url: str) -> AsyncIterator[Any]:
    async with reconfigurable(redis_url) as client:
        yield client


def settings_of(*assignments: str) -> SoakSettings:
    return read(environ={}, config=Path("/dev/null"), assignments=["stores.names=redis-list", *assignments]).settings


async def promised(url: str, *assignments: str, begun: RunHeader | None = None) -> SettledContracts:
    settings = settings_of(*assignments, f"servers.redis={url}")
    context = StoreContext(servers={"redis": url}, namespace="t")
    return await settle_promises(settings, make_plan(settings, settings.stores.names).specs, context, begun)


def begun_with(promises: SettledContracts) -> RunHeader:
    return RunHeader(
        version=FORMAT_VERSION,
        run="r1",
        seed=1,
        namespace="t",
        stores=["redis-list"],
        contracts={one.store: one.contract for one in promises.settled},
        started_wall_seconds=0.0,
        configurations=promises.configurations,
    )


async def test_what_the_server_gives_is_said_and_is_what_the_store_is_held_to(redis_url: str, client: Any) -> None:
    promises = await promised(redis_url)
    assert promises.configurations["redis"]["appendfsync"] == "everysec"
    assert promises.lines == [
        "redis: AOF everysec: at most 2s lost after a crash or a power cut; never evicts",
        "redis-list is held to: crash: at most 2s lost; power cut: at most 2s lost (derived from redis)",
    ]
    await client.config_set("appendfsync", "always")
    assert (await promised(redis_url)).settled[0].contract.crash_loss_seconds == 0.0


async def test_a_stronger_promise_is_refused_unless_that_is_allowed(redis_url: str) -> None:
    strict = "contract.redis-list.preset=redis-always"
    with pytest.raises(UsageError, match="redis-list promises nothing lost after a crash") as told:
        await promised(redis_url, strict)
    assert len(str(told.value).splitlines()) == 2
    promises = await promised(redis_url, strict, "contract_mismatch=allow")
    assert promises.settled[0].contract.crash_loss_seconds == 0.0
    assert sum("warning: redis-list promises" in line for line in promises.lines) == 2


async def test_a_server_below_the_floor_is_refused_unless_a_weaker_promise_is_declared_or_it_is_held_to_the_floor(
    redis_url: str, client: Any
) -> None:
    await client.config_set("appendonly", "no")
    await client.config_set("save", "")
    with pytest.raises(UsageError, match="redis as configured, after a crash or a power cut: anything may be lost"):
        await promised(redis_url)
    declared = await promised(redis_url, "contract.redis-list.preset=cache")
    assert declared.settled[0].contract.crash_loss_seconds is None
    held = await promised(redis_url, "contract_mismatch=allow")
    assert held.settled[0].contract.crash_loss_seconds == 2.0
    assert any("warning: redis-list promises at most 2s lost after a crash" in line for line in held.lines)
    higher = await promised(redis_url, "contract_mismatch=allow", "contract.floor=500ms")
    assert higher.settled[0].contract.crash_loss_seconds == 0.5


async def test_a_run_that_is_resumed_keeps_the_contract_it_began_with(redis_url: str, client: Any) -> None:
    header = begun_with(await promised(redis_url))
    await client.config_set("appendonly", "no")
    resumed = await promised(redis_url, begun=header)
    assert {one.store: one.contract for one in resumed.settled} == header.contracts
    assert resumed.configurations == header.configurations
    assert any("warning: redis-list promises at most 2s lost after a crash" in line for line in resumed.lines)


async def test_a_server_that_does_not_tell_is_taken_on_trust_and_that_is_said(redis_url: str, client: Any) -> None:
    await client.execute_command("ACL", "SETUSER", "visitor", "on", ">visitor", "~*", "+@all", "-config", "-info")
    visitor = redis_url.replace("redis://:", "redis://visitor:").replace(str(urlsplit(redis_url).password), "visitor")
    try:
        promises = await promised(visitor, "contract.redis-list.preset=redis-always")
    finally:
        await client.execute_command("ACL", "DELUSER", "visitor")
    assert promises.settled[0].contract.crash_loss_seconds == 0.0
    assert "redis does not report its configuration; the contract of redis-list is taken on trust" in promises.lines[-1]


async def test_a_server_that_is_away_is_left_for_the_store_to_complain_of() -> None:
    promises = await promised(f"redis://127.0.0.1:{free_port()}/0")
    assert promises.configurations == {}
    assert promises.settled[0].origin == "the store's own"
