"""Browser users in a soak: what they say is recorded, read and judged like everything else; nothing is left of them."""

from __future__ import annotations

import contextlib
import json
import signal
from pathlib import Path

import psutil
import pytest

from soak.errors import ExitCode
from tests.support.checking import RunningCheck, checking, kinds_by_store, processes_of, total, wait_until
from tests.support.needs import installed

pytestmark = [pytest.mark.long, pytest.mark.slow, pytest.mark.timeout(480)]

SECONDS_MAX = 150.0
"""On a busy machine a browser takes its time to start."""

LOST_ON_THE_PAGE = "tests.support.stores.flawed:LostOnThePage"
QUICK = (
    *("--users", "4", "--set", "verifier.hot_interval=300ms", "--set", "verifier.settle=1s", "--duration", "10m"),
    *("--set", "verifier.history_sessions=1000", "--set", "verifier.canary=5s", "--set", "supervision.backoff=200ms"),
)


@pytest.fixture(scope="module", autouse=True)
def chromium() -> None:
    installed("chromium")


def read_back(check: RunningCheck) -> int:
    """Return how many messages of browser users were acknowledged and then found in a read of the verifier."""
    found = 0
    for path in (check.data_dir / "verifier" / "history").glob("browser-*.jsonl"):
        with contextlib.suppress(OSError, ValueError):
            records = [json.loads(line) for line in path.read_text().splitlines()]
            reads = [one["read"]["count"] for one in records if "read" in one]
            acknowledged = sum("attempt" in one and one["attempt"][3] == 0 for one in records)
            found += min(acknowledged, max(reads, default=0))
    return found


def browsers_of(folder: Path) -> list[psutil.Process]:
    """Return the process that the browsers live in, and theirs: those that have this folder's load above them."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if "soak.browsing.child" in process.cmdline() and str(folder) in process.cwd():
                found += [process, *process.children(recursive=True)]
    return found


def test_what_they_say_on_two_stores_is_verified_and_nothing_is_wrong_with_it() -> None:
    with checking("--store", "redis-list", "--store", "postgres", "--browser-users", "2", *QUICK) as check:
        check.until(lambda _status: read_back(check) >= 4, SECONDS_MAX)
        told = check.end()
        assert (check.process.returncode, told["verdict"]) == (ExitCode.PASS, "pass"), check.output
        assert kinds_by_store(told["result"]) == {}
        log = (check.data_dir / "logs" / "load.log").read_text()
        for store in ("redis-list", "postgres"):
            assert f"browser:{store}  append" in log
        assert "suspicious read" not in log


def test_a_soak_whose_browsers_never_come_up_is_no_pass(tmp_path: Path) -> None:
    broken = tmp_path / "chromium"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    settings = ("--set", f"load.browser={broken}")
    with checking("--store", "redis-list", "--browser-users", "1", *settings, *QUICK) as check:
        check.until(lambda status: total(status, "verified") >= 20, SECONDS_MAX)
        told = check.end()
        assert (check.process.returncode, told["verdict"]) == (ExitCode.INCONCLUSIVE, "inconclusive"), check.output
        assert told["reasons"] == ["nothing was acknowledged that a browser user said; the log of the load tells why"]


def test_what_is_lost_on_the_page_is_counted_and_explained_and_nothing_else_is() -> None:
    with checking("--store", LOST_ON_THE_PAGE, "--browser-users", "2", *QUICK) as check:
        check.until(lambda status: total(status, "violations") >= 1, SECONDS_MAX)
        told = check.end()
        assert (check.process.returncode, told["verdict"]) == (ExitCode.VIOLATION, "violation"), check.output
        kinds = kinds_by_store(told["result"])[LOST_ON_THE_PAGE]
        assert set(kinds) <= {"lost", "rolled_back"}
        evidence = check.evidence()
        assert len(evidence) == sum(kinds.values())
        for one in evidence:
            assert one["session"].startswith("browser-"), one["session"]


def test_killed_browsers_come_back_a_killed_load_takes_them_along_and_nothing_is_called_lost() -> None:
    with checking("--store", "redis-list", "--browser-users", "1", *QUICK) as check:
        folder = check.data_dir.parent
        check.until(lambda _status: read_back(check) >= 2, SECONDS_MAX)
        first, *_others = browsers_of(folder)
        theirs = browsers_of(folder)
        first.send_signal(signal.SIGKILL)
        wait_until(lambda: not any(one.is_running() for one in theirs))
        before = read_back(check)
        check.until(lambda _status: read_back(check) > before, SECONDS_MAX)
        theirs = browsers_of(folder)
        check.kill_child("load")
        wait_until(lambda: not any(one.is_running() for one in theirs))
        before = read_back(check)
        check.until(lambda _status: read_back(check) > before, SECONDS_MAX)
        told = check.end()
        assert (check.process.returncode, told["verdict"]) == (ExitCode.PASS, "pass"), check.output
        assert kinds_by_store(told["result"]) == {}
        wait_until(lambda: not processes_of(folder))
