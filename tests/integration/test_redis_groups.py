"""Redis with Sentinel, and Redis Cluster: each starts, fails over, and is judged by what it can promise."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import re
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest
from redis.crc import key_slot

from soak.checker.contract import Reads
from soak.clock import now_us
from soak.contracts.guarantees import EvictionScope
from soak.daemon import contracts
from soak.daemon.contracts import ask_servers, given_by
from soak.errors import ServerUnreachableError, UsageError
from soak.faults import ALL, during, heal_leftovers
from soak.faults.catalogue import fault_named
from soak.faults.fault import FaultUnavailableError, GroupFault
from soak.servers import node_group
from soak.servers.kinds import RedisTopology
from soak.servers.links import Link
from soak.servers.ports import HOST
from soak.servers.redis import RedisServer
from soak.servers.redis_cluster import NODE_TIMEOUT_MS, ClusterGroup, ClusterNode
from soak.servers.sentinel import SentinelGroup
from soak.stores import registry
from soak.stores.protocol import RedisUse, StoreContext
from soak.stores.redis_client import RedisError
from soak.stores.redis_waiting import NotConfirmedError
from soak.stores.speaking import Speaker
from soak.tasks import end_tasks, until
from soak.verifier import drift
from tests.integration.test_faults_unhealed import Doomed, kill_in_the_middle
from tests.support.servers.breaking import journalled, running, started
from tests.support.servers.breaking import until as until_so
from tests.support.servers.drifting import WatchedGroup, promised
from tests.support.servers.talk import Talk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from soak.faults.link_cut import LinkCut
    from soak.servers.local import LocalServers
    from soak.servers.redis_group import Node, RedisGroup
    from soak.servers.server import LifecycleEvent, Server
    from soak.stores.protocol import MemoryStore
    from soak.stores.redis_stores import RedisStore

pytestmark = pytest.mark.long

SENTINEL = {"redis_topology": RedisTopology.SENTINEL}
CLUSTER = {"redis_topology": RedisTopology.CLUSTER}
STORES = ["redis-list", "redis-stream", "redis-zset", "redis-hash"]


def context_of(servers: LocalServers, **options: object) -> StoreContext:
    return StoreContext(namespace="t", servers={"redis": servers.nodes["redis"].url}, **options)  # type: ignore[arg-type]


def group_of(servers: LocalServers) -> SentinelGroup:
    return cast("SentinelGroup", servers.nodes["redis"])


async def session_on_first_primary(group: RedisGroup) -> str:
    """Return the name of a session that the primary has which faults happen to."""
    if not isinstance(group, ClusterGroup):
        return "talk"
    first = (await group.primaries())[0]
    slots = {*await cast("ClusterNode", first).slots()}
    names = (f"talk-{number}" for number in itertools.count())
    return next(name for name in names if key_slot(f"t:list:{name}".encode()) in slots)


@pytest.mark.parametrize("topology", [SENTINEL, CLUSTER], ids=["sentinel", "cluster"])
async def test_stores_work_on_a_group_and_contracts_follow_from_its_weakest_node(
    tmp_path: Path, topology: dict[str, RedisTopology]
) -> None:
    async with running(tmp_path, "redis", **topology) as servers:
        group = cast("RedisGroup", servers.nodes["redis"])
        for name in STORES:
            for is_verifier in (False, True):
                await use(await registry.open_store(name, context_of(servers, is_verifier=is_verifier)))
        given = given_by(await ask_servers({"redis": group.url}))["redis"]
        assert given.failover is not None
        assert (given.crash.seconds, given.failover.seconds) == (2.0, 2.0)
        # Any node may become the primary: what one of them does not keep, the group does not promise.
        await group.servers[-1].change_settings({"appendfsync": "no"})
        await group.servers[1].change_settings({"maxmemory": "1gb", "maxmemory-policy": "allkeys-lru"})

        async def is_as_its_nodes() -> bool:
            given = given_by(await ask_servers({"redis": group.url}))["redis"]
            return (given.crash.seconds, given.power.seconds, given.eviction) == (2.0, None, EvictionScope.ANY)

        # The nodes of a cluster hear of each other by and by.
        assert await until(is_as_its_nodes, 10.0, 0.2)


@pytest.mark.parametrize("topology", [SENTINEL, CLUSTER], ids=["sentinel", "cluster"])
async def test_a_node_that_is_silent_is_named_and_is_not_taken_for_one_that_keeps_all(
    tmp_path: Path, topology: dict[str, RedisTopology], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contracts, "ASK_SECONDS_MAX", 3.0)  # the silent one is waited for as long
    async with running(tmp_path, "redis", **topology) as servers:
        group = cast("RedisGroup", servers.nodes["redis"])
        heard = await promised("redis", group.url, "redis-list")
        assert not any("does not answer" in line for line in heard.lines)
        assert len(heard.nodes["redis"]) == len(group.servers)
        primaries = await group.primaries()
        silent = next(node for node in group.servers if node not in primaries)
        async with paused(silent):
            told = await promised("redis", group.url, "redis-list")
        place = f"{HOST}:{silent.seat.front}"
        assert told.nodes["redis"] == {**heard.nodes["redis"], place: {}}
        expected = (
            f"warning: redis at {place} does not answer: what it keeps, should it become the primary, is not known"
        )
        assert expected in told.lines
        assert told.lines[-1].startswith("warning: not every node of redis reports its configuration")
        assert told.settled[0].is_unchecked


@contextlib.asynccontextmanager
async def paused(node: Server) -> AsyncIterator[None]:
    await node.pause()
    try:
        yield
    finally:
        await node.resume()


@pytest.mark.parametrize(
    ("topology", "failover"),
    [(SENTINEL, "coordinated_failover"), (CLUSTER, "cluster_failover")],
    ids=["sentinel", "cluster"],
)
async def test_a_failover_is_no_drift_and_a_change_at_any_node_is(
    tmp_path: Path, topology: dict[str, RedisTopology], failover: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path, "redis", **topology) as servers:
        group = cast("RedisGroup", servers.nodes["redis"])
        last = group.servers[-1]
        await last.change_settings({"save": "900 1"})
        watched = WatchedGroup("redis", group.url, await promised("redis", group.url, "redis-list"))
        assert await watched.look() == []
        before = await group.primaries()
        await ALL[failover].inject(servers, "redis")
        await ALL[failover].heal(servers, "redis")
        assert await group.primaries() != before
        assert await watched.look() == []
        await last.change_settings({"appendonly": "no"})
        monkeypatch.setattr(drift, "NODES_SECONDS", 0.2)
        watching = asyncio.create_task(watched.watch.run())

        async def is_told() -> bool:
            return watched.events != []

        try:
            assert await until(is_told, 30.0, 0.1)
        finally:
            await end_tasks([watching])
        (told,) = watched.events
        assert (
            f"redis at {HOST}:{last.seat.front}: appendonly was changed to no while the soak runs, it was yes" in told
        )
        assert "redis-list promises" in told


async def use(store: MemoryStore) -> None:
    """Write, read, forget, and remove all that is left, in sessions that lie on several nodes."""
    speaker = Speaker("run")
    sessions = [speaker.session(f"session-{number}") for number in range(6)]
    for session in sessions:
        for message in speaker.turns(session, 3):
            await store.append(session, message)
        assert len(await store.history(session)) == 3
    await store.forget(sessions[0])
    assert await store.history(sessions[0]) == []
    await cast("RedisStore", store).clean_up()
    assert [await store.history(session) for session in sessions] == [[]] * 6
    await store.close()


@pytest.mark.parametrize(
    ("topology", "name", "parameters", "loses"),
    [
        (SENTINEL, "primary_crash", {}, None),
        (SENTINEL, "coordinated_failover", {}, False),
        (SENTINEL, "sentinel_failover", {}, True),
        (SENTINEL, "partial_partition", {}, True),
        (SENTINEL, "primary_partition", {"cut": "reset", "clients": "minority"}, True),
        (SENTINEL, "machine_crash", {"latency": "200ms"}, True),
        (SENTINEL, "rolling_restart", {}, False),
        (CLUSTER, "primary_crash", {}, None),
        (CLUSTER, "cluster_failover", {}, False),
        (CLUSTER, "cluster_takeover", {}, None),
        (CLUSTER, "cluster_failover_force", {"latency": "400ms"}, True),
        (CLUSTER, "machine_crash", {"latency": "200ms"}, True),
        (CLUSTER, "primary_partition", {}, None),
        (CLUSTER, "rolling_restart", {}, False),
    ],
)
async def test_a_failover_takes_what_it_is_known_to_take(
    tmp_path: Path, topology: dict[str, RedisTopology], name: str, parameters: dict[str, str], loses: bool | None
) -> None:
    fault = fault_named(name, parameters)
    async with running(tmp_path, "redis", **topology) as servers:
        group = cast("RedisGroup", servers.nodes["redis"])
        before = {node.name for node in await group.primaries()}
        store = await registry.open_store("redis-list", context_of(servers, timeout_seconds=1.0))
        talk = Talk(store, await session_on_first_primary(group))
        old = await talk.until_old()
        assert fault.unavailable(servers, "redis") is None
        await fault.inject(servers, "redis")
        after = {node.name for node in await group.primaries()}
        assert after != before
        await fault.heal(servers, "redis")
        await talk.until_acknowledged(50)
        lost = await talk.lost()
        if loses is not None:
            assert bool(lost) is loses
        assert all(seq > old for seq in lost), "nothing that the replicas had long before"
        told = await group.telemetry()
        assert {*told["primary"].split(", ")} == {node.name for node in await group.primaries()}
        replaced = {*told["replaced"].split(", ")}
        assert replaced == before if name == "rolling_restart" else len(replaced & before) == 1
        assert all(
            re.fullmatch(r"(primary|replica), offset \d+(, epoch \d+)?", told[one.name]) for one in group.servers
        )
        await store.close()


async def is_another(group: RedisGroup, before: Node) -> bool:
    found = await group.primaries()
    return before not in found and len(found) == group.shards


@pytest.mark.parametrize(
    ("topology", "parameters", "is_replaced"),
    [
        (SENTINEL, {"between": "primary+replica"}, False),
        (CLUSTER, {"between": "redis-1+others", "ports": "bus"}, True),
    ],
    ids=["replication", "bus"],
)
async def test_one_link_is_cut_and_no_other(
    tmp_path: Path, topology: dict[str, RedisTopology], parameters: dict[str, str], is_replaced: bool
) -> None:
    fault = fault_named("link_cut", parameters)
    async with running(tmp_path, "redis", **topology) as servers:
        group = cast("RedisGroup", servers.nodes["redis"])
        before = (await group.primaries())[0]
        assert before.name == "redis-1"
        store = await registry.open_store("redis-list", context_of(servers, timeout_seconds=1.0))
        talk = Talk(store, await session_on_first_primary(group))
        await talk.until_acknowledged(20)
        await fault.inject(servers, "redis")
        if is_replaced:
            # As in a run: nobody but the group itself waits for it.
            assert await until(lambda: is_another(group, before), 60.0, 0.1)
        else:
            await talk.until_acknowledged(30)
            replica = next(node for node in group.servers if node is not before)
            key = f"t:list:{talk.session}"
            assert await replica.ask("LLEN", key) < await before.ask("LLEN", key) - 20
            assert await group.primaries() == [before]
        await fault.heal(servers, "redis")
        told = await group.telemetry()
        assert told.get("replaced") == ("redis-1" if is_replaced else None)
        await talk.until_acknowledged(20)
        lost = await talk.lost()
        assert not lost or is_replaced
        await store.close()


@pytest.mark.parametrize(
    ("topology", "parameters"),
    [(SENTINEL, {"between": "redis-1+primary"}), (CLUSTER, {"between": "clients+redis-1", "ports": "bus"})],
    ids=["one node", "bus of clients"],
)
async def test_a_link_that_is_none_now_is_refused_and_nothing_is_recorded(
    tmp_path: Path, ledger_url: str, topology: dict[str, RedisTopology], parameters: dict[str, str]
) -> None:
    fault = cast("LinkCut", fault_named("link_cut", parameters))
    async with running(tmp_path, "redis", **topology) as servers, journalled(ledger_url) as run:
        words = f"no link between {' and '.join(fault.between)} now; the primary is redis-1"
        with pytest.raises(FaultUnavailableError, match=words):
            await during(fault, servers, "redis", run.journal, 0.0)
        assert await run.phases() == []


def test_a_link_between_what_is_not_there_is_refused_in_one_line() -> None:
    for wrong in ("primary", "primary+primary", "a+b+c", ""):
        with pytest.raises(UsageError, match=r"it is two words, like primary\+replica"):
            fault_named("link_cut", {"between": wrong})


OFF = {"appendonly": "no", "save": ""}


@pytest.mark.parametrize("topology", [SENTINEL, CLUSTER], ids=["sentinel", "cluster"])
@pytest.mark.parametrize("options", [OFF, {}], ids=["without-persistence", "with"])
async def test_a_primary_that_is_back_at_once_wipes_its_replicas_where_it_keeps_nothing(
    tmp_path: Path, topology: dict[str, RedisTopology], options: dict[str, str]
) -> None:
    async with running(tmp_path, "redis", redis_options=options, **topology) as servers:
        group = cast("RedisGroup", servers.nodes["redis"])
        before = await group.primaries()
        store = await registry.open_store("redis-list", context_of(servers, timeout_seconds=1.0))
        talk = Talk(store, await session_on_first_primary(group))
        await talk.until_acknowledged(50)
        await ALL["primary_restart"].inject(servers, "redis")
        await ALL["primary_restart"].heal(servers, "redis")
        await talk.until_acknowledged(20)
        assert await group.primaries() == before, "nobody was promoted"
        lost = await talk.lost()
        assert (len(lost) >= 50, lost[:1]) == ((True, [1]) if options else (False, []))
        await store.close()


@pytest.mark.parametrize("how", ["keys", "atomic"])
async def test_slots_move_under_load_and_nothing_is_lost(tmp_path: Path, how: str) -> None:
    fault = fault_named("slot_migration", {"how": how, "slots": 8})
    async with running(tmp_path, "redis", **CLUSTER) as servers:
        group = cast("ClusterGroup", servers.nodes["redis"])
        before = [await node.slots() for node in group.servers]
        store = await registry.open_store("redis-list", context_of(servers, timeout_seconds=1.0))
        talks = [Talk(store, f"talk-{number}") for number in range(12)]
        await asyncio.gather(*(talk.until_acknowledged(20) for talk in talks))
        await fault.inject(servers, "redis")
        await fault.heal(servers, "redis")
        await asyncio.gather(*(talk.until_acknowledged(20) for talk in talks))
        assert [await talk.lost() for talk in talks] == [[]] * len(talks)
        after = [await node.slots() for node in group.servers]
        assert sum(len({*one} - {*other}) for one, other in zip(after, before, strict=True)) == 8
        assert {slot for one in after for slot in one} == set(range(16_384))
        await store.close()


async def test_a_slot_that_was_left_half_way_arrives_when_it_is_healed(tmp_path: Path) -> None:
    async with running(tmp_path, "redis", **CLUSTER) as servers:
        group = cast("ClusterGroup", servers.nodes["redis"])
        store = await registry.open_store("redis-list", context_of(servers))
        speaker = Speaker("run")
        for message in speaker.turns("kept", 5):
            await store.append("kept", message)
        slot = key_slot(b"t:list:kept")
        (source,) = [node for node in group.servers if slot in await node.slots()]
        primaries = await group.primaries()
        target = next(node for node in group.servers if node in primaries and node is not source)
        # As if killed before the first key, and, of another slot, after the first of the two commands.
        await target.ask("CLUSTER", "SETSLOT", str(slot), "IMPORTING", await source.id())
        await source.ask("CLUSTER", "SETSLOT", str(slot), "MIGRATING", await target.id())
        other = next(one for one in await source.slots() if one != slot)
        await target.ask("CLUSTER", "SETSLOT", str(other), "IMPORTING", await source.id())
        await ALL["slot_migration"].heal(servers, "redis")
        assert {slot, other} <= {*await target.slots()}
        assert [await node.open_slots() for node in group.servers] == [[]] * len(group.servers)
        assert len(await store.history("kept")) == 5
        await store.close()


async def test_slow_replicas_are_behind_and_a_sentinel_that_is_away_comes_back(tmp_path: Path) -> None:
    slow, away = fault_named("slow_replication", {"latency": "1s"}), fault_named("sentinel_away", {"count": 2})
    async with running(tmp_path, "redis", **SENTINEL) as servers:
        group = group_of(servers)
        store = await registry.open_store("redis-list", context_of(servers))
        talk = Talk(store)
        await slow.inject(servers, "redis")
        await talk.until_acknowledged(30)
        (primary,) = await group.primaries()
        replica = next(node for node in group.servers if node is not primary)
        assert await replica.ask("LLEN", f"t:list:{talk.session}") < await primary.ask("LLEN", f"t:list:{talk.session}")
        await slow.heal(servers, "redis")
        await away.inject(servers, "redis")
        assert [sentinel.pid is None for sentinel in group.sentinels] == [True, True, False]
        fresh = await registry.open_store("redis-list", context_of(servers))  # it asks the one that is left
        await fresh.close()
        await away.heal(servers, "redis")
        assert await talk.lost() == []
        await store.close()


@pytest.mark.parametrize("topology", [SENTINEL, CLUSTER], ids=["sentinel", "cluster"])
async def test_a_group_is_upgraded_node_by_node(tmp_path: Path, topology: dict[str, RedisTopology]) -> None:
    upgrade = ALL["rolling_upgrade"]
    async with running(tmp_path, "redis", redis_version="6.2", **topology) as servers:
        group = cast("RedisGroup", servers.nodes["redis"])
        store = await registry.open_store("redis-list", context_of(servers, timeout_seconds=1.0))
        talk = Talk(store)
        versions = []
        while upgrade.unavailable(servers, "redis") is None:
            await talk.until_acknowledged(20)
            await upgrade.inject(servers, "redis")
            await upgrade.heal(servers, "redis")
            await talk.until_acknowledged(20)
            versions.append({str((await node.information("server"))["redis_version"]) for node in group.nodes})
        assert all(len(version) == 1 for version in versions), "all nodes are the same"
        assert group.version.name == "valkey-9"
        if isinstance(group, ClusterGroup):
            assert await talk.lost() == []
        kept = len(talk.acknowledged)
        await store.close()
    async with running(tmp_path, "redis", redis_version="6.2", **topology) as servers:
        assert cast("RedisGroup", servers.nodes["redis"]).version.name == "valkey-9"
        store = await registry.open_store("redis-list", context_of(servers))
        assert kept >= len(await store.history(talk.session)) > 0
        await store.close()


@pytest.mark.parametrize(
    "topology", [pytest.param(SENTINEL, marks=pytest.mark.extra), CLUSTER], ids=["sentinel", "cluster"]
)
async def test_a_primary_that_falls_silent_by_itself_is_replaced_and_that_is_told_since_it_last_answered(
    tmp_path: Path, topology: dict[str, RedisTopology]
) -> None:
    events: list[LifecycleEvent] = []
    async with started(tmp_path, "redis", on_event=events.append, **topology) as servers:
        group = cast("RedisGroup", servers.nodes["redis"])
        old = (await group.primaries())[0]
        assert old.pid is not None
        silent_us = now_us()
        os.kill(old.pid, signal.SIGSTOP)
        await until_so(lambda: bool(events))
        os.kill(old.pid, signal.SIGCONT)
        await until_so(lambda: len(events) > 1)
        told = [(event.kind, event.what, event.replaces) for event in events]
        assert told == [("redis", "died", True), ("redis", "restarted", True)]
        assert events[0].at_us <= silent_us < events[1].at_us
        assert old not in await group.primaries()


@pytest.mark.extra
async def test_a_failover_past_the_sentinels_refuses_writes_until_they_promote_one_themselves(tmp_path: Path) -> None:
    async with running(tmp_path, "redis", **SENTINEL) as servers:
        group = group_of(servers)
        (before,) = await group.primaries()
        store = await registry.open_store("redis-list", context_of(servers, timeout_seconds=1.0))
        talk = Talk(store)
        await talk.until_acknowledged(20)
        await ALL["failover_command"].inject(servers, "redis")
        assert not await before.is_primary()
        assert await group.primaries() == [before], "the sentinels do not know"
        await ALL["failover_command"].heal(servers, "redis")
        await talk.until_acknowledged(20)
        assert await (await group.primaries())[0].is_primary()
        assert (await group.telemetry())["replaced"] == before.name
        await talk.lost()
        await store.close()


AGREE = "soak.servers.redis_group.RedisGroup.until_agreed"
KILLED = [
    Doomed("slot_migration", "redis", CLUSTER, stop_at="soak.servers.slot_migration._finish"),
    Doomed("rolling_upgrade", "redis", {**SENTINEL, "redis_version": "6.2"}, stop_at=AGREE),
]
IN_THE_MIDDLE = {"rolling_restart": AGREE, "rolling_upgrade": AGREE}
OLDER = {"redis_version": "6.2"}


def doomed_groups() -> Iterator[Doomed]:
    """Return every fault of every group that is not killed above."""
    for topology, group in ((SENTINEL, SentinelGroup), (CLUSTER, ClusterGroup)):
        for name, fault in ALL.items():
            if isinstance(fault, GroupFault) and group in fault.groups:
                options = {**topology, **(OLDER if name == "rolling_upgrade" else {})}
                doomed = Doomed(name, "redis", options, IN_THE_MIDDLE.get(name, ""))
                if doomed not in KILLED:
                    yield doomed


@pytest.mark.parametrize(
    "doomed",
    [*KILLED, *(pytest.param(one, marks=pytest.mark.extra) for one in doomed_groups())],
    ids=lambda one: f"{one.name}-{one.options['redis_topology']}{'-midway' if one.stop_at else ''}",
)
async def test_the_next_start_heals_a_group_whose_owner_was_killed_in_the_middle(
    tmp_path: Path, doomed: Doomed
) -> None:
    speaker = Speaker("run")
    async with running(tmp_path, "redis", **doomed.options) as servers:
        store = await registry.open_store("redis-list", context_of(servers))
        for number in range(9):
            await store.append(f"kept-{number}", *speaker.turns(f"kept-{number}", 1))
        await store.close()
    await asyncio.to_thread(kill_in_the_middle, tmp_path, doomed)
    async with running(tmp_path, "redis", **doomed.options) as servers:
        assert [note.fault for note in await heal_leftovers(servers)] == [doomed.name]
        group = cast("RedisGroup", servers.nodes["redis"])
        await group.until_agreed()
        store = await registry.open_store("redis-list", context_of(servers))
        for number in range(9):
            await store.append(f"kept-{number}", *speaker.turns(f"kept-{number}", 1, first=2))
            assert len(await store.history(f"kept-{number}")) == 2
        assert {node.version for node in group._processes} == {group.version}
        if isinstance(group, ClusterGroup):
            assert [await node.open_slots() for node in group.servers] == [[]] * len(group.servers)
        await store.close()


async def test_a_group_whose_port_is_taken_before_it_starts_takes_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0)
    port = taken.sockets[0].getsockname()[1]
    ports = itertools.chain([port], iter(node_group._low_port, None))
    monkeypatch.setattr(node_group, "_low_port", lambda: next(ports))
    async with running(tmp_path, "redis", **SENTINEL) as servers:
        group = group_of(servers)
        assert port not in group.pinned.nodes.values()
        assert len(await group.primaries()) == 1
    taken.close()


async def test_a_group_that_is_slow_to_say_how_it_is_configured_starts_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = RedisServer.read_configuration
    refused: list[str] = []

    async def slowly(server: RedisServer) -> dict[str, str]:
        if server.is_group and not refused:
            refused.append(server.name)
            raise ServerUnreachableError("redis does not report its configuration (TimeoutError)")
        return await read(server)

    monkeypatch.setattr(RedisServer, "read_configuration", slowly)
    async with running(tmp_path, "redis", **SENTINEL) as servers:
        assert refused == ["redis"]
        assert servers.nodes["redis"].configuration["appendonly"] == "yes"


async def test_two_groups_side_by_side_do_not_meet(tmp_path: Path) -> None:
    async with (
        running(tmp_path / "one", "redis", **SENTINEL) as one,
        running(tmp_path / "other", "redis", **SENTINEL) as other,
    ):
        stores = [await registry.open_store("redis-list", context_of(servers)) for servers in (one, other)]
        speaker = Speaker("run")
        await stores[0].append("talk", *speaker.turns("talk", 1))
        await ALL["coordinated_failover"].inject(one, "redis")
        await ALL["coordinated_failover"].heal(one, "redis")
        assert [len(await store.history("talk")) for store in stores] == [1, 0]
        assert [node.name for node in await group_of(other).primaries()] == ["redis-1"]
        hosts = [{seat.host for seat in group_of(servers).seats.values()} for servers in (one, other)]
        assert hosts[0].isdisjoint(hosts[1])
        for store in stores:
            await store.close()


@pytest.mark.parametrize("topology", [SENTINEL, CLUSTER], ids=["sentinel", "cluster"])
async def test_replicas_are_read_where_that_is_set_and_are_behind_while_they_are_slow(
    tmp_path: Path, topology: dict[str, RedisTopology]
) -> None:
    slow = fault_named("slow_replication", {"latency": "2s"})
    async with running(tmp_path, "redis", **topology) as servers:
        use = RedisUse(reads_replicas=True)
        for name in STORES:
            context = context_of(servers, redis=use)
            assert registry.find(name).contract_for(context).reads is Reads.BOUNDED_STALENESS
            store = await registry.open_store(name, context)
            speaker = Speaker("run")
            await store.append("talk", *speaker.turns("talk", 1))
            async with asyncio.timeout(30):
                while len(await store.history("talk")) < 1:
                    await asyncio.sleep(0.02)
            await store.close()
        store = await registry.open_store("redis-list", context_of(servers, redis=use))
        await slow.inject(servers, "redis")
        last = await shown_behind(store, speaker)
        assert len(await store.primary_history("talk")) == last  # type: ignore[attr-defined]
        await slow.heal(servers, "redis")
        await store.close()


async def shown_behind(store: MemoryStore, speaker: Speaker) -> int:
    """Append until a read does not show what was just appended; return how many there are."""
    shown = last = 1
    async with asyncio.timeout(30):  # nodes of a Cluster name a replica only seconds after it has come
        while shown == last:
            last += 1
            await store.append("talk", *speaker.turns("talk", 1, first=last))
            shown = len(await store.history("talk"))
            await asyncio.sleep(0.02)  # redis-py may lose the cancellation of the time limit, a sleep does not
    return last


async def test_a_client_leaves_a_silent_primary_of_a_cluster_once_another_has_taken_its_place(tmp_path: Path) -> None:
    async with started(tmp_path, "redis", **CLUSTER) as servers:
        group = group_of(servers)
        session = await session_on_first_primary(group)
        store = await registry.open_store("redis-list", context_of(servers, timeout_seconds=1.0))
        speaker = Speaker("run")
        await store.append(session, *speaker.turns(session, 1))
        silent = (await group.primaries())[0]
        async with paused(silent):
            await group.until_replaced(silent)
            written = False
            async with asyncio.timeout(15):
                while not written:
                    with contextlib.suppress(RedisError):
                        await store.append(session, *speaker.turns(session, 1, first=2))
                        written = True
            assert len(await store.history(session)) >= 2
        await store.close()


async def test_a_replica_that_was_away_when_a_client_of_a_cluster_came_is_read_once_it_is_back(tmp_path: Path) -> None:
    slow = fault_named("slow_replication", {"latency": "2s"})
    async with running(tmp_path, "redis", **CLUSTER) as servers:
        group = group_of(servers)
        primaries = await group.primaries()
        replicas = [node for node in group.servers if node not in primaries]
        for node in replicas:
            await node.kill()
        await asyncio.sleep(2 * NODE_TIMEOUT_MS / 1000)
        store = await registry.open_store("redis-list", context_of(servers, redis=RedisUse(reads_replicas=True)))
        speaker = Speaker("run")
        await store.append("talk", *speaker.turns("talk", 1))
        assert len(await store.history("talk")) == 1, "of the primary"
        for node in replicas:
            await node.start_again()
        await group.until_agreed()
        await slow.inject(servers, "redis")
        assert await shown_behind(store, speaker) > 1
        await slow.heal(servers, "redis")
        await store.close()


async def test_a_write_that_waits_for_replicas_is_unknown_while_they_are_away(tmp_path: Path) -> None:
    cut = [Link(name, "redis-1") for name in ("redis-2", "redis-3")]
    async with running(tmp_path, "redis", **SENTINEL) as servers:
        group = group_of(servers)
        use = RedisUse(wait_replicas=2)
        stores = [await registry.open_store(name, context_of(servers, redis=use)) for name in STORES]
        speaker = Speaker("run")
        for store in stores:
            await store.append("talk", *speaker.turns("talk", 1))
        assert group.links is not None
        group.links.cut(cut, silent=True)
        with pytest.raises(NotConfirmedError):
            await stores[0].append("talk", *speaker.turns("talk", 1, first=2))
        group.links.heal()
        assert len(await stores[0].history("talk")) == 2, "it was written"
        for store in stores:
            await store.close()


async def test_what_a_single_server_or_a_cluster_cannot_do_is_one_clear_line(tmp_path: Path) -> None:
    async with started(tmp_path / "single", "redis") as servers:
        with pytest.raises(UsageError, match="--redis sentinel"):
            await registry.open_store("redis-list", context_of(servers, redis=RedisUse(reads_replicas=True)))
        store = await registry.open_store("redis-list", context_of(servers, redis=RedisUse(wait_aof=True)))
        await store.append("talk", *Speaker("run").turns("talk", 1))
        await store.close()
    url = "redis+cluster://127.0.0.1:1"
    with pytest.raises(UsageError, match="leave them out"):
        await registry.open_store(
            "redis-list", StoreContext(namespace="t", servers={"redis": url}, redis=RedisUse(wait_replicas=1))
        )


async def test_a_group_that_is_started_again_keeps_its_roles_and_its_data(tmp_path: Path) -> None:
    async with running(tmp_path, "redis", **SENTINEL) as servers:
        await ALL["coordinated_failover"].inject(servers, "redis")
        await ALL["coordinated_failover"].heal(servers, "redis")
        (primary,) = [node.name for node in await group_of(servers).primaries()]
        store = await registry.open_store("redis-list", context_of(servers))
        speaker = Speaker("run")
        for message in speaker.turns("kept", 5):
            await store.append("kept", message)
        await store.close()
    async with running(tmp_path, "redis", **SENTINEL) as servers:
        assert [node.name for node in await group_of(servers).primaries()] == [primary]
        store = await registry.open_store("redis-list", context_of(servers))
        assert len(await store.history("kept")) == 5
        await store.close()


async def test_what_is_for_one_server_is_refused_and_a_single_server_has_no_failover(tmp_path: Path) -> None:
    async with started(tmp_path / "group", "redis", **SENTINEL) as servers:
        assert "group of nodes" in (ALL["restart_from_rdb"].unavailable(servers, "redis") or "")
        for parameters, why in (({"between": "etcd+primary"}, "has no etcd; it has"), ({"ports": "bus"}, "one port")):
            assert why in (fault_named("link_cut", parameters).unavailable(servers, "redis") or "")
    async with started(tmp_path / "single", "redis") as servers:
        assert "--redis sentinel" in (ALL["primary_crash"].unavailable(servers, "redis") or "")


async def test_a_name_that_the_sentinels_do_not_know_is_one_clear_line(tmp_path: Path) -> None:
    async with started(tmp_path, "redis", **SENTINEL) as servers:
        url = servers.nodes["redis"].url.replace("/memory", "/mymaster")
        with pytest.raises(ServerUnreachableError) as refused:
            await registry.open_store("redis-list", StoreContext(namespace="t", servers={"redis": url}))
        assert "the sentinels watch memory, and no mymaster" in str(refused.value)
        assert servers.nodes["redis"].pinned.password not in str(refused.value)
        assert "\n" not in str(refused.value)
