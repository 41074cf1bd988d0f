"""How a run stands while it goes on: clean only where a verdict reached now could be a pass."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from soak.page.standing import CLEAN, UNSAID, VIOLATION, Measure, Standing, assess
from tests.support.statuses import soak_status

MEASURE = Measure(minimum_verified=10, unverified_seconds_max=60.0, tests_alarm=True)


def standing_of(
    *, problems: Iterable[str] = (), measure: Measure = MEASURE, known: int = 0, **changes: Any
) -> Standing:
    """Return how a run stands whose verifier answers, with these changes of what it says."""
    answer: dict[str, Any] = {
        "totals": {"violations": 0, "verified": 90, "acknowledged": 100, "unverifiable": 0},
        "by_store": [{"store": "redis-list", "verified": 90}],
        "oldest_unverified_seconds": 2.0,
        "canaries": [{"store": "redis-list", "detected": 1}],
        **changes,
    }
    return assess(soak_status(answer, problems=list(problems)), measure, known)


def test_enough_verified_nothing_wrong_and_a_tested_alarm_is_clean_so_far() -> None:
    standing = standing_of()
    assert (standing.word, standing.headline) == (CLEAN, "Clean so far")
    assert standing.reasons == [
        "90 of 100 acknowledged messages were read back as they were written",
        "self-check: 1 of 1 planted errors detected",
    ]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"totals": {"violations": 0, "verified": 9, "unverifiable": 0}}, "only 9 messages were verified"),
        ({"totals": {"violations": 0, "verified": 90, "unverifiable": 2}}, "the ledger has gaps"),
        ({"by_store": [{"store": "postgres", "verified": 0}]}, "nothing was verified on postgres"),
        ({"ledger_reachable": False}, "the ledger cannot be reached"),
        ({"oldest_unverified_seconds": 61.0}, "has been waiting for 61.0 s"),
        ({"fault_failures": ["crash of redis"]}, "1 scheduled faults could not be injected"),
        ({"canaries": [{"store": "s", "detected": 0, "missed": 0, "early": 0}]}, "no planted error detected on s yet"),
        ({"canaries": [{"store": "s", "detected": 5, "missed": 1, "early": 0}]}, "the self-check failed on s"),
        ({"canaries": [{"store": "s", "detected": 5, "missed": 0, "early": 1}]}, "reported before they were spoiled"),
    ],
)
def test_each_doubt_is_reason_enough_to_say_nothing(changes: dict[str, Any], reason: str) -> None:
    standing = standing_of(**changes)
    assert standing.word == UNSAID
    assert any(reason in told for told in standing.reasons), standing.reasons


def test_silence_and_problems_of_the_daemon_are_doubts() -> None:
    assert assess(soak_status(phase="starting"), MEASURE).reasons == ["the soak is starting"]
    assert assess(soak_status(), MEASURE).reasons == ["the verifier does not answer"]
    assert standing_of(problems=["the load died"]).reasons == ["the load died"]


def test_a_violation_is_told_by_kind_and_outlives_the_verifier_that_found_it() -> None:
    found = [{"store": "redis-list", "kind": "lost", "count": 3}, {"store": "redis-list", "kind": "stale", "count": 40}]
    standing = standing_of(totals={"violations": 43}, violations_by=found)
    assert (standing.word, standing.headline) == (VIOLATION, "43 violations of the contract")
    assert standing.reasons[0].startswith("40 stale on redis-list: a read did not show")
    later = assess(soak_status(), MEASURE, violations_known=43)
    assert (later.word, later.reasons) == (VIOLATION, ["the verifier does not answer"])
    resumed = standing_of(known=43)
    assert resumed.word == VIOLATION


def test_findings_are_told_in_their_own_words_and_are_bounded() -> None:
    findings = [{"headline": f"bug {number}"} for number in range(9)]
    standing = standing_of(totals={"violations": 90}, findings=findings)
    assert standing.reasons == [*(f"bug {number}" for number in range(6)), "and 3 more findings"]


def test_where_the_alarm_is_not_to_be_tested_its_silence_is_no_doubt() -> None:
    measure = Measure(minimum_verified=10, unverified_seconds_max=60.0, tests_alarm=False)
    assert standing_of(measure=measure, canaries=[]).word == CLEAN
