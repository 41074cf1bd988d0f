"""Sets of sequence numbers that cost memory per gap, not per number."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator

import msgspec


class Intervals(msgspec.Struct, gc=False, array_like=True):
    """A set of positive integers, kept as the sorted inclusive bounds of its runs: [1, 7, 9, 9]."""

    bounds: list[int] = []

    @classmethod
    def of(cls, numbers: Iterable[int]) -> Intervals:
        made = cls()
        for number in numbers:
            made.add(number)
        return made

    def add(self, number: int) -> None:
        bounds = self.bounds
        # Numbers come in order almost always, so the end is looked at first.
        if not bounds:
            # A list made of two takes half the memory of an empty one that has grown by two.
            self.bounds = [number, number]
        elif number == bounds[-1] + 1:
            bounds[-1] = number
        elif number > bounds[-1]:
            bounds += (number, number)
        elif number not in self:
            self.add_run(number, number)

    def add_run(self, first: int, last: int) -> None:
        bounds = self.bounds
        if not bounds:
            self.bounds = [first, last]
            return
        if first > bounds[-1]:
            if first == bounds[-1] + 1:
                bounds[-1] = last
            else:
                bounds += (first, last)
            return
        merged: list[int] = []
        for low, high in self.runs():
            if high + 1 < first or last + 1 < low:
                merged += (low, high)
            else:
                first, last = min(first, low), max(last, high)
        merged += (first, last)
        pairs = sorted(zip(merged[::2], merged[1::2], strict=True))
        self.bounds = [bound for pair in pairs for bound in pair]

    def update(self, other: Intervals) -> None:
        for first, last in other.runs():
            self.add_run(first, last)

    def minus(self, other: Intervals) -> Intervals:
        """Return what is in this set and not in the other."""
        mine, theirs = self.bounds, other.bounds
        if not theirs or mine == theirs:
            return Intervals([] if theirs else mine[:])
        if len(mine) == 2 and theirs[0] <= mine[0] and mine[0] <= theirs[1] + 1 and len(theirs) == 2:
            # The usual case: a longer run less the beginning of it.
            return Intervals([max(mine[0], theirs[1] + 1), mine[1]] if mine[1] > theirs[1] else [])
        result: list[int] = []
        cuts = list(other.runs())
        index = 0
        for first, last in self.runs():
            low = first
            while index < len(cuts) and cuts[index][1] < low:
                index += 1
            at = index
            while at < len(cuts) and cuts[at][0] <= last:
                if cuts[at][0] > low:
                    result += (low, cuts[at][0] - 1)
                low = max(low, cuts[at][1] + 1)
                at += 1
            if low <= last:
                result += (low, last)
        return Intervals(result)

    def both(self, other: Intervals) -> Intervals:
        """Return what is in both sets."""
        return self.minus(self.minus(other))

    def runs(self) -> Iterator[tuple[int, int]]:
        bounds = self.bounds
        return zip(bounds[::2], bounds[1::2], strict=True)

    @property
    def largest(self) -> int:
        return self.bounds[-1] if self.bounds else 0

    def copy(self) -> Intervals:
        return Intervals(self.bounds[:])

    def covers(self, first: int, last: int) -> bool:
        """Whether all numbers of a run are in the set."""
        bounds = self.bounds
        at = bisect_right(bounds, first)
        if at % 2 == 0:
            at -= 1 if at and bounds[at - 1] == first else 0
        return at % 2 == 1 and last <= bounds[at]

    def touches(self, first: int, last: int) -> bool:
        """Whether any number of a run is in the set."""
        return any(low <= last and first <= high for low, high in self.runs())

    def __contains__(self, number: int) -> bool:
        bounds = self.bounds
        if len(bounds) == 2:
            return bounds[0] <= number <= bounds[1]
        at = bisect_right(bounds, number)
        return at % 2 == 1 or (at > 0 and bounds[at - 1] == number)

    def __iter__(self) -> Iterator[int]:
        for first, last in self.runs():
            yield from range(first, last + 1)

    def __len__(self) -> int:
        bounds = self.bounds
        return sum(bounds[1::2]) - sum(bounds[::2]) + len(bounds) // 2

    def __bool__(self) -> bool:
        return bool(self.bounds)

    def __repr__(self) -> str:
        return f"Intervals({','.join(f'{a}-{b}' if a != b else str(a) for a, b in self.runs())})"
