"""Faults in a whole soak: on schedule, by hand, interrupted by a signal, and cut off by a kill."""

from __future__ import annotations

import json
import signal
import stat
import subprocess
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from soak.errors import ExitCode
from tests.support import command
from tests.support.checking import BUSY, RunningCheck, checking, new_folder, processes_of, total, wait_until
from tests.support.fault_rules import LONG_HOLD, rule, scheduled, under_way
from tests.support.stores.flawed import DROPS_VARIABLE

pytestmark = pytest.mark.long  # each starts, breaks and restarts servers of its own

ORPHAN_SECONDS_MAX = 60.0


def soak(check: RunningCheck, *words: str) -> subprocess.CompletedProcess[str]:
    return command.soak(*words, "--data-dir", str(check.data_dir), cwd=check.data_dir.parent)


def test_a_check_with_a_fast_schedule_passes_and_tells_how_each_server_recovered() -> None:
    words = ("--set", "faults.preset=recovery", "--set", "faults.every=4s", "--set", "faults.healthy_min=1s")
    with checking("--store", "redis-list", "--store", "postgres", *BUSY, *words, "--duration", "20s") as check:
        status = check.until(lambda now: now["fault_next"])
        assert status["fault_next"]["target"] in {"redis", "postgres"}
        told = check.wait()
    assert (check.process.returncode, told["verdict"], told["reasons"]) == (ExitCode.PASS, "pass", []), check.output
    result = told["result"]
    assert result["totals"]["violations"] == 0
    recoveries = result["recoveries"]
    assert {one["server"] for one in recoveries} == {"redis", "postgres"}
    for one in recoveries:
        assert one["kept"], one
        assert one["planned"]
        assert one["point_seconds"] <= one["promised_seconds"]
        # The last may have been cut short by the end of the load, and then nobody wrote any more.
        if one is not recoveries[-1]:
            assert one["read_seconds"] > 0, one
            assert one["write_seconds"] > 0, one
    assert set(told["server_restarts"].values()) == {0}, "a planned death is nobody's restart"
    scheduled, skipped = told["faults_scheduled"], told["faults_skipped"]
    assert skipped > 0, "too dense a schedule"
    assert scheduled - skipped == len(result["faults"])


def test_the_same_seed_plans_the_same() -> None:
    words = ("--set", "faults.preset=gentle", "--set", "faults.every=3s", "--set", "faults.healthy_min=1s")
    plans = []
    for _ in range(2):
        with checking("--store", "redis-list", *BUSY, *words, "--seed", "11", "--duration", "120s") as check:
            status = check.until(lambda now: len(now["faults_recent"]) >= 3)
            plans.append([(one["name"], one["target"], one["hold_seconds"]) for one in status["faults_recent"][:3]])
            check.end()  # one that is killed while a server stands still leaves that to the next start
    assert plans[0] == plans[1]


@pytest.mark.parametrize(
    ("rules", "complaint"),
    [
        (rule("nonsense", "redis"), "faults.rules.0: there is no fault 'nonsense'"),
        (rule("crash", "postgres"), "there is no server postgres in this run"),
        (rule("replica_lag", "redis"), "replica_lag can happen to postgres-replica, not to redis"),
    ],
)
def test_a_rule_that_cannot_be_followed_is_one_line_and_exit_code_2(rules: dict[str, str], complaint: str) -> None:
    with checking("--store", "redis-list", *scheduled(rules)) as check:
        assert check.process.wait(60) == ExitCode.USAGE
        lines = [line for line in check.output.splitlines() if line.startswith("soak: ")]
    assert len(lines) == 1
    assert complaint in lines[0]


