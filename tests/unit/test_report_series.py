"""The record of how fast it went: bounded, true to what was measured, and with its gaps."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from soak.report import series_file
from soak.report.series import Point, Series, is_joined, merged, quantile, series_of
from soak.report.series_file import SeriesFile, read_series

if TYPE_CHECKING:
    from pathlib import Path

RATES = st.floats(0, 1e5)
LATENCIES = st.none() | st.floats(0, 20)
PAUSES = st.just(0.0) | st.just(0.0) | st.floats(0, 1) | st.floats(2, 1e4)
"""Between two points: mostly nothing, sometimes a delay, sometimes a gap."""
EPSILON = 1e-3


def point(at: float, seconds: float = 1.0, **values: float | None) -> Point:
    known: dict[str, float | None] = {
        "acknowledged_rate": 10.0,
        "read_rate": 5.0,
        "error_rate": 0.0,
        "append_p50_seconds": 0.001,
        "append_p99_seconds": 0.01,
        "read_p50_seconds": 0.002,
        "read_p99_seconds": 0.02,
        "verified_rate": 9.0,
        "violations": 0,
        "unverified_seconds": 1.0,
    }
    return msgspec.convert({**known, "at_wall_seconds": at, "seconds": seconds, **values}, type=Point)


@st.composite
def measured(draw: st.DrawFn) -> list[Point]:
    at, violations = 1e9, 0
    points = []
    for _ in range(draw(st.integers(1, 25))):
        seconds = draw(st.floats(0.1, 3))
        at += draw(PAUSES) + seconds
        violations += draw(st.integers(0, 3))
        points.append(
            point(
                at,
                seconds,
                acknowledged_rate=draw(RATES),
                read_rate=draw(RATES),
                append_p50_seconds=draw(LATENCIES),
                append_p99_seconds=draw(LATENCIES),
                violations=violations,
            )
        )
    return points


def total(points: list[Point], name: str) -> float:
    return sum(float(getattr(one, name)) * one.seconds for one in points)


@given(measured(), st.integers(2, 12))
def test_a_series_never_holds_more_points_than_its_bound(points: list[Point], points_max: int) -> None:
    series = Series(points_max)
    for one in points:
        series.add(one)
        assert 1 <= len(series) <= points_max


@given(measured())
def test_merging_keeps_every_message_the_whole_time_the_worst_latency_and_the_last_count(points: list[Point]) -> None:
    gaps = sum(not is_joined(a, b) for a, b in itertools.pairwise(points))
    series = series_of(points, points_max=gaps + 2)
    kept = list(series.points)
    for name in ("acknowledged_rate", "read_rate", "verified_rate"):
        assert total(kept, name) == pytest.approx(total(points, name), rel=1e-4)
    assert (kept[0].since_wall_seconds, kept[-1].at_wall_seconds) == pytest.approx(
        (points[0].since_wall_seconds, points[-1].at_wall_seconds)
    )
    worst = [one.append_p99_seconds for one in points if one.append_p99_seconds is not None]
    assert max((one.append_p99_seconds for one in kept if one.append_p99_seconds is not None), default=None) == max(
        worst, default=None
    )
    assert kept[-1].violations == points[-1].violations
    assert [one.violations for one in kept] == sorted(one.violations for one in kept)


@given(measured())
def test_gaps_stay_gaps_however_much_is_merged(points: list[Point]) -> None:
    gaps = [(a.at_wall_seconds, b.since_wall_seconds) for a, b in itertools.pairwise(points) if not is_joined(a, b)]
    series = series_of(points, points_max=len(gaps) + 2)
    assert len(series.stretches()) == len(gaps) + 1
    for since, until in gaps:
        assert not any(
            one.since_wall_seconds < until - EPSILON and one.at_wall_seconds > since + EPSILON for one in series.points
        )


@given(measured(), st.integers(2, 12))
def test_time_only_goes_on(points: list[Point], points_max: int) -> None:
    times = [one.at_wall_seconds for one in series_of(points, points_max).points]
    assert times == sorted(set(times))


@given(measured())
def test_a_median_lies_between_those_it_was_made_of(points: list[Point]) -> None:
    made = points[0]
    for one in points[1:]:
        made = merged(made, one)
    medians = [one.append_p50_seconds for one in points if one.append_p50_seconds is not None]
    if medians:
        assert made.append_p50_seconds is not None
        assert min(medians) <= made.append_p50_seconds <= max(medians)
    else:
        assert made.append_p50_seconds is None


def test_three_weeks_fit_at_one_width_throughout() -> None:
    series = Series(500)
    for second in range(0, 21 * 86_400, 64):
        series.add(point(1e9 + second, 64.0))
    assert 250 <= len(series) <= 500
    widths = {round(one.seconds) for one in series.points}
    assert len(widths) <= 2, "all but the last are of one width"


def test_a_clock_that_is_set_back_adds_nothing() -> None:
    series = series_of([point(100.0), point(101.0), point(90.0), point(102.0)])
    assert [one.at_wall_seconds for one in series.points] == [100.0, 101.0, 102.0]


@given(st.lists(st.integers(0, 50), min_size=4, max_size=4), st.floats(0, 1), st.floats(0, 1))
def test_quantiles_lie_in_the_bucket_of_their_rank_and_grow_with_it(
    counts: list[int], one: float, other: float
) -> None:
    bounds = (0.1, 1.0, 10.0)
    if not sum(counts):
        assert quantile(counts, bounds, one) is None
        return
    low, high = quantile(counts, bounds, min(one, other)), quantile(counts, bounds, max(one, other))
    assert low is not None
    assert high is not None
    assert 0 <= low <= high <= bounds[-1]


def test_a_quantile_of_what_is_known() -> None:
    assert quantile([0, 100, 0, 0], (0.1, 1.0, 10.0), 0.5) == pytest.approx(0.55)
    assert quantile([99, 0, 1, 0], (0.1, 1.0, 10.0), 0.99) == pytest.approx(0.1)
    assert quantile([0, 0, 0, 7], (0.1, 1.0, 10.0), 0.5) == 10.0


# -- on disk --


def test_what_was_written_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "series.jsonl"
    file = SeriesFile(path, "r1", ["a", "b"])
    file.open()
    points = [point(1000.0 + second, violations=second, append_p50_seconds=None) for second in range(5)]
    for one in points:
        file.append({"a": one, "b": one})
    found = read_series(path, "r1")
    assert list(found["a"].points) == list(found["b"].points) == points


def test_another_run_begins_with_nothing(tmp_path: Path) -> None:
    path = tmp_path / "series.jsonl"
    file = SeriesFile(path, "r1", ["a"])
    file.open()
    file.append({"a": point(1000.0)})
    assert not len(SeriesFile(path, "r2", ["a"]).open()["a"])
    assert read_series(path, "r1") == {}


@pytest.mark.parametrize("cut", [1, 10, 40])
def test_a_kill_in_the_midst_of_a_line_takes_that_line_only(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "series.jsonl"
    file = SeriesFile(path, "r1", ["a"])
    file.open()
    for second in range(3):
        file.append({"a": point(1000.0 + second)})
    path.write_bytes(path.read_bytes()[:-cut])
    assert [one.at_wall_seconds for one in read_series(path, "r1")["a"].points] == [1000.0, 1001.0]
    resumed = SeriesFile(path, "r1", ["a"])
    resumed.open()
    resumed.append({"a": point(1003.0)})
    assert [one.at_wall_seconds for one in read_series(path, "r1")["a"].points] == [1000.0, 1001.0, 1003.0]


def test_a_line_that_a_full_disk_cut_off_spoils_no_other(tmp_path: Path) -> None:
    path = tmp_path / "series.jsonl"
    file = SeriesFile(path, "r1", ["a"])
    file.open()
    file.append({"a": point(1000.0)})
    with path.open("ab") as half:
        half.write(b"\n[0,1001.0,10.")
    file.append({"a": point(1002.0)})
    assert [one.at_wall_seconds for one in read_series(path, "r1")["a"].points] == [1000.0, 1002.0]


@pytest.mark.parametrize("content", [b"", b"\x00\xff", b"[]\n", b'{"schema":99,"run":"r1","stores":["a"]}\n[0,1]'])
def test_a_file_that_says_nothing_is_no_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "series.jsonl"
    path.write_bytes(content)
    assert not any(map(len, read_series(path, "r1").values()))
    assert not len(SeriesFile(path, "r1", ["a"]).open()["a"])


def test_the_file_is_written_anew_before_it_grows_without_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(series_file, "FILE_BYTES_MAX", 20_000)
    path = tmp_path / "series.jsonl"
    file = SeriesFile(path, "r1", ["a"])
    file.open()
    series = Series(20)
    largest = 0
    for second in range(2_000):
        one = point(1000.0 + second)
        series.add(one)
        if file.append({"a": one}):
            file.rewrite({"a": series.points})
        largest = max(largest, path.stat().st_size)
    assert largest < 21_000
    found = series_of(read_series(path, "r1")["a"].points, 20)
    assert found.points[-1].at_wall_seconds == 2999.0
    assert sum(one.seconds for one in found.points) == pytest.approx(2_000)
