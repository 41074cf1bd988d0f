"""Several verifiers share a run: here, and elsewhere with `soak verify --shard`."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from redis import Redis
from redis.crc import key_slot

from soak.errors import ExitCode
from soak.ledger.connection import PREFIX, keys_of
from soak.servers.kinds import RedisTopology
from soak.servers.redis_cluster import ClusterGroup
from soak.servers.redis_group import Node
from soak.servers.sentinel import SentinelGroup
from tests.support.checking import (
    BUSY,
    RunningCheck,
    checking,
    child,
    new_folder,
    processes_of,
    resume,
    total,
    wait_until,
)
from tests.support.paths import ROOT
from tests.support.stores.forgetful import ACCOUNT_VARIABLE

if TYPE_CHECKING:
    from tests.support.servers.testbed_thread import TestbedThread

    NewTestbed = Callable[..., TestbedThread]

FAILOVER_SECONDS_MAX = 90.0
TAIL_BATCHES = 20
FORGETFUL = "tests.support.stores.forgetful:ForgetfulPostgres"
TWO = ("--verifiers", "2", "--processes", "2", "--duration", "600s", "--set", "load.drain=2s")


def verify(folder: Path, info: dict[str, Any], *words: str) -> subprocess.Popen[str]:
    """Start a verifier as another machine would: with a folder of its own, by the addresses of the servers."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("SOAK_")}
    servers = {"SOAK_LEDGER__URL": info["ledger_url"], "SOAK_SERVERS__REDIS": info["servers"]["redis"]}
    command = [sys.executable, "-m", "soak", "verify", "--data-dir", "elsewhere", "--port", "0", "--json", *words]
    return subprocess.Popen(
        command,
        env={**plain, "PYTHONPATH": str(ROOT), **servers},
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def shards_of(status: dict[str, Any]) -> list[dict[str, Any]]:
    return list((status.get("verifier") or {}).get("shards", []))


@pytest.mark.long
@pytest.mark.timeout(300)
def test_planted_losses_are_all_reported_though_a_verifier_is_killed_and_servers_crash() -> None:
    with new_folder() as folder:
        account = folder / "account.txt"
        account.touch()
        faults = ("--faults", "none", "--fault", "crash:postgres:every=4s,hold=1s")
        with RunningCheck(
            folder, "--store", FORGETFUL, *TWO, *BUSY, *faults, **{ACCOUNT_VARIABLE: str(account)}
        ) as check:
            check.until(lambda status: total(status, "violations") >= 2)
            check.kill_child("verifier-2")
            found = total(check.status(), "violations")
            status = check.until(lambda status: total(status, "violations") >= found + 2)
            told = check.end()
        assert [one["shard"] for one in status["verifier"]["shards"]] == [1, 2]
        assert check.process.returncode == ExitCode.VIOLATION, check.output
        dropped = set(account.read_text().splitlines())
        journals = list((check.data_dir / "verifier").glob("**/journal.jsonl"))
        lines = [json.loads(line) for journal in journals for line in journal.read_text().splitlines()]
        named = {line["message"] for line in lines if "event" not in line}
        assert len(journals) == 2, "both have sessions, and found something in them"
        assert named <= dropped
        # What was dropped and not acknowledged in the ledger, because its worker had ended, is no loss.
        assert told["result"]["totals"]["violations"] == len(named)
        assert len(dropped - named) <= 2


@pytest.mark.long
@pytest.mark.extra
@pytest.mark.timeout(300)
def test_a_run_of_two_verifiers_is_resumed_with_three_and_not_with_two_again() -> None:
    with new_folder() as folder:
        words = (*("--store", "redis-list", "--processes", "3", "--duration", "600s", "--faults", "none"), *BUSY)

        def killed(*more: str) -> dict[str, Any]:
            check = RunningCheck(folder, *words, *more)
            try:
                status = check.until(
                    lambda status: (shards := shards_of(status)) and all(one["verified"] for one in shards)
                )
                check.process.send_signal(signal.SIGKILL)
                check.process.wait()
                wait_until(lambda: not processes_of(folder))
            finally:
                check.close()
            return status

        begun, resumed = killed("--verifiers", "2"), killed("--verifiers", "3")
        assert [len(shards_of(status)) for status in (begun, resumed)] == [2, 3]
        assert begun["run"] == resumed["run"]
        refused = RunningCheck(folder, *words, "--verifiers", "2")
        try:
            refused.process.wait(60)
            assert refused.process.returncode == ExitCode.USAGE, refused.output
            last = refused.output.splitlines()[-1]
            assert f"run {begun['run']} is shared by 3 verifiers" in last
            assert last.endswith("resume it with --verifiers 3 or more")
        finally:
            refused.close()
        _, told = resume(folder, resumed, *words)
        totals, shards = told["result"]["totals"], list((folder / "data" / "verifier").glob("shard-*"))
        assert (totals["unverifiable"], totals["violations"], len(shards)) == (0, 0, 2)


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_verifier_elsewhere_has_its_share_and_one_that_does_not_fit_is_refused_in_one_line() -> None:
    with new_folder() as folder:
        words = (*TWO, *BUSY, "--verifiers-elsewhere", "1", "--faults", "none")
        with RunningCheck(folder, "--store", "redis-list", *words) as check:
            check.until(lambda status: total(status, "verified") > 0)
            info = json.loads((check.data_dir / "run.json").read_text())
            other = verify(folder, info, "--shard", "2/2")
            check.until(lambda status: all(one["verified"] for one in status["verifier"]["shards"]))
            refused = {
                "3/2": "of 2 shards the last one is 2/2",
                "2/3": "has 2 verifiers, not 3",
                "1/1": "is shared by 2 verifiers",
            }
            for shard, why in refused.items():
                done = verify(folder, info, "--shard", shard, "--data-dir", "another")
                _, said = done.communicate(timeout=60)
                assert (done.returncode, said.count("\n")) == (ExitCode.USAGE, 1), said
                assert why in said
            twin = verify(folder, info, "--shard", "2/2", "--data-dir", "twin")
            _, said = twin.communicate(timeout=60)
            assert (twin.returncode, "is verified already, by" in said) == (ExitCode.USAGE, True), said
            away = verify(folder, {**info, "ledger_url": "redis://127.0.0.1:1"}, "--shard", "2/2", "--data-dir", "away")
            _, said = away.communicate(timeout=60)
            assert (away.returncode, "cannot be reached" in said) == (ExitCode.UNREACHABLE, True), said
            told = check.end()
            part = json.loads(other.communicate(timeout=60)[0])
        assert (told["verdict"], part["verdict"]) == ("pass", "pass"), check.output
        totals = told["result"]["totals"]
        assert totals["acknowledged"] == totals["verified"] + totals["never_verified"]
        assert 0 < part["result"]["totals"]["acknowledged"] < totals["acknowledged"]


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_verifier_that_never_comes_makes_the_run_inconclusive() -> None:
    with new_folder() as folder:
        words = (*TWO, *BUSY, "--verifiers-elsewhere", "1", "--faults", "none", "--set", "verifier.drain=2s")
        with RunningCheck(folder, "--store", "redis-list", *words) as check:
            check.until(lambda status: total(status, "verified") > 0)
            told = check.end()
        assert check.process.returncode == ExitCode.INCONCLUSIVE
        assert any("verifier 2 of 2 was never heard of" in line for line in told["reasons"])


@contextlib.contextmanager
def stopped(*pids: int | None) -> Iterator[None]:
    """Let processes stand still."""
    known = [pid for pid in pids if pid is not None]
    assert len(known) == len(pids)
    for pid in known:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in known:
            os.kill(pid, signal.SIGCONT)


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_ledger_that_fails_over_without_a_tail_accuses_nobody_and_the_run_goes_on(new_testbed: NewTestbed) -> None:
    testbed = new_testbed(redis_topology=RedisTopology.SENTINEL)
    ledger = testbed.url("redis")
    group = testbed.nodes["redis"]
    assert isinstance(group, SentinelGroup)
    with (
        checking("--store", "redis-list", *TWO, *BUSY, "--faults", "none", SOAK_LEDGER__URL=ledger) as check,
        contextlib.ExitStack() as closing,
    ):
        check.until_verified(1)
        status = check.until(lambda status: all(one["verified"] for one in status["verifier"]["shards"]))
        stream = keys_of(status["run"], 2).batches
        primary = group.last_primaries[0]
        replicas = [node for node in group.servers if node is not primary]
        asking, *others = (closing.enter_context(client_of(node)) for node in (primary, *replicas))
        # Nobody but the primary has what is written from here on, and the second verifier does not read it either.
        with stopped(*(node.pid for node in replicas)), stopped(child(status, "verifier-2")["pid"]):
            asking.client_kill_filter(_type="replica")
            kept = newest(asking, stream)
            wait_until(lambda: len(asking.xrange(stream, f"({kept}")) >= TAIL_BATCHES)
            gone = newest(asking, stream)
            # Nobody starts it again, so the sentinels promote another one.
            closing.enter_context(stopped(primary.pid))
        check.until(lambda status: not status["verifier"]["ledger_reachable"], FAILOVER_SECONDS_MAX)
        check.until(lambda status: status["verifier"]["ledger_reachable"], FAILOVER_SECONDS_MAX)
        assert not any(other.xrange(stream, gone, gone) for other in others), "it was replicated after all"
        after = check.status()
        check.until_verified(total(after, "verified") + 300)
        told, output = check.end(), check.output
    assert (told["verdict"], told["result"]["totals"]["violations"]) == ("inconclusive", 0), told
    assert told["reasons"]
    assert all("the ledger has gaps" in reason for reason in told["reasons"])
    assert group.pinned.password not in output


@pytest.mark.extra
@pytest.mark.timeout(400)
def test_a_ledger_on_a_cluster_is_followed_to_the_next_primary_of_its_slot(new_testbed: NewTestbed) -> None:
    testbed = new_testbed(redis_topology=RedisTopology.CLUSTER)
    ledger = testbed.url("redis")
    group = testbed.nodes["redis"]
    assert isinstance(group, ClusterGroup)
    with (
        checking("--store", "redis-list", *TWO, *BUSY, "--faults", "none", SOAK_LEDGER__URL=ledger) as check,
        contextlib.ExitStack() as closing,
    ):
        check.until_verified(1)
        check.until(lambda status: all(one["verified"] for one in status["verifier"]["shards"]))
        slots = closing.enter_context(client_of(group.servers[0])).execute_command("CLUSTER SLOTS")
        (front,) = {first[1] for low, high, first, *_ in slots if low <= key_slot(PREFIX.encode()) <= high}
        primary = group.node_at(front)
        # Nobody starts it again, so its replica takes over.
        closing.enter_context(stopped(primary.pid))
        check.until(lambda status: not status["verifier"]["ledger_reachable"], FAILOVER_SECONDS_MAX)
        check.until(lambda status: status["verifier"]["ledger_reachable"], FAILOVER_SECONDS_MAX)
        after = check.status()
        check.until_verified(total(after, "verified") + 300)
        told, output = check.end(), check.output
    assert told["result"]["totals"]["violations"] == 0, told
    assert all("the ledger has gaps" in reason for reason in told["reasons"])
    assert group.pinned.password not in output


def client_of(node: Node) -> Any:
    # Any: redis-py types one client for bytes and text answers, waited for or not.
    return Redis.from_url(node.address_at(node.seat.port))


def newest(asking: Any, stream: str) -> str:
    (entry,) = asking.xrevrange(stream, count=1)
    return str(entry[0].decode())
