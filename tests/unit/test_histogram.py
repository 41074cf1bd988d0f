"""Percentiles are at most 2 % off, whatever the durations are, and however they were merged."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from soak.histogram import BOUNDS, ERROR_MAX, RATIO_MAX, LogHistogram, bucket_of, longest_seconds
from soak.ledger.records import LATENCY_BUCKETS_SECONDS
from soak.verifier.tally import Histogram

DURATIONS = st.lists(st.floats(min_value=2e-5, max_value=3000.0), min_size=1, max_size=200)


def histogram_of(values: list[float]) -> LogHistogram:
    histogram = LogHistogram()
    for value in values:
        histogram.observe(value)
    return histogram


@given(DURATIONS, st.sampled_from([0.5, 0.95, 0.99, 1.0]))
def test_a_quantile_is_the_one_of_the_sorted_durations_within_the_error(values: list[float], share: float) -> None:
    exact = sorted(values)[math.ceil(share * len(values)) - 1]
    found = histogram_of(values).quantile(share)
    assert found is not None
    assert abs(found - exact) <= exact * ERROR_MAX * 1.000_001
    assert ERROR_MAX < 0.02


@given(DURATIONS, DURATIONS)
def test_histograms_of_two_processes_merge_into_the_one_of_both(one: list[float], other: list[float]) -> None:
    merged = histogram_of(one)
    merged.merge(histogram_of(other))
    assert merged == histogram_of(one + other)


@given(DURATIONS)
def test_buckets_of_prometheus_are_derived_exactly(values: list[float]) -> None:
    coarse, exact = Histogram.over(LATENCY_BUCKETS_SECONDS), Histogram.over(LATENCY_BUCKETS_SECONDS)
    coarse.add(histogram_of(values).counts, sum(values), LATENCY_BUCKETS_SECONDS)
    for value in values:
        exact.observe(value, LATENCY_BUCKETS_SECONDS)
    assert coarse.counts == exact.counts


def test_the_number_of_buckets_is_bounded_and_none_is_too_wide() -> None:
    assert len(BOUNDS) < 600
    assert all(upper / lower <= RATIO_MAX * 1.000_001 for lower, upper in pairwise(BOUNDS))
    assert (bucket_of(0.0), bucket_of(1e9)) == (0, len(BOUNDS))
    assert longest_seconds(len(BOUNDS)) == math.inf


def test_what_is_longer_than_every_bound_is_known_by_the_longest() -> None:
    assert histogram_of([5000.0, 7000.0]).quantile(0.5) == 7000.0


def test_without_samples_there_is_no_quantile_and_zeros_are_samples() -> None:
    assert LogHistogram().quantile(0.99) is None
    assert LogHistogram().quantile(0.99, zeros=1) == 0.0
    late = histogram_of([3.0])
    assert late.quantile(0.99, zeros=99) == 0.0
    assert late.quantile(0.99, zeros=98) == pytest.approx(3.0, rel=ERROR_MAX)
