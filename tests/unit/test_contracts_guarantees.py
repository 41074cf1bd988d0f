"""What a server's effective configuration allows to promise: no more, and nothing that it does not tell."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from soak.checker.telemetry import ServerSample
from soak.contracts.guarantees import (
    EvictionScope,
    Loss,
    guarantees_of,
    keeper_of,
    postgres_guarantees,
    rdb_loss_seconds,
    redis_guarantees,
    save_rules,
    weakest_of,
)
from soak.daemon.contracts import ServerAnswer, given_by, settle_contracts
from soak.settings import ContractSettings
from soak.stores import registry
from soak.stores.protocol import StoreContext

UNKNOWN = "unknown"


def told(loss: Loss) -> float | str | None:
    return loss.seconds if loss.is_known else UNKNOWN


def aof(appendfsync: str, **more: str) -> dict[str, str]:
    return {"appendonly": "yes", "appendfsync": appendfsync, "save": "", **more}


@pytest.mark.parametrize(
    ("configuration", "crash", "power"),
    [
        (aof("always"), 0.0, 0.0),
        (aof("everysec"), 2.0, 2.0),
        (aof("no"), 0.0, None),
        (aof("everysec", save="5 1"), 2.0, 2.0),
        (aof("no", save="5 1"), 0.0, None),
        (aof("always", **{"no-appendfsync-on-rewrite": "yes"}), 0.0, None),
        (aof("everysec", **{"no-appendfsync-on-rewrite": "yes"}), 2.0, None),
        (aof("everysec", **{"no-appendfsync-on-rewrite": "no"}), 2.0, 2.0),
        ({"appendonly": "no", "save": "900 1"}, 1000.0, 1000.0),
        ({"appendonly": "no", "save": "3600 1 300 100 60 10000"}, 3970.0, 3970.0),
        ({"appendonly": "no", "save": "60 10000 20 1 900 1"}, 32.0, 32.0),
        ({"appendonly": "no", "save": "300 100 60 10000"}, None, None),
        ({"appendonly": "no", "save": "", "appendfsync": "always"}, None, None),
        ({"appendonly": "no"}, UNKNOWN, UNKNOWN),
        ({"appendonly": "no", "save": "often"}, UNKNOWN, UNKNOWN),
        ({"appendonly": "yes"}, 2.0, UNKNOWN),
        ({"save": "900 1"}, UNKNOWN, UNKNOWN),
        ({}, UNKNOWN, UNKNOWN),
    ],
)
def test_what_redis_keeps_follows_from_how_it_writes(
    configuration: dict[str, str], crash: float | str | None, power: float | str | None
) -> None:
    found = redis_guarantees(configuration)
    assert (told(found.crash), told(found.power)) == (crash, power)


@pytest.mark.parametrize(
    ("memory", "policy", "eviction"),
    [
        ("0", "allkeys-lru", EvictionScope.NONE),
        ("0", "noeviction", EvictionScope.NONE),
        ("1048576", "noeviction", EvictionScope.NONE),
        ("1048576", "allkeys-lru", EvictionScope.ANY),
        ("1048576", "allkeys-random", EvictionScope.ANY),
        ("1048576", "volatile-ttl", EvictionScope.EXPIRING),
        ("1048576", "volatile-lfu", EvictionScope.EXPIRING),
        (None, "allkeys-lru", EvictionScope.UNKNOWN),
        (None, "noeviction", EvictionScope.NONE),
        ("1048576", None, EvictionScope.UNKNOWN),
        (None, None, EvictionScope.UNKNOWN),
    ],
)
def test_redis_evicts_only_with_a_limit_and_by_its_policy(
    memory: str | None, policy: str | None, eviction: EvictionScope
) -> None:
    told_so = {"maxmemory": memory, "maxmemory-policy": policy}
    assert redis_guarantees({k: v for k, v in told_so.items() if v is not None}).eviction is eviction


def test_a_volatile_policy_evicts_only_what_has_a_time_to_live() -> None:
    found = redis_guarantees({"maxmemory": "1", "maxmemory-policy": "volatile-lru"})
    assert (found.evicts(expiring_keys=True), found.evicts(expiring_keys=False)) == (True, False)


@pytest.mark.parametrize(
    ("configuration", "crash", "power"),
    [
        ({"synchronous_commit": "on", "fsync": "on", "full_page_writes": "on"}, 0.0, 0.0),
        ({"synchronous_commit": "local", "fsync": "on", "full_page_writes": "on"}, 0.0, 0.0),
        ({"synchronous_commit": "remote_write", "fsync": "on"}, 0.0, 0.0),
        ({"synchronous_commit": "off", "fsync": "on", "wal_writer_delay": "200ms"}, 1.0, 1.0),
        ({"synchronous_commit": "off", "fsync": "on", "wal_writer_delay": "10000ms"}, 30.4, 30.4),
        ({"synchronous_commit": "off", "fsync": "on", "wal_writer_delay": "2s"}, 6.4, 6.4),
        ({"synchronous_commit": "off", "fsync": "on"}, 1.0, 1.0),
        ({"synchronous_commit": "on", "fsync": "off"}, 0.0, None),
        ({"synchronous_commit": "off", "fsync": "off"}, 1.0, None),
        ({"synchronous_commit": "on", "fsync": "on", "full_page_writes": "off"}, 0.0, None),
        ({"synchronous_commit": "on"}, 0.0, UNKNOWN),
        ({"fsync": "on"}, UNKNOWN, UNKNOWN),
        ({}, UNKNOWN, UNKNOWN),
    ],
)
def test_what_postgres_keeps_follows_from_how_it_commits(
    configuration: dict[str, str], crash: float | str | None, power: float | str | None
) -> None:
    found = postgres_guarantees(configuration)
    assert (told(found.crash), told(found.power)) == (crash, power)


def test_a_sample_is_read_by_the_kind_of_its_server() -> None:
    postgres = ServerSample(server="postgres-replica", at=0, configuration={"role": "replica"})
    redis = ServerSample(server="redis", at=0, configuration=aof("always", role="primary"))
    assert (guarantees_of(postgres).server, guarantees_of(postgres).is_replica) == ("postgres-replica", True)
    assert (told(guarantees_of(redis).crash), guarantees_of(redis).is_replica) == (0.0, False)


def test_it_is_said_in_words() -> None:
    given_there = redis_guarantees({**aof("everysec"), "maxmemory": "0"})
    assert given_there.words == "AOF everysec: at most 2s lost after a crash or a power cut; never evicts"
    silent = redis_guarantees({})
    assert silent.words == "does not say how it keeps its data; does not say whether it evicts"
    unsynced = postgres_guarantees({"synchronous_commit": "on", "fsync": "off"})
    assert unsynced.words == (
        "synchronous_commit on, fsync off: nothing lost after a crash, anything may be lost after a power cut"
    )
    evicting = redis_guarantees({**aof("always"), "maxmemory": "5", "maxmemory-policy": "allkeys-lru"})
    assert evicting.words.endswith("may evict any key (maxmemory 5, maxmemory-policy allkeys-lru)")
    saved = redis_guarantees({"appendonly": "no", "save": "900 1", "maxmemory": "0"})
    assert saved.words.startswith("save 900 1 without AOF, all since the last save: at most 1000s lost")


CLUSTER = {"topology": "cluster", "cluster-node-timeout": "15000", "replicas": "1"}
SENTINEL = {"topology": "sentinel", "cluster-node-timeout": "15000", "replicas": "2"}


def min_replicas(least: int, lag: int) -> dict[str, str]:
    return {"min-replicas-to-write": str(least), "min-replicas-max-lag": str(lag)}


@pytest.mark.parametrize(
    ("configuration", "seconds", "measured_seconds"),
    [
        ({**CLUSTER, "cluster-node-timeout": "2000"}, 3.0, 2.83),
        (CLUSTER | min_replicas(0, 10), 16.0, 15.10),
        (CLUSTER | min_replicas(1, 1), 3.0, 1.87),
        (SENTINEL | min_replicas(2, 1), 3.0, 1.66),
        (SENTINEL | min_replicas(2, 10), 12.0, 5.70),
        (SENTINEL | min_replicas(1, 1), None, 0.0),
        (SENTINEL | min_replicas(0, 10), None, 0.0),
        (SENTINEL | min_replicas(2, 0), None, 0.0),
    ],
)
def test_how_long_a_primary_acknowledges_alone_is_bounded_by_its_settings_and_no_tighter_than_measured(
    configuration: dict[str, str], seconds: float | None, measured_seconds: float
) -> None:
    found = redis_guarantees({**aof("everysec"), **configuration})
    assert found.alone is not None
    assert found.alone.seconds == seconds
    assert seconds is None or seconds > measured_seconds
    assert (f"for at most {seconds:g}s (" if seconds else "which no setting bounds (") in found.words


def test_nothing_is_said_of_a_primary_alone_where_nothing_is_known_or_no_group_is() -> None:
    assert redis_guarantees({"topology": "sentinel"}).alone is None
    assert redis_guarantees(min_replicas(1, 1)).alone is None


EVICTS = {"maxmemory": "100", "maxmemory-policy": "allkeys-lru"}
KEEPS_ALL = {"maxmemory": "0", "maxmemory-policy": "noeviction"}


@pytest.mark.parametrize(
    ("nodes", "crash", "power"),
    [
        ([aof("everysec"), aof("no")], 2.0, None),
        ([aof("no"), aof("everysec")], 2.0, None),
        ([aof("always"), {"appendonly": "no", "save": "900 1"}], 1000.0, 1000.0),
        ([aof("everysec"), {}], UNKNOWN, UNKNOWN),
        ([aof("no"), {}], UNKNOWN, None),
        ([{"appendonly": "no", "save": ""}, {}], None, None),
    ],
)
def test_a_group_keeps_of_each_clause_what_its_worst_node_keeps_and_unknown_is_no_zero(
    nodes: list[dict[str, str]], crash: float | str | None, power: float | str | None
) -> None:
    found = weakest_of("redis", nodes)
    assert (told(found.crash), told(found.power)) == (crash, power)


def test_what_one_node_loses_for_certain_is_not_hidden_by_one_that_tells_nothing() -> None:
    found = weakest_of("redis", [{"appendonly": "no", "save": "900 1"}, {}])
    assert found.crash.is_weaker_than(2.0)
    assert found.crash.words == "at least 1000s may be lost"
    assert "not known of every node: at least 1000s may be lost" in found.words
    assert not weakest_of("redis", [aof("everysec"), {}]).crash.is_weaker_than(2.0)
    for nodes in ([aof("always"), {}], [{}, aof("always")]):
        kept = (
            "AOF always, not known of every node: unknown after a crash or a power cut; does not say whether it evicts"
        )
        assert weakest_of("redis", nodes).words == kept


def test_one_node_that_evicts_is_enough_and_one_that_is_a_replica_is_not() -> None:
    nodes = [{**aof("no"), **KEEPS_ALL, "role": "replica"}, {**aof("always"), **EVICTS, "role": "primary"}]
    found = weakest_of("redis", nodes)
    assert (found.eviction, found.is_replica) == (EvictionScope.ANY, False)
    assert found.words.endswith("may evict any key (maxmemory 100, maxmemory-policy allkeys-lru)")
    assert weakest_of("redis", [{**aof("no"), **KEEPS_ALL}, {}]).eviction is EvictionScope.UNKNOWN
    assert weakest_of("redis", [{**aof("no"), **EVICTS}, {}]).eviction is EvictionScope.ANY


def test_a_primary_alone_is_bounded_only_where_it_is_on_every_node() -> None:
    bounded, unbounded = SENTINEL | min_replicas(2, 1), SENTINEL | min_replicas(0, 10)
    alone = [weakest_of("redis", nodes).alone for nodes in ([bounded, bounded], [bounded, unbounded], [bounded, {}])]
    assert [one and one.seconds for one in alone] == [3.0, None, None]
    assert (alone[0] is None, alone[1] is None, alone[2] is None) == (False, False, True)


COMMITS = {"synchronous_commit": "on", "fsync": "on", "synchronous_standby_names": "", "topology": "several hosts"}


def patroni(lag: str, mode: str, strict: str) -> dict[str, str]:
    return {**COMMITS, "maximum_lag_on_failover": lag, "synchronous_mode": mode, "synchronous_mode_strict": strict}


@pytest.mark.parametrize(
    ("configuration", "seconds", "because"),
    [
        (COMMITS, 2.0, "asynchronous replication"),
        (patroni("4096", "false", "false"), 2.0, "asynchronous replication, maximum_lag_on_failover 4096 bytes"),
        (patroni("4096", "true", "false"), 2.0, "asynchronous replication, maximum_lag_on_failover 4096 bytes"),
        (patroni("4096", "true", "true"), 0.0, "synchronous_mode_strict true"),
        (patroni("4096", "quorum", "true"), 0.0, "synchronous_mode_strict true"),
        (patroni("4096", "false", "true"), 2.0, "asynchronous replication, maximum_lag_on_failover 4096 bytes"),
        ({**patroni("1", "true", "true"), "synchronous_commit": "local"}, 2.0, "asynchronous replication, "),
        ({**patroni("1", "true", "false"), "synchronous_standby_names": "a"}, 0.0, "synchronous_standby_names a"),
    ],
)
def test_a_failover_of_patroni_takes_what_patroni_itself_is_set_to_allow(
    configuration: dict[str, str], seconds: float, because: str
) -> None:
    failover = postgres_guarantees(configuration).failover
    assert failover is not None
    assert failover.seconds == seconds
    assert failover.because.startswith(because)


def test_a_store_is_not_held_to_zero_because_a_node_does_not_say_what_a_failover_takes() -> None:
    waiting = {**COMMITS, "synchronous_standby_names": "b", "role": "primary"}
    answer = ServerAnswer(configuration=waiting, nodes={"a:5432": waiting, "b:5432": {}}, silent=["b:5432"])
    spec, context = registry.find("postgres"), StoreContext(namespace="t", servers={})
    given = given_by({"postgres": answer})
    (one,) = settle_contracts([spec], context, ContractSettings(), given)
    assert one.contract.failover_loss_seconds == 2.0
    assert one.is_unchecked
    heard = given_by({"postgres": ServerAnswer(configuration=waiting, nodes={"a:5432": waiting, "b:5432": waiting})})
    (one,) = settle_contracts([spec], context, ContractSettings(), heard)
    assert (one.contract.failover_loss_seconds, one.is_unchecked) == (0.0, False)


rules = st.lists(st.tuples(st.integers(1, 100_000), st.integers(1, 100_000)), max_size=5)


@given(rules)
def test_save_rules_are_read_as_they_are_written(lines: list[tuple[int, int]]) -> None:
    text = " ".join(f"{seconds} {changes}" for seconds, changes in lines)
    assert save_rules(text) == [(float(seconds), changes) for seconds, changes in lines]


@given(rules, st.tuples(st.integers(1, 100_000), st.integers(1, 100_000)))
def test_a_further_save_rule_never_weakens_the_promise(lines: list[tuple[int, int]], one: tuple[int, int]) -> None:
    before = rdb_loss_seconds([(float(seconds), changes) for seconds, changes in lines])
    after = rdb_loss_seconds([(float(seconds), changes) for seconds, changes in [*lines, one]])
    assert before is None or (after is not None and after <= before)
    assert after is None or after > min(seconds for seconds, _ in [*lines, one])


settings = st.fixed_dictionaries(
    {},
    optional={
        "appendonly": st.sampled_from(["yes", "no", "", "maybe"]),
        "appendfsync": st.sampled_from(["always", "everysec", "no", "", "now and then"]),
        "save": st.sampled_from(["", "900 1", "900 1 60 5", "5", "x y"]),
        "no-appendfsync-on-rewrite": st.sampled_from(["yes", "no"]),
        "maxmemory": st.sampled_from(["0", "100"]),
        "maxmemory-policy": st.sampled_from(["noeviction", "allkeys-lru", "volatile-lru"]),
        "role": st.sampled_from(["primary", "replica"]),
    },
)


@given(settings, st.sampled_from(["appendonly", "appendfsync", "save", "maxmemory", "maxmemory-policy"]))
def test_what_is_not_told_is_never_taken_for_better_than_it_might_be(
    configuration: dict[str, str], hidden: str
) -> None:
    """Hiding a setting may make the promise unknown; it never turns it into another one that is known and stronger."""
    full = redis_guarantees(configuration)
    less = redis_guarantees({name: value for name, value in configuration.items() if name != hidden})
    for known, guessed in ((full.crash, less.crash), (full.power, less.power)):
        if known.is_known and guessed.is_known:
            assert not known.is_weaker_than(guessed.seconds)
    if less.eviction is EvictionScope.NONE:
        assert full.eviction is EvictionScope.NONE


@given(st.lists(settings, min_size=1, max_size=4))
def test_a_group_promises_no_more_than_any_of_its_nodes_and_one_node_what_it_promises_itself(
    nodes: list[dict[str, str]],
) -> None:
    found, each = weakest_of("redis", nodes), [redis_guarantees(node) for node in nodes]
    for clause in ("crash", "power"):
        worst, losses = getattr(found, clause), [getattr(one, clause) for one in each]
        assert worst.rank == max(loss.rank for loss in losses)
        assert worst.is_known == (worst.seconds is None or all(loss.is_known for loss in losses))
    assert all(found.evicts(expiring_keys=True) for one in each if one.evicts(expiring_keys=True))
    assert weakest_of("redis", nodes[:1]) == each[0]


@given(st.floats(0, 1e6), st.one_of(st.none(), st.floats(0, 1e6)))
def test_a_loss_is_weaker_when_more_may_go_than_is_promised(seconds: float, promised: float | None) -> None:
    loss = Loss(seconds=seconds)
    assert loss.is_weaker_than(promised) == (promised is not None and seconds > promised)
    assert Loss(seconds=None).is_weaker_than(promised) == (promised is not None)
    assert not Loss(is_known=False).is_weaker_than(promised)


@pytest.mark.parametrize(
    ("needs", "keeper"),
    [
        (("redis",), "redis"),
        (("postgres", "postgres-replica"), "postgres"),
        (("redis", "postgres"), None),
        ((), None),
    ],
)
def test_data_is_kept_by_one_server_or_nobody_knows_which(needs: tuple[str, ...], keeper: str | None) -> None:
    assert keeper_of(needs) == keeper
