"""A verdict says what was tried: the faults by name, and that durability was not tested where nothing was restarted."""

from __future__ import annotations

import pytest

from soak.checker.verdict import what_was_tried


@pytest.mark.parametrize(
    ("recoveries", "others", "unexpected", "text"),
    [
        ({}, {}, 0, "no fault was injected, so durability was not tested"),
        (
            {"crash": 14, "restart_from_aof": 6, "restart_from_rdb": 1},
            {},
            0,
            "14 crashes, 6 restarts from AOF, 1 restart from RDB survived",
        ),
        ({"crash": 3}, {"pause": 1}, 2, "3 crashes, 1 pause survived (2 not caused by soak)"),
        (
            {},
            {"latency": 2, "pause": 4},
            0,
            "2 x latency, 4 pauses survived; nothing was restarted, so durability was not tested",
        ),
    ],
)
def test_it_is_said_in_one_line(recoveries: dict[str, int], others: dict[str, int], unexpected: int, text: str) -> None:
    tried = what_was_tried(recoveries, others, unexpected, violations=0)
    assert tried.text == text
    assert (tried.recoveries, tried.others, tried.unexpected_restarts) == (recoveries, others, unexpected)


def test_nothing_is_called_survived_where_something_was_found() -> None:
    assert what_was_tried({"power_cut": 2}, {}, 0, violations=1).text == "2 power cuts were tried"
    assert what_was_tried({"crash": 1}, {}, 0, violations=1).text == "1 crash was tried"
