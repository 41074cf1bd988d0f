"""A histogram of durations with logarithmic buckets: bounded, mergeable, and at most 2 % off.

The upper bound of a bucket is at most 4 % above its lower one, and a quantile is the geometric middle of its bucket.
The bounds of the Prometheus histograms of operations are bounds here, too, so that those can be derived exactly.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator
from itertools import pairwise
from typing import Annotated

import msgspec

RATIO_MAX = 1.04
"""Upper bound of a bucket over its lower one, at most."""
ERROR_MAX = math.sqrt(RATIO_MAX) - 1
"""The largest error of a quantile, as a share of it."""
_ANCHORS = (
    1e-5, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 3600.0,
)  # fmt: skip
"""Shorter and longer durations share one bucket at either end."""


def _bounds() -> Iterator[float]:
    yield _ANCHORS[0]
    for lower, upper in pairwise(_ANCHORS):
        steps = math.ceil(math.log(upper / lower) / math.log(RATIO_MAX))
        yield from (lower * (upper / lower) ** (step / steps) for step in range(1, steps))
        yield upper


BOUNDS = tuple(_bounds())
"""The upper bound of each bucket but the last, in seconds."""
Bucket = Annotated[int, msgspec.Meta(ge=0, le=len(BOUNDS))]
Buckets = dict[Bucket, int]
"""Counts by number of the bucket; empty ones are left out."""


def bucket_of(seconds: float) -> int:
    return bisect_left(BOUNDS, seconds)


def longest_seconds(bucket: int) -> float:
    """Return the upper bound of a bucket."""
    return BOUNDS[bucket] if bucket < len(BOUNDS) else math.inf


class LogHistogram(msgspec.Struct):
    """Durations by bucket, and the longest exactly."""

    counts: Buckets = msgspec.field(default_factory=dict)
    max_seconds: float = 0.0

    def observe(self, seconds: float) -> None:
        self.add(bucket_of(seconds), 1, seconds)

    def add(self, bucket: int, count: int, max_seconds: float) -> None:
        self.counts[bucket] = self.counts.get(bucket, 0) + count
        self.max_seconds = max(self.max_seconds, max_seconds)

    def merge(self, other: LogHistogram) -> None:
        mine = self.counts
        for bucket, count in other.counts.items():
            mine[bucket] = mine.get(bucket, 0) + count
        self.max_seconds = max(self.max_seconds, other.max_seconds)

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    def quantile(self, share: float, zeros: int = 0) -> float | None:
        """Return the value that this share does not exceed; None without samples. `zeros` more samples took no time."""
        total = self.total + zeros
        if not total:
            return None
        rank = max(1, math.ceil(share * total)) - zeros
        if rank <= 0:
            return 0.0
        for bucket, count in sorted(self.counts.items()):
            rank -= count
            if rank <= 0:
                return min(_middle(bucket), self.max_seconds)
        return self.max_seconds


def _middle(bucket: int) -> float:
    if bucket == 0:
        return BOUNDS[0]
    return math.sqrt(BOUNDS[bucket - 1] * BOUNDS[bucket]) if bucket < len(BOUNDS) else math.inf
