"""Workloads of given servers: what the settings take, and what is refused before anything is asked of Kubernetes."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from soak.daemon.bed import _named
from soak.errors import UsageError
from soak.settings import SoakSettings

REDIS = "memory/statefulset/redis"


def settings(**workloads: str) -> SoakSettings:
    given: Any = {"redis": "redis://r", "postgres": "postgresql://p"}
    return SoakSettings(servers=given, testbed={"workloads": workloads})


def test_each_server_has_its_workload() -> None:
    found = _named(settings(redis=REDIS, postgres="memory/deployment/postgres"), "workload")
    assert found == {"redis": REDIS, "postgres": "memory/deployment/postgres"}
    with pytest.raises(UsageError, match=r"testbed.workloads names one workload twice; each server has its own"):
        _named(settings(redis=REDIS, postgres=REDIS), "workload")
    with pytest.raises(UsageError, match=r"testbed.workloads.postgres_replica names a workload of a server whose"):
        _named(settings(postgres_replica=REDIS), "workload")


@pytest.mark.parametrize("text", ["redis", "statefulset/redis", "memory/daemonset/redis", "memory/statefulset/../x"])
def test_what_is_no_name_of_a_workload_is_refused(text: str) -> None:
    with pytest.raises(ValidationError, match="should match pattern"):
        settings(redis=text)