def post(check: RunningCheck, token: str | None, **headers: str) -> int:
    info = json.loads((check.data_dir / "run.json").read_text())
    request = urllib.request.Request(  # noqa: S310  our own address
        info["http_address"] + "/faults",
        data=json.dumps({"fault": "crash", "target": "redis", "hold_seconds": 0}).encode(),
        headers={"Content-Type": "application/json", "X-Soak-Token": token or info["token"], **headers},
        method="POST",
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_a_fault_by_hand_is_done_measured_and_refused_to_strangers() -> None:
    with checking("--store", "redis-list", *BUSY, "--duration", "120s") as check:
        check.until_verified(50)
        assert stat.S_IMODE((check.data_dir / "run.json").stat().st_mode) == 0o600
        assert post(check, "wrong") == 401
        assert post(check, None, Origin="https://example.org") == 403
        assert check.status()["faults_recent"] == []
        done = soak(check, "inject", "crash", "--target", "redis", "--hold", "1.5s", "--json")
        assert done.returncode == ExitCode.PASS, done.stderr
        assert done.stderr.splitlines() == [
            "crash of redis is active, held for 1.5s",
            "crash of redis is healed; measuring the recovery",
        ]
        told = json.loads(done.stdout)
        assert told["injected"]["name"] == "crash"
        (measured,) = told["recoveries"]
        assert measured["write_seconds"] >= 0.5
        assert measured["read_seconds"] >= 0.5
        for words, complaint in (
            (("nonsense", "--target", "redis"), "there is no fault 'nonsense'"),
            (("crash", "postgres"), "this soak has no server 'postgres'; it has redis"),
            (("crash", "reddis"), "this soak has no server 'reddis'; did you mean redis?"),
            (("connection_refused", "--target", "redis"), "faults.allow_by_hand = all"),
            (("crash", "--target", "redis", "--hold", "soon"), "--hold: duration 'soon' is not understood"),
        ):
            refused = soak(check, "inject", *words)
            assert refused.returncode == ExitCode.USAGE
            assert complaint in refused.stderr
        listed = json.loads(soak(check, "faults", "--json").stdout)
        assert {one["fault"]: one for one in listed}["crash"]["targets"] == {"redis": None}
        ended = check.end()
        assert (ended["verdict"], ended["reasons"]) == ("pass", []), check.output


def test_the_parameters_of_a_fault_are_in_the_status_and_in_the_result() -> None:
    rule = ("--fault", "dropped_reply:redis:every=1h,share=10%")
    with checking("--store", "redis-list", *BUSY, "--duration", "2h", *rule) as check:
        check.until_verified(50)
        words = ("latency", "redis", "jitter=5ms", "--delay", "20ms", "--hold", "300ms")
        done = soak(check, "inject", *words)
        assert done.returncode == ExitCode.PASS, done.stderr
        assert "latency of redis (delay 20ms, jitter 5ms, direction both): healed after" in done.stdout
        asked = {"delay": "20ms", "jitter": "5ms", "direction": "both"}
        status = check.status()
        assert [one["parameters"] for one in status["faults_recent"]] == [asked]
        assert status["fault_next"]["parameters"] == {"share": "0.1"}
        ended = check.end()
        assert [one["parameters"] for one in ended["result"]["recoveries"]] == [asked]
        assert "fault: latency of redis (delay 20ms, jitter 5ms, direction both) for 0.3s, by hand" in check.output


def test_without_a_soak_there_is_nothing_to_break(tmp_path: Path) -> None:
    words = ("inject", "crash", "--target", "redis", "--data-dir", str(tmp_path))
    done = command.soak(*words, cwd=tmp_path)
    assert done.returncode == ExitCode.USAGE
    assert "no soak runs in" in done.stderr


@pytest.mark.parametrize(
    ("fault", "target", "store"),
    [
        ("crash", "redis", "redis-list"),
        ("pause", "redis", "redis-list"),
        ("pause", "postgres", "postgres"),
        ("replica_lag", "postgres-replica", "postgres-replica"),
    ],
)
def test_a_daemon_killed_in_the_middle_of_a_fault_leaves_nothing_broken(fault: str, target: str, store: str) -> None:
    with new_folder() as folder:
        words = ("--store", store, *BUSY, "--duration", "300s")
        with RunningCheck(folder, *words, *scheduled(rule(fault, target, hold=LONG_HOLD))) as first:
            before = first.until(lambda now: under_way(now, fault) and total(now, "verified") > 0)
            first.process.send_signal(signal.SIGKILL)
            first.process.wait()
        with RunningCheck(folder, *words) as second:
            after = second.until_verified(total(before, "verified") + 100)
            assert after["run"] == before["run"]
            second.until(lambda now: all(server["state"] == "running" for server in now["servers"]))
            # No window is left open: what is read from its server proves something again.
            second.until(lambda now: now["verifier"] and now["verifier"]["faults_active"] == [])
            told = second.end()
        assert (second.process.returncode, told["verdict"]) == (ExitCode.PASS, "pass"), second.output
        wait_until(lambda: not processes_of(folder), ORPHAN_SECONDS_MAX)


@pytest.mark.parametrize("fault", ["crash", "pause"])
def test_ctrl_c_in_the_middle_of_a_fault_heals_it_and_drains(fault: str) -> None:
    with checking("--store", "redis-list", *BUSY, *scheduled(rule(fault, "redis", hold=LONG_HOLD))) as check:
        check.until(lambda now: under_way(now, fault) and total(now, "verified") > 0)
        check.process.send_signal(signal.SIGINT)
        told = check.wait()
        assert f"healing: {fault} of redis" in check.output
        assert (check.process.returncode, told["verdict"], told["reasons"]) == (ExitCode.PASS, "pass", []), check.output
        (recovery,) = told["result"]["recoveries"]
        assert recovery["lasted_seconds"] < 300


def test_a_soak_ends_by_itself_after_so_many_violations() -> None:
    with new_folder() as folder:
        drops = folder / "drops.txt"
        drops.touch()
        words = (
            "--store",
            "tests.support.stores.flawed:OneInTwoHundred",
            *BUSY,
            "--set",
            "faults.abort_after_violations=1",
        )
        with RunningCheck(folder, *words, "--duration", "300s", **{DROPS_VARIABLE: str(drops)}) as check:
            told = check.wait()
        assert (check.process.returncode, told["verdict"]) == (ExitCode.VIOLATION, "violation"), check.output
        assert "draining: " in check.output
        assert "(faults.abort_after_violations = 1)" in check.output


def test_a_server_that_does_not_recover_in_time_ends_the_soak_as_inconclusive() -> None:
    slow = ("--set", "faults.recovery_max=1ms", *scheduled(rule("crash", "redis")))
    with checking("--store", "redis-list", *BUSY, *slow, "--duration", "300s") as check:
        told = check.wait()
        assert (check.process.returncode, told["verdict"]) == (ExitCode.INCONCLUSIVE, "inconclusive"), check.output
        assert any("redis did not recover from crash within 0.001s" in reason for reason in told["reasons"])


def test_clients_that_stay_stuck_after_a_fault_is_healed_end_the_soak_as_inconclusive() -> None:
    patience = ("--set", "faults.recovery_max=6s", "--set", "verifier.drain=3s", "--set", "load.drain=3s")
    words = (*patience, *scheduled(rule("crash", "redis", every="3s")))
    with checking(
        "--store", "tests.support.stores.flawed:NeverReconnects", *BUSY, *words, "--duration", "300s"
    ) as check:
        told = check.wait()
        assert (check.process.returncode, told["verdict"]) == (ExitCode.INCONCLUSIVE, "inconclusive"), check.output
        (stuck,) = [reason for reason in told["reasons"] if "was healed (faults.recovery_max = 6s)" in reason]
        assert stuck.startswith("tests.support.stores.flawed:NeverReconnects answers no ")
        assert "after crash of redis" in stuck
        assert told["result"]["totals"]["violations"] == 0, "who gives no answer has not forgotten"


@pytest.mark.extra
def test_servers_are_upgraded_under_load_and_forget_nothing() -> None:
    servers = ("--store", "redis-list", "--redis", "6.2", "--store", "postgres", "--postgres", "16")
    newest = ("--set", "testbed.redis_upgrade=valkey-9")
    with checking(*servers, *newest, *BUSY, "--duration", "300s") as check:
        check.until_verified(100)
        for target in ("redis", "postgres"):
            done = soak(check, "inject", "upgrade", "--target", target, "--hold", "0s", "--json")
            assert done.returncode == ExitCode.PASS, done.stderr
        again = soak(check, "inject", "upgrade", "--target", "postgres")
        assert again.returncode == ExitCode.USAGE
        assert "PostgreSQL 18 is the newest there is here" in again.stderr
        check.until_verified(total(check.status(), "verified") + 100)
        told = check.end()
    assert (check.process.returncode, told["verdict"], told["reasons"]) == (ExitCode.PASS, "pass", []), check.output
    upgrades = {one["server"]: one for one in told["result"]["recoveries"]}
    assert set(upgrades) == {"redis", "postgres"}
    for one in upgrades.values():
        assert (one["kind"], one["kept"], one["lost"], one["point_seconds"]) == ("upgrade", True, 0, 0.0), one
        assert one["write_seconds"] > 0


def test_network_faults_of_a_given_server_happen_to_our_clients_and_leave_nothing_behind(redis_url: str) -> None:
    password = str(urlsplit(redis_url).password)
    allowed = ("--set", 'testbed.allow_faults=["partition", "dropped_reply"]', "--duration", "300s")
    words = ("--store", "redis-list", *BUSY, *allowed)
    given = {"SOAK_SERVERS__REDIS": redis_url}
    with new_folder() as folder:
        rules = scheduled(rule("dropped_reply", "redis"), rule("partition", "redis", every="5s", hold=LONG_HOLD))
        with RunningCheck(folder, *words, *rules, **given) as first:
            before = first.until(lambda now: under_way(now, "partition") and total(now, "verified") > 0)
            info = json.loads((first.data_dir / "run.json").read_text())
            assert urlsplit(info["servers"]["redis"]).port != urlsplit(redis_url).port
            assert (
                f"clients reach redis through a proxy at {urlsplit(info['servers']['redis']).netloc.rpartition('@')[2]}"
                in first.output
            )
            first.process.send_signal(signal.SIGKILL)
            first.process.wait()
        with RunningCheck(folder, *words, **given) as second:
            second.until_verified(total(before, "verified") + 100)
            # The server has lived on, and nobody but us has seen a fault: its window ends all the same.
            second.until(lambda now: now["verifier"] and now["verifier"]["faults_active"] == [])
            told = second.end()
        assert (second.process.returncode, told["verdict"]) == (ExitCode.PASS, "pass"), second.output
        said = first.output + second.output + "".join(path.read_text() for path in first.data_dir.rglob("*.log"))
        assert password not in said
