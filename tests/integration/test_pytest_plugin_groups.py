"""The contract suite holds a store on Redis groups to the same promises."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from soak.servers.kinds import RedisTopology
from tests.support.plugin_run import run_pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.servers.testbed_thread import TestbedThread

    NewTestbed = Callable[..., TestbedThread]

SUITE = """
from soak.pytest_plugin import MemoryContract

class TestRedisList(MemoryContract):
    store = "redis-list"
"""


@pytest.mark.extra
@pytest.mark.parametrize("topology", [RedisTopology.SENTINEL, RedisTopology.CLUSTER])
def test_a_store_on_a_group_keeps_the_contract(
    tmp_path: Path, new_testbed: NewTestbed, topology: RedisTopology
) -> None:
    url = new_testbed(redis_topology=topology).url("redis")
    chosen = "identical or namespace or forgotten or order or apart"
    result = run_pytest(
        tmp_path, {"test_mine.py": SUITE}, "-k", chosen, "--soak-servers=external", SOAK_SERVERS__REDIS=url
    )
    assert result.named("failed") == set(), result.output
    assert len(result.named("passed")) > 10, result.output
