"""How a run stands while it goes on: clean only where a verdict reached now could be a pass."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from soak.checker.kinds import Kind
from soak.page.standing import CLEAN, INTERRUPTED, THRESHOLD, UNSAID, VIOLATION, Measure, Standing, assess, conclude
from soak.report.outcome import RunOutcome
from tests.support.statuses import soak_status, verifier_status

MEASURE = Measure(minimum_verified=10, unverified_seconds_max=60.0, tests_alarm=True)


def standing_of(*, problems: Iterable[str] = (), measure: Measure = MEASURE, **changes: Any) -> Standing:
    """Return how a run stands whose verifier answers, with these changes of what it says."""
    answer: dict[str, Any] = {
        "totals": {"violations": 0, "verified": 90, "acknowledged": 100, "unverifiable": 0},
        "by_store": [{"store": "redis-list", "verified": 90}],
        "oldest_unverified_seconds": 2.0,
        "canaries": [{"store": "redis-list", "detected": 1}],
        **changes,
    }
    return assess(soak_status(answer, problems=list(problems)), measure)


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
    known = verifier_status(totals={"violations": 161}, findings=[LOST])
    later = assess(soak_status(), MEASURE, known)
    assert (later.word, later.reasons) == (VIOLATION, ["the verifier does not answer"])
    assert later.headline.startswith("Memory forgets: 161 of 4,142 messages")
    assert assess(soak_status(phase="draining"), MEASURE, known).reasons == ["waiting for the verdict"]


LOST = {
    "kind": "lost",
    "store": "postgres",
    "cause": "concurrent overwrite",
    "headline": "161 of 4,142 messages …",
    "count": 161,
    "open": 161,
    "acknowledged": 4142,
}


@pytest.mark.parametrize(
    ("findings", "headline"),
    [
        ([LOST], "Memory forgets: 161 of 4,142 messages (3.9 %) lost on postgres, probably a concurrent overwrite"),
        (
            [{**LOST, "store": "my.memory:Memory", "count": 1, "cause": "unknown", "open": 0, "healed": 1}],
            "Memory forgets: 1 of 4,142 messages (0.024 %) lost on Memory, cause unknown (healed)",
        ),
        (
            [{**LOST, "kind": "stale", "count": 5_000, "open": 0, "healed": 5_000}, LOST],
            (
                "Memory forgets: 161 of 4,142 messages (3.9 %) lost on postgres, probably a concurrent overwrite; "
                "1 more finding"
            ),
        ),
        (
            [{**LOST, "count": 1, "acknowledged": None, "cause": ""}, LOST, LOST],
            "Memory forgets: 1 message lost on postgres, cause unknown; 2 more findings",
        ),
        (
            [{**LOST, "kind": "leaked", "count": 2, "acknowledged": None}],
            "Memory leaks: 2 leaked messages on postgres, probably a concurrent overwrite",
        ),
        (
            [{**LOST, "kind": "stale", "count": 5_000, "cause": "retry"}],
            "Memory lags behind: 5,000 messages shown too late (stale) on postgres, probably a retry",
        ),
    ],
)
def test_the_headline_names_the_largest_finding_its_share_and_its_cause(
    findings: list[dict[str, Any]], headline: str
) -> None:
    standing = standing_of(totals={"violations": 161}, findings=findings)
    assert (standing.word, standing.headline, standing.reasons) == (VIOLATION, headline, [])


@pytest.mark.parametrize("kind", list(Kind))
def test_each_kind_has_a_headline(kind: Kind) -> None:
    findings = [{**LOST, "kind": kind.value}]
    lead, _, rest = standing_of(totals={"violations": 161}, findings=findings).headline.partition(": ")
    assert lead.startswith("Memory ")
    assert "161" in rest


def outcome_of(verdict: str, *reasons: str, finished: bool = True) -> RunOutcome:
    return RunOutcome(
        run="r1", verdict=verdict, exit_code=0, reasons=list(reasons), data_dir="/data", finished=finished
    )


def test_a_run_that_is_over_says_what_is_final_and_what_was_never_verified() -> None:
    status = soak_status({"totals": {"violations": 161, "verified": 90, "acknowledged": 100}, "findings": [LOST]})
    final = conclude(status, outcome_of("violation"))
    assert (final.word, final.headline[:15], final.reasons) == (VIOLATION, "Memory forgets:", [])
    cut = conclude(status, outcome_of("violation", finished=False))
    assert (cut.word, cut.headline) == (VIOLATION, final.headline), "what was found is certain"
    assert "never verified" in cut.reasons[0]
    clean = soak_status({"totals": {"verified": 90, "acknowledged": 100}})
    passed = conclude(clean, outcome_of("pass"))
    assert (passed.word, passed.headline) == (CLEAN, "Pass: no violation found")
    assert passed.reasons[0].startswith("90 of 100 acknowledged messages")
    assert conclude(clean, outcome_of("undecided", finished=False)).word == INTERRUPTED
    unsaid = conclude(clean, outcome_of("inconclusive", "only 9 messages were verified"))
    assert (unsaid.word, unsaid.reasons) == (UNSAID, ["only 9 messages were verified"])


def threshold(state: str, line: str) -> dict[str, Any]:
    return {"name": line, "store": "redis-list", "limit": 0.05, "value": None, "state": state, "line": line}


def test_a_missed_threshold_has_a_word_of_its_own_which_any_doubt_and_any_violation_outweigh() -> None:
    missed, unmeasured = threshold("missed", "append_p99: 80ms"), threshold("no samples", "recovery_time: no samples")
    line = "threshold missed: append_p99: 80ms"
    assert standing_of(thresholds=[threshold("met", "append_p99: 8ms")]).word == CLEAN
    live = standing_of(thresholds=[missed, unmeasured])
    assert (live.word, live.headline) == (THRESHOLD, "Threshold missed so far, contract kept")
    assert live.reasons[0] == line
    doubtful = standing_of(thresholds=[missed], ledger_reachable=False)
    assert doubtful.word == UNSAID
    assert line in doubtful.reasons
    unknown = standing_of(thresholds=[unmeasured])
    assert (unknown.word, unknown.reasons) == (UNSAID, ["threshold not measured: recovery_time: no samples"])
    found = standing_of(thresholds=[missed], totals={"violations": 161}, findings=[LOST])
    assert (found.word, found.reasons) == (VIOLATION, [line])
    final = conclude(soak_status({"thresholds": [missed]}), outcome_of("threshold", line))
    assert (final.word, final.headline) == (THRESHOLD, "Threshold missed, contract kept")
    assert final.reasons[0] == line


def test_where_the_alarm_is_not_to_be_tested_its_silence_is_no_doubt() -> None:
    measure = Measure(minimum_verified=10, unverified_seconds_max=60.0, tests_alarm=False)
    assert standing_of(measure=measure, canaries=[]).word == CLEAN
