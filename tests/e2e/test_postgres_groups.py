"""A soak on PostgreSQL with a standby and under Patroni: failovers are judged by the contract, and nothing is left."""

from __future__ import annotations

import time
from typing import Any

import psutil
import pytest

from soak.errors import ExitCode
from tests.support.checking import BUSY, RunningCheck, checking, new_folder, processes_of, total, wait_until
from tests.support.command import soak

STANDBY = ("--postgres", "sync-standby", "--store", "postgres", *BUSY)
PATRONI = ("--postgres", "patroni", "--store", "postgres", *BUSY)
FAILOVER_SECONDS_MAX = 120.0


def is_healed(status: dict[str, Any]) -> bool:
    return bool((status["verifier"] or {}).get("recoveries"))


@pytest.mark.long
def test_nothing_is_lost_in_a_failover_to_a_synchronous_standby() -> None:
    with checking(*STANDBY, "--fault", "primary_crash:postgres:every=10s,hold=1s", "--duration", "5m") as check:
        check.until(is_healed, FAILOVER_SECONDS_MAX)
        told = check.end()
    assert (told["verdict"], told["exit_code"]) == ("pass", ExitCode.PASS), told
    recovery = told["result"]["recoveries"][0]
    assert (recovery["lost"], recovery["tolerated"]) == (0, 0)
    assert "primary" in told["result"]["tried"]["text"]


@pytest.mark.long
def test_what_a_primary_that_dies_by_itself_had_not_replicated_is_judged_as_what_a_failover_takes() -> None:
    with checking(*STANDBY, "--set", "servers.postgres_replication=async", "--duration", "5m") as check:
        before = check.until_verified(100)
        (sender,) = servers_of(check, "walsender")
        primary = sender.parent()
        assert primary is not None
        sender.suspend()  # what is acknowledged from now on never leaves the primary
        # The status may be behind by more than that, so it cannot tell that some were. Two seconds may be lost.
        time.sleep(1.0)
        primary.kill()
        check.until(lambda status: total(status, "tolerated") or total(status, "violations"), FAILOVER_SECONDS_MAX)
        check.until_verified(2 * total(before, "verified"))
        told = check.end()
    assert (told["verdict"], told["exit_code"]) == ("pass", ExitCode.PASS), told
    assert told["result"]["tried"]["text"] == "1 failover survived (1 not caused by soak)"
    (recovery,) = told["result"]["recoveries"]
    assert (recovery["kind"], recovery["lost"]) == ("failover", 0)
    assert recovery["tolerated"] > 0
    assert (recovery["replaced"]["before"], recovery["replaced"]["after"]) == ("postgres-1", "postgres-2")


def servers_of(check: RunningCheck, what: str) -> list[psutil.Process]:
    """Return the processes of its PostgreSQL that call themselves so."""
    return [
        one for one in psutil.Process(check.process.pid).children(recursive=True) if what in " ".join(one.cmdline())
    ]


@pytest.mark.long
@pytest.mark.parametrize(
    ("group", "fault"), [(STANDBY, "primary_partition"), (PATRONI, "dcs_outage")], ids=["sync-standby", "patroni"]
)
def test_nothing_of_a_group_is_left_after_a_kill_in_the_middle_of_a_fault(group: tuple[str, ...], fault: str) -> None:
    with new_folder() as folder:
        check = RunningCheck(folder, *group, "--fault", f"{fault}:postgres:every=5s,hold=1m", "--duration", "5m")
        try:
            check.until(lambda status: status["faults_active"], FAILOVER_SECONDS_MAX)
            check.process.kill()
            check.process.wait()
            wait_until(lambda: not processes_of(folder))
        finally:
            check.close()


@pytest.mark.parametrize("attributes", ["read-write", "prefer-standby"])
def test_hosts_of_which_none_answers_are_one_clear_line(attributes: str) -> None:
    url = f"postgresql://soak:geheim@127.0.0.1:1,127.0.0.1:2/memory?target_session_attrs={attributes}"
    with new_folder() as folder:
        done = soak("check", "--postgres", url, "--store", "postgres", "--plain", cwd=folder)
    assert done.returncode == ExitCode.UNREACHABLE, done.stdout + done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("soak: ")]
    assert "127.0.0.1:1,127.0.0.1:2/memory" in line
    assert "geheim" not in line
