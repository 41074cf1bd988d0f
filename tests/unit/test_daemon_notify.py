"""What feeds the watchdog, and the line that systemctl shows."""

from __future__ import annotations

import msgspec

from soak.api.status import SoakStatus
from soak.daemon.notify import VerifierTurns, status_line
from tests.support.statuses import soak_status

RUNNING = soak_status()


def answered(turns: int, pid: int | None = 7) -> SoakStatus:
    running = soak_status({"turns": turns})
    return msgspec.structs.replace(running, children=[msgspec.structs.replace(running.children[0], pid=pid)])


def test_progress_is_a_count_that_has_risen_since_it_was_last_seen() -> None:
    progress = VerifierTurns()
    assert progress.is_seen(answered(3))
    assert not progress.is_seen(answered(3))
    assert progress.is_seen(answered(4))
    assert not progress.is_seen(answered(4))


def test_no_answer_is_no_progress_and_does_not_make_an_old_count_new() -> None:
    progress = VerifierTurns()
    assert not progress.is_seen(RUNNING)
    assert progress.is_seen(answered(3))
    assert not progress.is_seen(RUNNING)
    assert not progress.is_seen(answered(3))
    assert not progress.is_seen(answered(9, pid=None))


def test_a_verifier_in_place_of_one_that_died_counts_anew() -> None:
    progress = VerifierTurns()
    assert progress.is_seen(answered(500))
    assert progress.is_seen(answered(1, pid=8))
    assert not progress.is_seen(answered(1, pid=8))


def test_the_line_says_how_it_goes_and_what_is_wrong() -> None:
    fine = soak_status({"totals": {"verified": 1200, "acknowledged": 1234, "violations": 2}})
    assert status_line(fine) == "run r1 running on redis-list: 1,200 of 1,234 verified, 2 violations"
    assert status_line(RUNNING).endswith("; the verifier does not answer")
    broken = msgspec.structs.replace(fine, faults_active=["crash of redis"])
    assert status_line(broken).endswith("; broken: crash of redis")
    starting = msgspec.structs.replace(RUNNING, phase="starting", not_ready=["server redis is starting"])
    assert status_line(starting) == "run r1 starts: server redis is starting"
