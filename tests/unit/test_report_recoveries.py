"""Where there are more recoveries than fit, those that say most are shown."""

from __future__ import annotations

from soak.report.summary import worst_recoveries
from soak.verifier.result import RecoveryResult


def recovery(number: int, *, after: float = 0.0, read: float | None = 1.0) -> RecoveryResult:
    return RecoveryResult(
        fault=f"fault-{number}",
        kind="crash",
        server="redis",
        store="redis-list",
        planned=True,
        at_wall_seconds=number,
        promised_seconds=2.0,
        point_seconds=0.0,
        after_seconds=after,
        is_at_least=False,
        tolerated=0,
        lost=0,
        kept=True,
        read_seconds=read,
    )


def test_a_failover_whose_old_primary_went_on_is_among_the_worst_though_nothing_from_before_it_is_gone() -> None:
    rows = [recovery(number) for number in range(20)]
    rows[15] = recovery(15, after=9.9)
    assert rows[15] in worst_recoveries(rows, 3)


def test_of_those_that_lost_as_much_the_longest_are_shown_in_the_order_of_time() -> None:
    rows = [recovery(number) for number in range(20)]
    rows[7], rows[18] = recovery(7, read=None), recovery(18, read=6.0)
    rows[9] = recovery(9, read=5.0)
    assert worst_recoveries(rows, 2) == [rows[9], rows[18]]
