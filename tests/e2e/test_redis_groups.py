"""A soak on a Redis with Sentinel: its failovers are judged by the contract, also of a group that was given."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from soak.errors import ExitCode
from soak.servers.kinds import PostgresTopology, RedisTopology
from soak.servers.node_group import NodeGroup
from tests.support.checking import BUSY, RunningCheck, checking, new_folder, processes_of, total, wait_until
from tests.support.command import soak

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
    strict = ("--set", "contract.redis-list.failover_loss_seconds=0s", "--allow-weaker-server")
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
    stayed = tolerated["result"]["stayed_clients"][0]
    assert stayed["connections"] > 0, "clients stay with a connection that works"
    assert stayed["seconds_max"] > 1.0
    assert stayed["gone"] == recovery["tolerated"]
    assert (violated["verdict"], violated["exit_code"]) == ("violation", ExitCode.VIOLATION), violated
    losses = [finding for finding in violated["result"]["findings"] if finding["kind"] in {"lost", "rolled_back"}]
    assert {finding["cause"] for finding in losses} == {"replica lag"}


@pytest.mark.long
@pytest.mark.parametrize(
    ("store", "topology"),
    [
        ("redis-list", {"redis_topology": RedisTopology.SENTINEL}),
        ("redis-list", {"redis_topology": RedisTopology.CLUSTER}),
        ("postgres", {"postgres_topology": PostgresTopology.SYNC_STANDBY}),
    ],
    ids=["sentinel", "cluster", "postgres of two hosts"],
)
def test_a_failover_of_a_given_group_is_noticed(
    new_testbed: NewTestbed, store: str, topology: dict[str, RedisTopology | PostgresTopology]
) -> None:
    testbed = new_testbed(**topology)
    kind = store.partition("-")[0]
    url = testbed.url(kind)
    group = testbed.nodes[kind]
    assert isinstance(group, NodeGroup)
    address = {f"SOAK_SERVERS__{kind.upper()}": url}
    with checking("--store", store, "--duration", "5m", *BUSY, **address) as check:
        before = check.until_verified(300)
        assert before["verifier"]["events"] == []
        pid = group.last_primaries[0].pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)  # nobody starts it again, so another one is promoted
        try:
            check.until(lambda status: status["verifier"]["events"], FAILOVER_SECONDS_MAX)
            check.until_verified(2 * total(before, "verified"))
        finally:
            with contextlib.suppress(ProcessLookupError):  # fenced
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
    with new_folder() as folder:
        done = soak("check", "--redis", url, "--store", "redis-list", "--plain", cwd=folder)
    assert done.returncode == code, done.stdout + done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("soak: ")]
    assert words in line
