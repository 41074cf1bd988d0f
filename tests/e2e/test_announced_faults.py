"""Faults that others cause, announced by command and over HTTP: what they excuse is tolerated, and on record."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from soak.errors import ExitCode
from tests.support.checking import BUSY, RunningCheck, checking, total
from tests.support.command import soak

if TYPE_CHECKING:
    from tests.support.servers.testbed_thread import TestbedThread

    NewTestbed = Callable[..., TestbedThread]

SECONDS_MAX = 60


def fault(check: RunningCheck, *words: str) -> subprocess.CompletedProcess[str]:
    return soak("fault", *words, "--data-dir", str(check.data_dir), cwd=check.data_dir)


def send(check: RunningCheck, method: str, path: str, body: object = None, *, token: str | None = None) -> Any:
    info = json.loads((check.data_dir / "run.json").read_text())
    request = urllib.request.Request(  # noqa: S310  our own
        info["http_address"] + path,
        data=None if body is None else json.dumps(body).encode(),
        method=method,
        headers={"X-Soak-Token": info["token"] if token is None else token, "Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310  our own
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as problem:
        return problem.code, json.loads(problem.read())


@pytest.mark.long
def test_faults_that_others_announce_are_on_record_and_a_restart_within_one_is_no_surprise(
    new_testbed: NewTestbed,
) -> None:
    testbed = new_testbed()
    words = ("--redis", testbed.url("redis"), "--store", "redis-list", "--duration", "5m")
    with checking(*words, *BUSY, "--set", "verifier.settle=3s") as check:
        check.until_verified(200)
        begun = fault(check, "begin", "--server", "redis", "--excuses", "crash", "--reason", "pod-kill")
        assert begun.returncode == ExitCode.PASS, begun.stderr
        name = begun.stdout.strip()
        assert name in fault(check, "list").stdout
        assert check.status()["faults_active"] == ["crash of redis, announced"]
        pid = testbed.nodes["redis"].pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        check.until(lambda _: testbed.nodes["redis"].pid not in (None, pid))
        done = fault(check, "end", name)
        assert done.returncode == ExitCode.PASS, done.stderr
        again = fault(check, "end", name)
        assert again.returncode == ExitCode.USAGE
        assert "no announced fault" in again.stderr
        answered = total(check.status(), "verified")

        code, window = send(check, "POST", "/faults/windows", {"server": "redis", "excuses": "nothing"})
        assert code == 201, window
        assert [one["id"] for one in send(check, "GET", "/faults/windows")[1]] == [window["id"]]
        assert send(check, "DELETE", f"/faults/windows/{window['id']}", token="")[0] == 401
        assert send(check, "DELETE", f"/faults/windows/{window['id']}")[0] == 200
        assert send(check, "DELETE", f"/faults/windows/{window['id']}")[0] == 404
        assert send(check, "POST", "/faults/windows", {"server": "redis"})[0] == 400, "what it excuses has no default"
        assert send(check, "POST", "/faults/windows", {"server": "ledger", "excuses": "crash"})[0] == 409

        check.until_verified(answered + 300)
        told = check.end()
    assert (told["verdict"], told["exit_code"]) == ("pass", ExitCode.PASS), told
    assert told["result"]["notes"] == []
    windows = told["result"]["faults"]
    assert [(one["fault"], one["kind"], one["planned"]) for one in windows] == [
        (name, "crash", True),
        (window["id"], "announced", True),
    ]
    assert [one["reason"] for one in windows] == ["pod-kill", "announced"]


@pytest.mark.long
def test_an_announced_fault_outlives_the_daemon_and_one_that_is_never_ended_leaves_a_doubt(
    redis_url: str,
) -> None:
    words = ("--redis", redis_url, "--store", "redis-list", "--duration", "5m", *BUSY)
    with checking(*words) as check:
        check.until_verified(50)
        code, window = send(check, "POST", "/faults/windows", {"server": "redis", "excuses": "crash"})
        assert code == 201, window
        check.process.kill()
        check.process.wait()
        with RunningCheck(check.data_dir.parent, *words) as second:
            second.until_verified(100)
            assert [one["id"] for one in send(second, "GET", "/faults/windows")[1]] == [window["id"]]
            told = second.end()
    assert told["verdict"] == "inconclusive", told
    assert any(f"the fault {window['id']} of redis was announced and never ended" in one for one in told["reasons"])
