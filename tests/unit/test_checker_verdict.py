"""The verdict: each reason alone keeps a run from passing, and without any it passes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from soak.checker.verdict import Facts, OperationCount, Verdict, reach_verdict

GOOD = Facts(
    violations=0,
    verified=100,
    minimum_verified=1,
    unverifiable=0,
    unverified=0,
    oldest_unverified_seconds=0.0,
    oldest_unverified_seconds_max=30.0,
    suspicions_open=0,
    stores_without_verified=[],
)


def asked(operation: str, tries: int, successes: int) -> OperationCount:
    return OperationCount(store="pg", operation=operation, tries=tries, successes=successes)


def test_a_run_with_nothing_against_it_passes() -> None:
    assert reach_verdict(GOOD) == (Verdict.PASS, [])


@pytest.mark.parametrize(("tries", "successes"), [(0, 0), (4, 0), (100, 1), (1000, 990)])
def test_an_operation_that_was_hardly_tried_or_succeeds_now_and_then_is_no_doubt(tries: int, successes: int) -> None:
    facts = msgspec.structs.replace(GOOD, operations=[asked("recall", tries, successes)])
    assert reach_verdict(facts) == (Verdict.PASS, [])


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"verified": 0, "minimum_verified": 0}, "only 0 messages were verified, at least 1"),
        ({"minimum_verified": 101}, "at least 101 are needed"),
        ({"stores_without_verified": ["postgres"]}, "nothing was verified on postgres"),
        ({"browsers_silent": True}, "nothing was acknowledged that a browser user said"),
        ({"stores_without_search": ["chroma"]}, "searches on chroma found less than half"),
        ({"oldest_unverified_seconds": 30.1}, "30.1 s"),
        ({"longest_unverified_seconds": 30.1}, "had to wait for 30.1 s to be verified, allowed are 30 s"),
        ({"unverified": 3}, "3 acknowledged messages were not verified"),
        ({"unverifiable": 2}, "gaps: 2 records"),
        ({"suspicions_open": 1}, "1 suspicions"),
        ({"reads_failed_at_end": 4}, "4 sessions could not be read"),
        ({"faults_not_injected": 1}, "1 scheduled faults"),
        ({"operations": [asked("history", 5, 0)]}, "nearly never succeeded: context reads (history with last=N) on pg"),
        ({"operations": [asked("forget", 1000, 9)]}, "forgets on pg: 9 of 1000"),
        ({"operations": [asked("append", 300, 1), asked("search", 300, 250)]}, "appends on pg: 1 of 300"),
        ({"observations_dropped": 3}, "3 reads that looked odd to participants were dropped"),
        ({"observations_unjudged": 2}, "2 reads that looked odd to participants were not judged by the end"),
        ({"canaries_missed": {"postgres": 2}}, "the self-check failed on postgres: 2 planted errors"),
        ({"canaries_early": {"postgres": 1}}, "1 canaries on postgres were reported before they were spoiled"),
        ({"stores_without_canary": ["postgres"]}, "the self-check did not run on postgres"),
        (
            {"stores_without_canary": ["postgres"], "canaries_missed": {"postgres": 1}},
            "the self-check failed on postgres: 1 planted errors",
        ),
    ],
)
def test_each_doubt_alone_makes_it_inconclusive_and_says_why(change: dict[str, Any], word: str) -> None:
    verdict, reasons = reach_verdict(msgspec.structs.replace(GOOD, **change))
    assert verdict is Verdict.INCONCLUSIVE
    assert len(reasons) == 1
    assert word in reasons[0]


@pytest.mark.parametrize("change", [{}, {"verified": 0}, {"unverifiable": 5}, {"suspicions_open": 2}])
def test_a_violation_is_a_violation_whatever_else_is_unclear(change: dict[str, Any]) -> None:
    verdict, reasons = reach_verdict(msgspec.structs.replace(GOOD, violations=1, **change))
    assert verdict is Verdict.VIOLATION
    assert reasons


def test_what_is_allowed_is_no_doubt() -> None:
    facts = msgspec.structs.replace(GOOD, verified=1, oldest_unverified_seconds=30.0)
    assert reach_verdict(facts) == (Verdict.PASS, [])


def test_scripts_can_tell_verdicts_by_the_exit_code() -> None:
    assert [verdict.exit_code for verdict in Verdict] == [0, 1, 4, 6]


@pytest.mark.parametrize(("released", "is_allowed"), [(0, True), (200, True), (201, False), (500, False)])
def test_a_run_that_forgot_too_much_unread_is_inconclusive(released: int, is_allowed: bool) -> None:
    facts = msgspec.structs.replace(GOOD, acknowledged=10_000, released=released)
    verdict, reasons = reach_verdict(facts)
    assert (verdict is Verdict.PASS) is is_allowed
    assert is_allowed or reasons[0].startswith(f"{released} of 10000 acknowledged messages were forgotten")


def test_as_few_as_a_handful_forgotten_unread_say_nothing() -> None:
    facts = msgspec.structs.replace(GOOD, acknowledged=100, released=50)
    assert reach_verdict(facts) == (Verdict.PASS, [])
