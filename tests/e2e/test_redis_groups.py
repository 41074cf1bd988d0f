"""A soak on a Redis with Sentinel: its failovers are judged by the contract, also of a group that was given."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from soak.errors import ExitCode
from soak.servers.kinds import RedisTopology
from soak.servers.sentinel import SentinelGroup
from tests.support.checking import BUSY, RunningCheck, checking, new_folder, processes_of, total, wait_until
from tests.support.paths import ROOT

if TYPE_CHECKING:
    from tests.support.servers.testbed_thread import TestbedThread

    NewTestbed = Callable[..., TestbedThread]

GROUP = ("--redis", "sentinel", "--store", "redis-list", *BUSY)
FAILOVER_SECONDS_MAX = 90.0


def until_healed(check: RunningCheck, count: int) -> dict[str, Any]:
    """Wait until so many faults are over and their losses are known."""

    def healed(status: dict[str, Any]) -> bool:
        return len((status["verifier"] or {}).get("recoveries", [])) >= count

    return check.until(healed, FAILOVER_SECONDS_MAX)


@pytest.mark.long
def test_what_a_failover_takes_is_tolerated_and_measured_and_a_strict_contract_reports_it() -> None:
    rule = ("--fault", "sentinel_failover:redis:every=15s,hold=1s")
    strict = ("--set", "contract.redis-list.failover_loss_seconds=0s")
    words = (*GROUP, *rule, "--duration", "5m")
    with checking(*words) as lenient, checking(*words, *strict) as other:
        until_healed(lenient, 1)
        other.until(lambda status: total(status, "violations"), FAILOVER_SECONDS_MAX)
        tolerated, violated = lenient.end(), other.end()
    assert (tolerated["verdict"], tolerated["exit_code"]) == ("pass", ExitCode.PASS), tolerated
    assert "Sentinel failover" in tolerated["result"]["tried"]["text"]
    recovery = tolerated["result"]["recoveries"][0]
    assert recovery["tolerated"] > 0
    assert recovery["after_seconds"] > 1.0, "the old primary goes on for seconds"
    assert (violated["verdict"], violated["exit_code"]) == ("violation", ExitCode.VIOLATION), violated
    losses = [finding for finding in violated["result"]["findings"] if finding["kind"] in {"lost", "rolled_back"}]
    assert {finding["cause"] for finding in losses} == {"replica lag"}


@pytest.mark.long
def test_a_failover_of_a_given_group_is_noticed(new_testbed: NewTestbed) -> None:
    testbed = new_testbed(redis_topology=RedisTopology.SENTINEL)
    url = testbed.url("redis")
    group = testbed.nodes["redis"]
    assert isinstance(group, SentinelGroup)
    with checking("--store", "redis-list", "--duration", "5m", *BUSY, SOAK_SERVERS__REDIS=url) as check:
        before = check.until_verified(300)
        assert before["verifier"]["events"] == []
        pid = group.last_primaries[0].pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)  # nobody starts it again, so the sentinels promote another one
        try:
            check.until(lambda status: status["verifier"]["events"], FAILOVER_SECONDS_MAX)
            check.until_verified(2 * total(before, "verified"))
        finally:
            os.kill(pid, signal.SIGCONT)
        told, output = check.end(), check.output
    assert (told["verdict"], told["exit_code"]) == ("pass", ExitCode.PASS), told
    assert told["result"]["tried"]["text"] == "1 failover survived (1 not caused by soak)"
    assert group.pinned.password not in output


@pytest.mark.long
def test_nothing_of_a_group_is_left_after_a_kill_in_the_middle_of_a_failover() -> None:
    rule = ("--fault", "primary_partition:redis:every=5s,hold=1m")
    with new_folder() as folder:
        check = RunningCheck(folder, *GROUP, *rule, "--duration", "5m")
        try:
            check.until(lambda status: status["faults_active"], FAILOVER_SECONDS_MAX)
            check.process.kill()
            check.process.wait()
            wait_until(lambda: not processes_of(folder))
        finally:
            check.close()


@pytest.mark.parametrize(
    ("url", "code", "words"),
    [
        ("redis+sentinel://127.0.0.1:1,127.0.0.1:2/main", ExitCode.UNREACHABLE, "(no sentinel answers: Error 111"),
        ("redis+sentinel://127.0.0.1:1", ExitCode.USAGE, "which primary"),
    ],
)
def test_sentinels_that_cannot_be_used_are_one_clear_line(url: str, code: ExitCode, words: str) -> None:
    plain = {name: value for name, value in os.environ.items() if not name.startswith("SOAK_")}
    with new_folder() as folder:
        done = subprocess.run(
            [sys.executable, "-m", "soak", "check", "--redis", url, "--store", "redis-list", "--plain"],
            cwd=folder,
            env={**plain, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == code, done.stdout + done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("soak: ")]
    assert words in line
