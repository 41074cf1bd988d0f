"""Which service is started for a run, with which servers behind it, and what cannot be meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from soak import configuration
from soak.checker.contract import Order
from soak.commands.flags import THRESHOLD
from soak.daemon.bed import make_testbed
from soak.daemon.plan import RunPlan, make_plan, unused_servers, unused_thresholds
from soak.errors import UsageError
from soak.servers.docker.servers import DockerServers
from soak.servers.kinds import REDIS
from soak.servers.local import LocalServers
from soak.servers.managed import ManagedServers
from soak.servers.servers import CombinedServers
from tests.support.paths import SUBJECTS


def plan(*assignments: str) -> RunPlan:
    settings = configuration.read(assignments=assignments, environ={}).settings
    return make_plan(settings, settings.stores.names)


def test_a_service_brings_the_servers_it_rests_on_and_the_contract_it_declares() -> None:
    found = plan("stores.names=http", "testbed.subject=mem0-pgvector")
    assert set(found.embedded) == {"ledger", "http", "postgres"}
    (spec,) = found.specs
    assert spec.needs == ("http", "postgres"), "faults on either of them count for the store"
    assert spec.declared is not None
    assert spec.declared.order is Order.NONE
    assert spec.declared_clauses == ("order",)


def test_a_server_that_no_store_uses_is_a_warning_where_soak_toml_or_the_environment_give_it(tmp_path: Path) -> None:
    (tmp_path / "soak.toml").write_text('[servers]\npostgres_topology = "patroni"\nredis_version = "7.0"\n')
    environ = {"SOAK_SERVERS__CHROMA": "http://127.0.0.1:1"}
    given = configuration.read({"stores.names": ["redis-list"]}, config=tmp_path / "soak.toml", environ=environ)
    lines = unused_servers(given, make_plan(given.settings, ["redis-list"]))
    assert len(lines) == 2
    assert "soak.toml: no store of this run (redis-list) uses postgres, so servers.postgres_topology" in lines[0]
    assert "SOAK_SERVERS__CHROMA: no store of this run (redis-list) uses chroma" in lines[1]
    assert not unused_servers(given, make_plan(given.settings, ["redis-list", "postgres", "chroma"]))


def test_a_threshold_for_a_store_that_is_not_in_the_run_is_refused_from_a_flag_and_a_warning_otherwise(
    tmp_path: Path,
) -> None:
    (tmp_path / "soak.toml").write_text('[thresholds.postgres]\nappend_p99 = "50ms"\n')
    environ = {"SOAK_THRESHOLDS__REDIS_STREAM__ERRORS": "1%"}

    def unused(flag: str, *stores: str) -> list[str]:
        assert THRESHOLD.convert is not None
        flags = {"stores.names": list(stores), "thresholds": THRESHOLD.convert([flag])}
        places = {"thresholds": "--threshold"}
        given = configuration.read(flags, config=tmp_path / "soak.toml", environ=environ, places=places)
        return unused_thresholds(given, make_plan(given.settings, list(stores)))

    in_file, in_environment = unused("redis-list.append_p99=9ms", "redis-list")
    assert "soak.toml: postgres.append_p99 is for a store that is not in this run, so it is not judged" in in_file
    assert "SOAK_THRESHOLDS__REDIS_STREAM__ERRORS: redis-stream.errors is for a store" in in_environment
    assert not unused("append_p99=9ms", "redis-list", "postgres", "redis-stream")
    with pytest.raises(
        UsageError, match=r"^--threshold: chroma.append_p99 is for .* \(redis-list\); add --store chroma"
    ):
        unused("chroma.append_p99=9ms", "redis-list")


def test_a_threshold_of_searches_needs_a_store_that_can_be_searched(tmp_path: Path) -> None:
    (tmp_path / "soak.toml").write_text('[thresholds]\nsearch_p99 = "50ms"\n')

    def unused(config: Path | None, flag: str, *stores: str) -> list[str]:
        assert THRESHOLD.convert is not None
        flags = {"stores.names": list(stores), "thresholds": THRESHOLD.convert([flag])}
        given = configuration.read(flags, config=config, environ={}, places={"thresholds": "--threshold"})
        return unused_thresholds(given, make_plan(given.settings, list(stores)))

    never = "search_p99 can never be measured: redis-list cannot be searched"
    with pytest.raises(UsageError, match=rf"^--threshold: {never}; leave it out, or add a store with a search"):
        unused(configuration.NO_FILE, "search_p99=9ms", "redis-list")
    with pytest.raises(UsageError, match=rf"^--threshold: redis-list.{never}"):
        unused(configuration.NO_FILE, "redis-list.search_p99=9ms", "redis-list", "pgvector")
    assert unused(configuration.NO_FILE, "search_p99=9ms", "redis-list", "pgvector") == []
    (line,) = unused(tmp_path / "soak.toml", "append_p99=9ms", "redis-list")
    assert line == f"warning: {tmp_path / 'soak.toml'}: {never}; the run will end inconclusive"


def test_a_store_that_needs_a_server_of_no_kind_is_refused() -> None:
    with pytest.raises(
        UsageError, match=r"^store tests.support.stores.needy:Needy needs 'rediss', which .*; did you mean redis\?$"
    ):
        plan("stores.names=tests.support.stores.needy:Needy")


def test_a_given_server_stands_behind_a_service_that_is_started() -> None:
    found = plan("stores.names=http", "testbed.subject=agno-redis", "servers.redis=redis://127.0.0.1:1")
    assert set(found.given) == {"redis"}
    assert set(found.embedded) == {"ledger", "http"}


def test_other_stores_of_the_run_are_none_of_its_business() -> None:
    found = plan("stores.names=http,postgres", f"testbed.subject={SUBJECTS / 'filing.py'}")
    assert [spec.needs for spec in found.specs] == [("http",), ("postgres",)]


def test_with_docker_the_service_stays_a_process_and_comes_after_the_containers_it_rests_on(tmp_path: Path) -> None:
    settings = configuration.read(
        assignments=("stores.names=http", "testbed.subject=agno-redis", "testbed.kind=docker"), environ={}
    ).settings
    servers = make_testbed(
        settings,
        make_plan(settings, settings.stores.names),
        tmp_path,
        on_event=lambda _event: None,
        say=lambda _text: None,
    )
    assert isinstance(servers, CombinedServers)
    assert [type(part) for part in servers._all] == [DockerServers, LocalServers]
    assert {kind: type(part) for kind, part in servers._parts.items()} == {
        "redis": DockerServers,
        "ledger": LocalServers,
        "http": LocalServers,
    }


@pytest.mark.parametrize("kind", ["local", "docker"])
def test_settings_of_a_redis_reach_a_process_and_a_container(kind: str, tmp_path: Path) -> None:
    assignments = ("stores.names=redis-list", f"testbed.kind={kind}", "testbed.redis_options.appendonly=no")
    settings = configuration.read(assignments=assignments, environ={}).settings
    servers = make_testbed(
        settings,
        make_plan(settings, settings.stores.names),
        tmp_path,
        on_event=lambda _event: None,
        say=lambda _text: None,
    )
    own = servers._parts["redis"] if isinstance(servers, CombinedServers) else servers
    assert isinstance(own, ManagedServers)
    assert own.options_of(REDIS) == {"appendonly": "no"}


@pytest.mark.parametrize(
    ("assignments", "complaint"),
    [
        (("stores.names=http",), "--subject"),
        (("stores.names=http", "testbed.subject=agno-redis", "servers.http=http://127.0.0.1:1"), "give one of them"),
        (("stores.names=redis-list", "testbed.subject=agno-redis"), "add --store http"),
        (("stores.names=http", "testbed.subject=agno-reddis"), "did you mean agno-redis"),
        (("stores.names=http", "testbed.subject=nowhere.py"), "cannot be read"),
        (("stores.names=http", "testbed.subject=redisvl-messages", "testbed.kind=docker"), "needs a Redis that loads"),
    ],
)
def test_what_cannot_be_meant_is_one_line(assignments: tuple[str, ...], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint) as raised:
        plan(*assignments)
    assert "\n" not in str(raised.value)
