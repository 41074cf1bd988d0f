"""The contract suite holds a store on a group of nodes to the same promises."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from soak.servers.kinds import PostgresTopology, RedisTopology
from tests.support.plugin_run import run_pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.servers.testbed_thread import TestbedThread

    NewTestbed = Callable[..., TestbedThread]

SUITE = """
from soak.pytest_plugin import MemoryContract

class TestMemory(MemoryContract):
    store = "{store}"
"""
TESTS_OF_A_GROUP = 4
"""Those that are not tried on one: silent servers, refused writes, lost replies."""


@pytest.mark.long
def test_a_store_on_a_group_that_was_given_keeps_the_contract(tmp_path: Path, new_testbed: NewTestbed) -> None:
    url = new_testbed(postgres_topology=PostgresTopology.SYNC_STANDBY).url("postgres")
    chosen = "identical or namespace or forgotten or order or apart"
    suite = {"test_mine.py": SUITE.format(store="postgres")}
    given = {"SOAK_SERVERS__POSTGRES": url}
    result = run_pytest(tmp_path, suite, "-k", chosen, "--soak-servers=external", **given)
    assert result.named("failed") == set(), result.output
    assert len(result.named("passed")) > 10, result.output


@pytest.mark.long
def test_a_group_with_sentinels_is_started_and_broken(tmp_path: Path) -> None:
    suite = {"test_mine.py": SUITE.format(store="redis-list")}
    chosen = "identical or apart or clean_restart or lost or silent"
    result = run_pytest(tmp_path, suite, "-k", chosen, "--soak-versions=newest", "--soak-redis=sentinel")
    assert (result.code, result.named("failed")) == (0, set()), result.output
    assert "TestMemory::test_a_clean_restart_loses_nothing[valkey-9-sentinel]" in result.named("passed")
    skipped = [text for name, text in result.messages.items() if name in result.named("skipped")]
    assert len([text for text in skipped if "is a group of nodes" in text]) == TESTS_OF_A_GROUP - 1, result.output


@pytest.mark.extra
@pytest.mark.parametrize(
    ("store", "option"),
    [
        ("redis-list", f"--soak-redis={RedisTopology.SENTINEL}"),
        ("redis-list", f"--soak-redis={RedisTopology.CLUSTER}"),
        ("postgres", f"--soak-postgres={PostgresTopology.SYNC_STANDBY}"),
        ("postgres", f"--soak-postgres={PostgresTopology.PATRONI}"),
    ],
)
@pytest.mark.timeout(600)
def test_the_whole_suite_passes_on_every_topology(tmp_path: Path, store: str, option: str) -> None:
    suite = {"test_mine.py": SUITE.format(store=store)}
    result = run_pytest(tmp_path, suite, "--soak-versions=newest", option)
    assert (result.code, result.named("failed") | result.named("error")) == (0, set()), result.output
    assert len(result.named("passed")) > 50, result.output
    skipped = [text for text in result.messages.values() if "is a group of nodes" in text]
    assert len(skipped) == TESTS_OF_A_GROUP, result.output


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--soak-redis=sentinels"], "soak_redis is 'sentinels'"),
        (["--soak-postgres=sentinel"], "sync-standby or patroni"),
        (["--soak-redis=cluster", "--soak-servers=docker"], "embedded only; here it is docker"),
    ],
)
def test_a_topology_that_cannot_be_had_is_refused_in_one_line(
    tmp_path: Path, options: list[str], complaint: str
) -> None:
    result = run_pytest(tmp_path, {"test_mine.py": "def test_nothing():\n    pass\n"}, *options)
    assert result.code == pytest.ExitCode.USAGE_ERROR
    assert complaint in result.output
