"""Which run is alive in a folder: by the process that announced it, and not by the wall clock."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import psutil
import pytest

from soak import join
from soak.checker.contract import Contract
from soak.join import JoinInfo
from soak.stores.protocol import StoreContext
from tests.support.run_headers import header_of


@pytest.fixture
def info() -> JoinInfo:
    header = header_of({"redis-list": Contract()}, namespace="soak")
    return JoinInfo.of(header, "redis://localhost", StoreContext(servers={}, namespace="soak")).announced_by(
        os.getpid()
    )


def test_a_run_is_alive_though_the_wall_clock_was_set(
    info: JoinInfo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    join.publish(tmp_path, info)
    hour_later = psutil.boot_time() + 3600  # what the kernel says when somebody sets the clock
    monkeypatch.setattr("psutil._pslinux.boot_time", lambda: hour_later)
    assert psutil.Process().create_time() > info.daemon_created_seconds
    assert join.find(tmp_path) == info


@pytest.mark.parametrize(
    "other", [{"daemon_created_seconds": 1.0}, {"daemon_boot": "another"}, {"daemon_pid": 2**22 + 1}], ids=str
)
def test_a_pid_that_was_given_to_another_process_or_is_of_another_boot_is_no_run(
    info: JoinInfo, tmp_path: Path, other: dict[str, object]
) -> None:
    join.publish(tmp_path, msgspec.structs.replace(info, **other))
    assert join.find(tmp_path) is None
