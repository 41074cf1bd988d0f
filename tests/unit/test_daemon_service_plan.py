"""Which service is started for a run, with which servers behind it, and what cannot be meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from soak import configuration
from soak.checker.contract import Order
from soak.daemon.bed import make_testbed
from soak.daemon.plan import RunPlan, make_plan
from soak.errors import UsageError
from soak.servers.docker.servers import DockerServers
from soak.servers.local import LocalServers
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
