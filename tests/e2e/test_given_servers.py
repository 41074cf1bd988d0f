"""Servers that soak did not start: one that keeps too little is refused, one that restarts by itself is noticed."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from soak.errors import ExitCode
from tests.support.checking import BUSY, RunningCheck, checking, kinds_by_store, new_folder, total
from tests.support.command import soak

if TYPE_CHECKING:
    from tests.support.servers.testbed_thread import TestbedThread

    NewTestbed = Callable[..., TestbedThread]

NOTHING_KEPT = {"appendonly": "no", "save": ""}
SECONDS_MAX = 60
TAIL_SECONDS = 5.0
"""Longer than the tail that a crash may take, together with the time between two samples of a server."""


def kill_first_process(testbed: TestbedThread, kind: str) -> None:
    """Kill a server; its testbed, which is not soak's, starts it again."""
    pid = testbed.nodes[kind].pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)


def until_restarted(check: RunningCheck, *servers: str) -> dict[str, Any]:
    """Wait until soak has noticed that these servers are others than before."""

    def noticed(status: dict[str, Any]) -> bool:
        events = (status["verifier"] or {}).get("events", [])
        return {*servers} <= {event["server"] for event in events if event["what"] == "restart"}

    return check.until(noticed)


def test_a_redis_without_persistence_is_refused_with_three_ways_on(new_testbed: NewTestbed) -> None:
    url = new_testbed(redis_options=NOTHING_KEPT).url("redis")
    with new_folder() as folder:
        done = soak("check", "--redis", url, "--store", "redis-list", "--plain", cwd=folder)
    assert done.returncode == ExitCode.USAGE, done.stdout + done.stderr
    assert "running" not in done.stdout
    told = [line.removeprefix("soak: ").strip() for line in done.stderr.splitlines()]
    assert told[0].startswith("redis as configured, after a crash or a power cut: anything may be lost (neither AOF")
    assert told[1:] == [
        "fix redis: set appendonly yes and appendfsync everysec",
        "declare the weaker promise: --set contract.redis-list.preset=cache",
        "hold redis-list to a tail of 2s all the same: --allow-weaker-server",
    ]


@pytest.mark.long
def test_one_that_is_allowed_all_the_same_is_held_to_the_floor_and_loses(new_testbed: NewTestbed) -> None:
    testbed = new_testbed(redis_options=NOTHING_KEPT)
    words = ("--redis", testbed.url("redis"), "--store", "redis-list", "--allow-weaker-server", "--duration", "5m")
    with checking(*words, *BUSY) as check:
        check.until_verified(300)
        time.sleep(TAIL_SECONDS)
        kill_first_process(testbed, "redis")
        until_restarted(check, "redis")
        check.until(lambda status: total(status, "violations"))
        told = check.end()
    assert (told["verdict"], told["exit_code"]) == ("violation", ExitCode.VIOLATION), told
    assert set(kinds_by_store(told["result"])["redis-list"]) <= {"lost", "rolled_back"}


@pytest.mark.long
def test_servers_that_crash_by_themselves_are_noticed_and_what_a_crash_may_take_is_tolerated(
    new_testbed: NewTestbed,
) -> None:
    testbed = new_testbed()
    addresses = ("--redis", testbed.url("redis"), "--postgres", testbed.url("postgres"))
    stores = ("--store", "redis-list", "--store", "postgres")
    with checking(*addresses, *stores, "--duration", "5m", *BUSY, "--set", "verifier.settle=3s") as check:
        before = check.until_verified(300)
        assert before["verifier"]["events"] == []
        kill_first_process(testbed, "redis")
        kill_first_process(testbed, "postgres")
        status = until_restarted(check, "redis", "postgres")
        check.until_verified(2 * total(status, "verified"))
        told = check.end()
    assert (told["verdict"], told["exit_code"]) == ("pass", ExitCode.PASS), told
    notes = told["result"]["notes"]
    assert len(notes) == 2, notes
    assert all("restarted by itself" in note and "(crash, not ours)" in note for note in notes), notes
    assert told["result"]["tried"]["text"] == "2 crashes survived (2 not caused by soak)"
    windows = told["result"]["faults"]
    assert sorted((one["server"], one["kind"], one["planned"]) for one in windows) == [
        ("postgres", "crash", False),
        ("redis", "crash", False),
    ]


@pytest.mark.long
def test_a_store_whose_context_reads_all_fail_is_no_pass_and_a_run_without_faults_says_so(redis_url: str) -> None:
    words = ("--redis", redis_url, "--store", "tests.support.stores.flawed:NoContext", "--duration", "5m")
    with checking(*words, *BUSY) as check:
        check.until_verified(100)
        told = check.end()
    assert (told["verdict"], told["exit_code"]) == ("inconclusive", ExitCode.INCONCLUSIVE), told
    (reason,) = told["reasons"]
    assert reason.startswith(
        "nearly never succeeded: context reads (history with last=N) on tests.support.stores.flawed:NoContext: 0 of "
    )
    assert told["result"]["tried"]["text"] == "no fault was injected, so durability was not tested"
