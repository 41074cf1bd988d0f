"""What feeds the watchdog, and the line that systemctl shows."""

from __future__ import annotations

from typing import Any

import msgspec

from soak.daemon.children import ChildStatus
from soak.daemon.notify import Progress, status_line
from soak.daemon.snapshot import Snapshot

CHILD = ChildStatus(name="verifier", state="running", pid=7, restarts=0, last_exit=None)
RUNNING = Snapshot(
    run="r1",
    phase="running",
    verdict="undecided",
    stores=["redis-list"],
    seed=1,
    namespace="n",
    data_dir="/data",
    http_address="",
    uptime_seconds=1.0,
    remaining_seconds=None,
    children=[CHILD],
    servers=[],
    faults_active=[],
    not_ready=[],
    warnings=[],
    verifier=None,
)


def answered(turns: object, pid: int | None = 7) -> Snapshot:
    child = msgspec.structs.replace(CHILD, pid=pid)
    return msgspec.structs.replace(RUNNING, children=[child], verifier={"turns": turns})


def test_progress_is_a_count_that_has_risen_since_it_was_last_seen() -> None:
    progress = Progress()
    assert progress.is_seen(answered(3))
    assert not progress.is_seen(answered(3))
    assert progress.is_seen(answered(4))
    assert not progress.is_seen(answered(4))


def test_no_answer_is_no_progress_and_does_not_make_an_old_count_new() -> None:
    progress = Progress()
    assert not progress.is_seen(RUNNING)
    assert progress.is_seen(answered(3))
    assert not progress.is_seen(RUNNING)
    assert not progress.is_seen(answered(3))
    assert not progress.is_seen(answered(None))
    assert not progress.is_seen(answered(9, pid=None))


def test_a_verifier_in_place_of_one_that_died_counts_anew() -> None:
    progress = Progress()
    assert progress.is_seen(answered(500))
    assert progress.is_seen(answered(1, pid=8))
    assert not progress.is_seen(answered(1, pid=8))


def test_the_line_says_how_it_goes_and_what_is_wrong() -> None:
    totals: dict[str, Any] = {"verified": 1200, "acknowledged": 1234, "violations": 2}
    fine = msgspec.structs.replace(RUNNING, verifier={"totals": totals})
    assert status_line(fine) == "run r1 running on redis-list: 1,200 of 1,234 verified, 2 violations"
    assert status_line(RUNNING).endswith("; the verifier does not answer")
    broken = msgspec.structs.replace(fine, faults_active=["crash of redis"])
    assert status_line(broken).endswith("; broken: crash of redis")
    starting = msgspec.structs.replace(RUNNING, phase="starting", not_ready=["server redis is starting"])
    assert status_line(starting) == "run r1 starts: server redis is starting"
