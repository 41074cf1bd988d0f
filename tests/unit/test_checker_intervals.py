"""Interval sets behave as sets of numbers, and cost memory per gap."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from soak.checker.intervals import Intervals

NUMBERS = st.lists(st.integers(1, 60), max_size=80)
LINES = st.lists(st.tuples(st.integers(1, 60), st.integers(0, 9)), max_size=20)


def numbers_of(intervals: Intervals) -> list[int]:
    return [number for first, last in intervals.runs() for number in range(first, last + 1)]


def is_tidy(intervals: Intervals) -> bool:
    """Whether the runs are sorted and no two of them touch."""
    runs = list(intervals.runs())
    return all(first <= last for first, last in runs) and all(
        one[1] + 1 < other[0] for one, other in itertools.pairwise(runs)
    )


@given(NUMBERS)
def test_it_holds_what_was_added_in_any_order(numbers: list[int]) -> None:
    intervals = Intervals.of(numbers)
    assert numbers_of(intervals) == sorted(set(numbers))
    assert len(intervals) == len(set(numbers))
    assert bool(intervals) == bool(numbers)
    assert list(intervals) == sorted(set(numbers))
    assert all((number in intervals) == (number in numbers) for number in range(62))
    assert intervals.largest == max(numbers, default=0)
    assert is_tidy(intervals)


@given(NUMBERS, NUMBERS)
def test_it_is_equal_to_what_holds_the_same(one: list[int], other: list[int]) -> None:
    assert (Intervals.of(one) == Intervals.of(other)) == (set(one) == set(other))


@given(NUMBERS, NUMBERS)
def test_difference_and_intersection_are_those_of_sets(one: list[int], other: list[int]) -> None:
    left, right = Intervals.of(one), Intervals.of(other)
    assert numbers_of(left.minus(right)) == sorted(set(one) - set(other))
    assert numbers_of(left.both(right)) == sorted(set(one) & set(other))
    assert is_tidy(left.minus(right))
    assert is_tidy(left.both(right))
    assert numbers_of(left) == sorted(set(one)), "the operands stay as they were"
    assert numbers_of(right) == sorted(set(other))


@given(NUMBERS, NUMBERS)
def test_update_is_the_union(one: list[int], other: list[int]) -> None:
    left = Intervals.of(one)
    left.update(Intervals.of(other))
    assert numbers_of(left) == sorted({*one, *other})
    assert is_tidy(left)


@given(NUMBERS, LINES)
def test_runs_can_be_added_whole(numbers: list[int], runs: list[tuple[int, int]]) -> None:
    intervals = Intervals.of(numbers)
    expected = set(numbers)
    for first, length in runs:
        intervals.add_run(first, first + length)
        expected |= set(range(first, first + length + 1))
    assert numbers_of(intervals) == sorted(expected)
    assert is_tidy(intervals)


@given(NUMBERS, st.integers(1, 60))
def test_a_copy_does_not_change_with_the_original(numbers: list[int], number: int) -> None:
    intervals = Intervals.of(numbers)
    copy = intervals.copy()
    intervals.add(number)
    assert numbers_of(copy) == sorted(set(numbers))


def test_a_million_numbers_in_a_row_are_one_run() -> None:
    intervals = Intervals.of(range(1, 1_000_001))
    assert list(intervals.runs()) == [(1, 1_000_000)]
    assert len(intervals) == 1_000_000
