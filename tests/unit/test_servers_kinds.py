"""The registry of server kinds: each kind is whole, and what the others derive from it fits."""

from __future__ import annotations

import ast

import pytest

from soak.errors import UsageError
from soak.faults.catalogue import ALIASES, ALL, current_name
from soak.servers.kinds import (
    KINDS,
    POSTGRES,
    POSTGRES_REPLICA,
    SQLITE,
    UNDER_TEST,
    BackendKind,
    Protocol,
    Role,
    ServerKind,
    group_name,
    names_of,
    with_needs,
)
from soak.settings import SoakSettings
from tests.support.house import modules

OTHER_MEANINGS = {
    "soak.configuration": "a section of the settings",
    "soak.daemon.runbook": "a scheme",
    "soak.stores.http_contract": "a scheme",
    "soak.doctor": "a program, a package",
    "soak.load.locust_page": "a scheme",
    "soak.scenarios.recovery_matrix.scenario": "a store",
    "soak.scenarios.reproductions.catalogue": "a store",
    "soak.servers.binaries": "programs",
    "soak.servers.docker.recipes": "a program",
    "soak.servers.postgres": "a database",
    "soak.servers.postgres_process": "a program, a family of versions",
    "soak.servers.strays": "programs",
    "soak.servers.versions": "families of versions",
    "soak.servers.web_process": "an environment",
    "soak.settings": "a store",
    "soak.store_errors": "a package",
    "soak.stores.http_client": "a scheme",
    "soak.stores.postgres_pool": "a scheme",
    "soak.stores.registry": "stores",
    "soak.sqlite_address": "a scheme",
}
"""Modules where the word is not the kind, and what it is there."""


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_every_kind_has_support_an_address_setting_and_a_primary_of_its_group(kind: ServerKind) -> None:
    assert hasattr(kind.support.server, "exchange") is kind.is_served
    section, _, name = kind.setting.partition(".")
    assert name in type(getattr(SoakSettings(), section)).model_fields
    assert any(one.group == kind.group and one.role is Role.PRIMARY for one in KINDS.values())
    assert BackendKind.LOCAL in kind.backends
    assert (BackendKind.EXTERNAL in kind.backends) == bool(kind.schemes), "what can be given has an address"


def faults_of(kind: str) -> list[str]:
    return [name for name, fault in ALL.items() if kind in fault.targets]


@pytest.mark.parametrize("kind", [kind for kind in UNDER_TEST if kind.is_served], ids=lambda kind: kind.name)
def test_every_server_under_test_can_be_restarted_crashed_and_cut_off(kind: ServerKind) -> None:
    assert {"restart", "crash", "pause", "partition", "power_cut"} <= set(faults_of(kind.name))


def test_a_file_has_faults_of_its_own_and_none_of_a_process() -> None:
    assert faults_of(SQLITE.name) == ["sqlite_lock", "writer_crash"]


def test_no_fault_happens_to_the_ledger() -> None:
    assert faults_of("ledger") == []


def test_what_a_kind_needs_is_started_with_it_and_before_it() -> None:
    kinds = with_needs(["http", "postgres-replica"])
    assert [kind.name for kind in kinds] == ["postgres", "postgres-replica", "http"]
    assert [kind.stage for kind in kinds] == sorted(kind.stage for kind in kinds)
    with pytest.raises(UsageError, match="no such kind of server: mongo; there are ledger, redis"):
        with_needs(["mongo"])


def test_a_primary_and_its_replica_are_one_group_of_two_roles() -> None:
    assert POSTGRES.group == POSTGRES_REPLICA.group == group_name("postgres-replica") == "postgres"
    assert names_of(Protocol.POSTGRES, roles=(Role.REPLICA,)) == ("postgres-replica",)
    assert names_of(Protocol.REDIS) == ("redis",)


def test_old_names_of_faults_are_no_names_of_others() -> None:
    assert not {*ALIASES} & {*ALL}
    assert [current_name(name) for name in ("outage", "connection_storm", "crash")] == [
        "connection_refused",
        "connection_exhaustion",
        "crash",
    ]


def test_only_the_registry_writes_the_name_of_a_kind() -> None:
    """Adding a kind must not mean to search for the names of its neighbours. Scripts of subjects know no soak."""
    names = {kind.name for kind in UNDER_TEST}
    written = {
        module.name
        for module in modules("soak", "[\"'](" + "|".join(names) + ")[\"']")
        if not module.name.startswith("soak.subjects.")
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Constant) and node.value in names
    }
    assert written - {"soak.servers.kinds", *OTHER_MEANINGS} == set()
