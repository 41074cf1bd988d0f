"""A SQLite file under load from several processes: what breaks it is survived, and a store that hides it is found."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from soak.errors import ExitCode
from tests.support.checking import BUSY, checking, kinds_by_store, new_folder
from tests.support.command import soak

if TYPE_CHECKING:
    from pathlib import Path

SECONDS_MAX = 60.0
LOCK = "sqlite_lock:sqlite:every=4s,hold=3s"
CRASH = "writer_crash:sqlite:every=6s,hold=1s"
SHORT_WAIT = ("--timeout", "1s")


@pytest.mark.long
def test_locks_and_dead_writers_lose_nothing() -> None:
    words = ("--store", "sqlite", "--processes", "2", "--fault", LOCK, "--fault", CRASH, "--duration", "20s")
    with checking(*words, *SHORT_WAIT, *BUSY) as check:
        answer, output = check.wait(), check.output
    assert answer["exit_code"] == ExitCode.PASS, (answer, output)
    faults = {one["kind"] for one in answer["result"]["recoveries"]}
    assert faults == {"sqlite_lock", "writer_crash"}
    assert sum(one["lost"] + one["tolerated"] for one in answer["result"]["recoveries"]) == 0
    assert "verifier died" not in output, "it writes to the file, too: its canaries"
    assert "load was ended by writer_crash of sqlite and is started again" in output
    assert "load died" not in output


@pytest.mark.long
def test_a_store_that_swallows_the_lock_is_found() -> None:
    store = "tests.support.stores.flawed:SwallowingSqlite"
    with checking("--store", store, "--fault", LOCK, "--duration", "12s", *SHORT_WAIT, *BUSY) as check:
        answer, output = check.wait(), check.output
    assert answer["exit_code"] == ExitCode.VIOLATION, (answer, output)
    assert "lost" in kinds_by_store(answer["result"])[store]


def refused(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return soak("check", "--store", "sqlite", "--plain", "--data-dir", str(folder / "d"), *words, cwd=folder)


def test_a_file_that_is_never_synced_is_refused_with_three_ways_on() -> None:
    with new_folder() as folder:
        done = refused(folder, "--set", "servers.sqlite_synchronous=off")
    assert done.returncode == ExitCode.USAGE, done.stdout + done.stderr
    told = [line.removeprefix("soak: ").strip() for line in done.stderr.splitlines()]
    assert told == [
        (
            "sqlite as configured, after a power cut: anything may be lost (journal_mode wal, synchronous off); "
            "sqlite is held to a tail of 2s at least (contract.floor)"
        ),
        "fix sqlite: use journal_mode wal with synchronous full",
        "declare the weaker promise: --set contract.sqlite.power_loss_seconds=none",
        "hold sqlite to a tail of 2s all the same: --allow-weaker-server",
    ]


@pytest.mark.parametrize("path", ["nowhere/memory.db", "sqlite://host/memory.db"])
def test_a_file_that_cannot_be_is_one_line(path: str) -> None:
    with new_folder() as folder:
        done = refused(folder, "--sqlite", path if ":" in path else str(folder / path))
    assert done.returncode in {ExitCode.USAGE, ExitCode.UNREACHABLE}, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
