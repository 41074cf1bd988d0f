"""Killed in the middle of it: no verdict changes, no violation is lost, none is invented."""

from __future__ import annotations

import os
import signal
import time

import pytest

from soak.errors import ExitCode
from tests.support.checking import (
    BUSY,
    RunningCheck,
    checking,
    kinds_by_store,
    new_folder,
    processes_of,
    resume,
    total,
    wait_until,
)
from tests.support.stores.flawed import DROPS_VARIABLE

IS_LONG = os.environ.get("SOAK_LONG") == "1"
SECONDS = 60.0 if IS_LONG else 0.0
"""How long a check goes on at least; the kills alone take some fifteen seconds."""
ORPHAN_SECONDS_MAX = 10.0


def kill_the_verifier_three_times(check: RunningCheck) -> None:
    for _ in range(3):
        status = check.status()
        check.kill_child("verifier")
        check.until_verified(total(status, "verified") + 100)


def go_on_until(deadline: float) -> None:
    time.sleep(max(0.0, deadline - time.monotonic()))


@pytest.mark.long
def test_three_kills_of_the_verifier_and_one_of_the_load_change_no_verdict() -> None:
    with checking("--store", "redis-list", *BUSY, "--duration", "120s") as check:
        check.until_verified(100)
        deadline = time.monotonic() + SECONDS
        kill_the_verifier_three_times(check)
        status = check.status()
        check.kill_child("load")
        check.until_verified(total(status, "verified") + 500)
        go_on_until(deadline)
        told = check.end()
        assert (check.process.returncode, told["verdict"], told["reasons"]) == (ExitCode.PASS, "pass", []), check.output
        assert told["child_restarts"] == {"verifier": 3, "load": 1}
        totals = told["result"]["totals"]
        assert (totals["violations"], totals["unverifiable"], totals["tolerated"]) == (0, 0, 0)


@pytest.mark.long
def test_a_verifier_that_is_killed_counts_each_dropped_message_exactly_once() -> None:
    store = "tests.support.stores.flawed:OneInTwoHundred"
    with new_folder() as folder:
        drops = folder / "drops.txt"
        drops.touch()
        words = ("--store", store, *BUSY, "--duration", "120s", "--set", "load.forget_share=0")
        with RunningCheck(folder, *words, **{DROPS_VARIABLE: str(drops)}) as check:
            check.until(lambda status: total(status, "violations") >= 1)
            deadline = time.monotonic() + SECONDS
            kill_the_verifier_three_times(check)
            check.until(lambda status: total(status, "violations") >= 5)
            go_on_until(deadline)
            told = check.end()
        dropped = drops.read_text().splitlines()
        assert check.process.returncode == ExitCode.VIOLATION, check.output
        assert kinds_by_store(told["result"]) == {store: {"lost": len(dropped)}}
        named = [name for story in check.evidence() for name in (story["message"], *story["also"])]
        assert sorted(named) == sorted(dropped)


@pytest.mark.long
def test_a_killed_daemon_leaves_no_orphan_and_its_check_is_resumed() -> None:
    with new_folder() as folder:
        words = ("--store", "redis-list", *BUSY, "--duration", "60s")
        with RunningCheck(folder, *words) as first:
            before = first.until_verified(100)
            first.process.send_signal(signal.SIGKILL)
            first.process.wait()
            wait_until(lambda: not processes_of(folder), ORPHAN_SECONDS_MAX)
        _, told = resume(folder, before, *words)
        assert told["result"]["totals"]["unverifiable"] == 0


@pytest.mark.long
def test_a_postgres_that_restarts_within_itself_has_crashed_and_is_accused_of_nothing() -> None:
    with checking("--store", "postgres", *BUSY, "--duration", "120s") as check:
        check.until_verified(100)
        # Not the first of its processes, which is watched over: one of those that serve clients.
        told_of = [one.split() for one in processes_of(check.data_dir) if "postgres: soak postgres" in one]
        os.kill(int(told_of[0][0]), signal.SIGKILL)
        status = check.until(lambda status: any(one["kind"] == "crash" for one in status["verifier"]["recoveries"]))
        check.until_verified(total(status, "verified") + 300)
        told = check.end()
        assert (check.process.returncode, told["verdict"], told["reasons"]) == (ExitCode.PASS, "pass", []), check.output
        (note,) = told["result"]["notes"]
        assert "postgres restarted by itself" in note
        assert told["server_restarts"] == {"postgres": 0, "ledger": 0}
        (recovery,) = told["result"]["recoveries"]
        assert (recovery["kind"], recovery["server"], recovery["planned"]) == ("crash", "postgres", False)
        assert recovery["lost"] == 0
