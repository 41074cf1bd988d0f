"""Which server versions a contract suite runs on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from soak.pytest_plugin import options as versions
from soak.pytest_plugin.options import Choice
from soak.servers import binaries

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def nothing_is_remembered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("SOAK_REQUIRE_ALL", raising=False)
    binaries.installed_version.cache_clear()
    yield
    binaries.installed_version.cache_clear()


def redis_versions(wanted: str = versions.ALL, mode: str = "embedded") -> list[str]:
    choice = Choice(
        mode=mode,
        addresses={},
        versions=versions.choose(wanted),
        is_every_version=wanted == versions.ALL,
        images={},
        redis_options={},
        postgres_options={},
        topologies={},
    )
    return [version.name for (version,) in choice.versions_for(("redis",))]


def test_a_version_that_no_package_brings_is_left_out_where_it_is_not_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert redis_versions() == ["valkey-9", "redis-6.2"]
    assert redis_versions(mode="docker") == ["valkey-9", "redis-7.0", "redis-6.2"]
    assert redis_versions("redis-7.0") == ["redis-7.0"], "whoever names it is told that it is not there"
    monkeypatch.setenv("SOAK_REQUIRE_ALL", "1")
    assert redis_versions() == ["valkey-9", "redis-7.0", "redis-6.2"]


def test_a_version_that_is_installed_is_tested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "redis-server"
    program.write_text("#!/bin/sh\necho 'Redis server v=7.0.15 sha=0'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert redis_versions() == ["valkey-9", "redis-7.0", "redis-6.2"]
    assert redis_versions(versions.NEWEST) == ["valkey-9"]
