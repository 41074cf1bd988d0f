"""The rows of Locust's tables: in order, and never older than they look."""

from __future__ import annotations

from typing import Any

import msgspec

from soak.load.locust_page import DaemonSample, memory_rows, violation_rows


def told(**changes: Any) -> DaemonSample:
    store = {"store": "redis-list", "acknowledged": 9, "verified": 8, "violations": 0, "tolerated": 1}
    canary = {"store": "redis-list", "detected": 2, "missed": 0, "early": 0}
    status = {"stores": ["redis-list"], "verifier": {"by_store": [store], "canaries": [canary]}}
    return msgspec.structs.replace(DaemonSample(at_wall_seconds=1.0, status=status, violations=[]), **changes)


def test_a_store_has_a_row_with_what_was_counted() -> None:
    (row,) = memory_rows(told())
    assert (row["store"], row["acknowledged"], row["verified"], row["violations"]) == ("redis-list", 9, 8, 0)
    assert (row["self_check"], row["standing"]) == ("2 planted errors detected", "clean so far")
    assert row["page"] == "/soak"


def test_an_alarm_that_failed_its_test_is_told() -> None:
    value = told()
    value.status["verifier"]["canaries"][0]["missed"] = 1
    assert memory_rows(value)[0]["self_check"] == "failed: 1 of 3 planted errors"


def test_a_store_of_which_nothing_was_verified_is_not_called_clean() -> None:
    value = told()
    value.status["verifier"]["by_store"][0]["verified"] = 0
    assert memory_rows(value)[0]["standing"] == "nothing verified yet"


def test_what_was_said_before_the_daemon_went_away_says_when_that_was() -> None:
    away = told(is_live=False)
    assert "the soak has not answered since" in memory_rows(away)[0]["standing"]
    assert "the soak has not answered since" in violation_rows(away)[0]["detail"]


def test_a_daemon_that_never_answered_and_a_verifier_that_does_not_are_told() -> None:
    assert memory_rows(None)[0]["standing"] == "the soak does not answer"
    assert violation_rows(None)[0]["detail"] == "the soak does not answer"
    alone = told(status={"stores": ["a", "b"], "verifier": None})
    assert [row["standing"] for row in memory_rows(alone)] == ["the verifier does not answer"] * 2


def test_violations_stay_in_the_order_in_which_they_came() -> None:
    one = {"found_at_wall_seconds": 1.0, "kind": "lost", "store": "s", "cause": "c", "state": "open", "detail": "d"}
    rows = violation_rows(told(violations=[{**one, "id": "ab12", "message": str(number)} for number in range(12)]))
    assert {row["page"] for row in rows} == {"/soak/ab12"}
    assert [row["message"] for row in sorted(rows, key=lambda row: str(row["name"]))] == list(map(str, range(12)))
