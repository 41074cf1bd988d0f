"""The selftest on real servers: flaws are found, twins left alone, and it leaves nothing behind however it ends."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from checking import processes_of, wait_until

from soak.flaws import catalogue
from soak.flaws.flaw import Setup
from soak.flaws.redis_memory import EverySecondMemory
from soak.flaws.serializer_v2 import SerializerV2
from soak.selftest.trial import make_trial

ROOT = Path(__file__).resolve().parents[2]
QUICK = [
    "lossy_text", "whole_history_overwrite", "delete_then_late_write", "swallowed_error", "ack_before_flush",
    "index_behind", "forgotten_in_index", "search_across_tenants",
]  # fmt: skip
SECONDS_MAX = 120.0


@pytest.fixture
def temporary() -> Iterator[Path]:
    """Give a short folder for everything temporary, so that what is left behind is seen."""
    folder = Path(tempfile.mkdtemp(prefix="st-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def start(temporary: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "soak", "selftest", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": str(ROOT)},
        start_new_session=True,
    )


def servers_run_in(folder: Path) -> bool:
    return any("valkey-server" in told for told in processes_of(folder))


@pytest.mark.long
def test_quick_flaws_are_found_and_their_twins_left_alone(temporary: Path) -> None:
    process = start(temporary, "--json", *QUICK)
    said, progress = process.communicate(timeout=SECONDS_MAX)
    result = json.loads(said)
    assert [trial["failures"] for trial in result["trials"]] == [[]] * len(QUICK)
    assert process.returncode == 0
    assert result["passed"]
    assert [trial["flaw"] for trial in result["trials"]] == QUICK
    assert all(trial["affected"] > 0 and trial["twin_verified"] > 0 for trial in result["trials"])
    assert f"{len(QUICK)} of {len(QUICK)}" in progress
    assert list(temporary.iterdir()) == []
    assert processes_of(temporary) == []


async def test_a_flaw_replaced_by_a_right_store_is_not_found(tmp_path: Path) -> None:
    right = Setup(store=f"{EverySecondMemory.__module__}:{EverySecondMemory.__name__}")
    flaw = msgspec.structs.replace(catalogue.find("lossy_text"), wrong=right, patience_seconds=4.0)
    trial = await make_trial(flaw, tmp_path)
    assert not trial.passed
    assert trial.failures[0].startswith("not found")


async def test_a_twin_replaced_by_a_flaw_is_noticed(tmp_path: Path) -> None:
    wrong = Setup(store=f"{SerializerV2.__module__}:{SerializerV2.__name__}")
    trial = await make_trial(msgspec.structs.replace(catalogue.find("lossy_text"), right=wrong), tmp_path)
    assert not trial.passed
    assert "FALSE ALARM" in trial.failures[0]


@pytest.mark.long
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_when_it_is_broken_off(end: signal.Signals, temporary: Path) -> None:
    process = start(temporary, "rdb_only", "ack_before_flush")
    try:
        wait_until(lambda: servers_run_in(temporary), SECONDS_MAX)
        process.send_signal(end)
        process.communicate(timeout=SECONDS_MAX)
    finally:
        process.kill()
    assert process.returncode != 0
    wait_until(lambda: not processes_of(temporary), SECONDS_MAX)
    wait_until(lambda: not list(temporary.iterdir()), SECONDS_MAX)
