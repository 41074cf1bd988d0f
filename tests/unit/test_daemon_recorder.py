"""What the recorder makes of what the verifier has counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from soak.api.status import VerifierStatus
from soak.daemon.recorder import SeriesRecorder
from soak.ledger.records import LATENCY_BUCKETS_SECONDS
from soak.report.series import read_series
from soak.verifier.result import StoreResult
from tests.support.statuses import verifier_status

if TYPE_CHECKING:
    from pathlib import Path

BUCKETS = len(LATENCY_BUCKETS_SECONDS) + 1


def status(second: float, acknowledged: int, *, slow: int = 0, store: str = "a", **values: int) -> VerifierStatus:
    """Say what a verifier says that has seen so many appends of about a millisecond, and some slow ones."""
    counts = [0] * BUCKETS
    counts[LATENCY_BUCKETS_SECONDS.index(0.001)] = acknowledged - slow
    counts[LATENCY_BUCKETS_SECONDS.index(1.0)] = slow
    one = {
        "store": store,
        "acknowledged": acknowledged,
        "verified": 0,
        "violations": 0,
        "unverified_seconds": 0.5,
        "errors": 0,
        "appends": counts,
        "reads": [0] * BUCKETS,
        **values,
    }
    sample = {"at_us": int(second * 1e6), "at_wall_seconds": 1000.0 + second, "measured": [one], "run": "r1"}
    return verifier_status(**sample)


async def recorded(path: Path, *statuses: VerifierStatus | None) -> SeriesRecorder:
    recorder = SeriesRecorder(path / "series.jsonl", "r1", ["a"])
    await recorder._open()
    for one in statuses:
        await recorder.note(one)
    return recorder


async def test_rates_and_latencies_are_those_of_the_time_between_two_looks(tmp_path: Path) -> None:
    recorder = await recorded(tmp_path, status(1, 100), status(3, 300, slow=100, verified=50, errors=4, violations=2))
    (point,) = recorder.whole["a"].points
    assert (point.acknowledged_rate, point.verified_rate, point.error_rate) == (100.0, 25.0, 2.0)
    assert (point.violations, point.seconds, point.at_wall_seconds) == (2, 2.0, 1003.0)
    assert point.append_p50_seconds == pytest.approx(0.001)
    assert point.append_p99_seconds == pytest.approx(0.99)
    assert point.read_p99_seconds is None
    assert list(recorder.recent["a"]) == [point]


async def test_the_charts_end_with_the_numbers_of_the_verdict(tmp_path: Path) -> None:
    recorder = await recorded(tmp_path, status(1, 100), status(2, 200, verified=50, violations=307))
    row = StoreResult(store="a", acknowledged=200, verified=165, released=0, violations=335, tolerated=0)
    await recorder.end([row], 1003.0)
    assert read_series(tmp_path / "series.jsonl", "r1")["a"].points[-1].violations == 335
    assert recorder.recent["a"][-1].verified_rate == 115.0


async def test_a_run_without_an_answer_of_its_verifier_has_no_charts_to_end(tmp_path: Path) -> None:
    recorder = await recorded(tmp_path)
    await recorder.end([], 1003.0)
    assert len(recorder.whole["a"]) == 0


async def test_the_same_answer_twice_is_one_look(tmp_path: Path) -> None:
    recorder = await recorded(tmp_path, status(1, 100), status(1, 100), status(2, 200), status(2, 200))
    assert len(recorder.whole["a"]) == 1


async def test_a_verifier_that_is_away_for_long_leaves_a_gap(tmp_path: Path) -> None:
    looks = [status(1, 10), status(2, 20), None, status(60, 600), status(61, 610)]
    recorder = await recorded(tmp_path, *looks)
    assert [len(stretch) for stretch in recorder.whole["a"].stretches()] == [1, 1]


async def test_a_verifier_that_counts_again_makes_no_negative_rates(tmp_path: Path) -> None:
    recorder = await recorded(tmp_path, status(1, 100), status(2, 60), status(3, 160))
    assert [point.acknowledged_rate for point in recorder.whole["a"].points] == [100.0]


async def test_a_daemon_that_resumes_the_run_goes_on_with_its_record_after_a_gap(tmp_path: Path) -> None:
    await recorded(tmp_path, status(1, 10), status(2, 20))
    recorder = await recorded(tmp_path, status(30, 300), status(31, 310))
    assert [len(stretch) for stretch in recorder.whole["a"].stretches()] == [1, 1]
    assert len(read_series(tmp_path / "series.jsonl", "r1")["a"]) == 2


async def test_a_status_without_counts_is_passed_over(tmp_path: Path) -> None:
    recorder = await recorded(tmp_path, status(1, 10), verifier_status(at_us=1), status(2, 20))
    assert len(recorder.whole["a"]) == 1


async def test_a_disk_that_takes_nothing_does_not_stop_the_recorder(tmp_path: Path) -> None:
    recorder = SeriesRecorder(tmp_path / "missing" / "series.jsonl", "r1", ["a"])
    await recorder._open()
    for one in (status(1, 10), status(2, 20), status(3, 30)):
        await recorder.note(one)
    assert len(recorder.whole["a"]) == 2
