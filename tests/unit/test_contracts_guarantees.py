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
)

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
