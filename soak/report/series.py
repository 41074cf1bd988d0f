"""Rates, latencies and counts over the whole run, in a bounded number of points, and their file.

Rates, latencies and counts of one store, as they were measured about every second. When there are too many points,
neighbours are merged and the step doubles: weeks fit into as many points as an hour, at one width throughout. A time
in which nobody measured is a gap. Nothing is merged across it, and nothing should be drawn across it.

The file has a line for each point, appended as it is measured: a kill loses the last at most. Its first line names the
run and its stores. When it has grown too large it is rewritten from the merged points, in one step.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path

import msgspec

from soak.json_input import decode_json
from soak.proc.files import replacing

FILE_NAME = "series.jsonl"
SCHEMA = 1
FILE_BYTES_MAX = 4 * 1024 * 1024
"""At this size it is rewritten; of a store's points no more than `POINTS_MAX` remain, about 200 KB."""
FILE_READ_BYTES_MAX = 16 * FILE_BYTES_MAX
DECIMALS = 6
POINTS_MAX = 2_000
STEP_SECONDS = 1.0
GAP_SECONDS = 1.5
"""Two points that are further apart than this have a gap between them."""


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """One store from `at_wall_seconds - seconds` to `at_wall_seconds`."""

    at_wall_seconds: float
    acknowledged_rate: float
    """Per second, as all rates."""
    read_rate: float
    """Reads of participants; those of the verifier do not count."""
    error_rate: float
    """Operations of participants without an answer."""
    append_p50_seconds: float | None
    """None: there was none to measure."""
    append_p99_seconds: float | None
    read_p50_seconds: float | None
    read_p99_seconds: float | None
    verified_rate: float
    violations: int
    """All of the run so far."""
    unverified_seconds: float
    """Age of the oldest acknowledgement not yet verified."""
    seconds: float = STEP_SECONDS
    """How long it was measured."""

    @property
    def since_wall_seconds(self) -> float:
        return self.at_wall_seconds - self.seconds


class Series:
    """The points of one store, the oldest first."""

    def __init__(self, points_max: int = POINTS_MAX, *, step_seconds: float = STEP_SECONDS) -> None:
        if points_max < 2:
            raise ValueError(f"a series of {points_max} points cannot be merged; at least 2 are needed")
        self.step_seconds = step_seconds
        """The width of a point; it doubles whenever there are too many."""
        self._points_max = points_max
        self._points: list[Point] = []

    def __len__(self) -> int:
        return len(self._points)

    @property
    def points(self) -> Sequence[Point]:
        return self._points

    def add(self, point: Point) -> None:
        """Take up what was measured; a point from before the last one is dropped, for the clock was set back."""
        if point.seconds <= 0 or (self._points and point.at_wall_seconds <= self._points[-1].at_wall_seconds):
            return
        self._take(point)
        whole_seconds = point.at_wall_seconds - self._points[0].since_wall_seconds
        while len(self._points) > self._points_max and self.step_seconds < whole_seconds:
            self._coarsen()
        # Only gaps without number come to this: nothing can be merged across them, so the oldest go.
        del self._points[: max(0, len(self._points) - self._points_max)]

    def stretches(self) -> list[list[Point]]:
        """Return the points in stretches without a gap: what may be drawn as one line."""
        found: list[list[Point]] = []
        for point in self._points:
            if found and is_joined(found[-1][-1], point):
                found[-1].append(point)
            else:
                found.append([point])
        return found

    def _take(self, point: Point) -> None:
        last = self._points[-1] if self._points else None
        if last is not None and is_joined(last, point) and self._has_room(last, point):
            self._points[-1] = merged(last, point)
        else:
            self._points.append(point)

    def _has_room(self, last: Point, point: Point) -> bool:
        # To the nearest: measuring is never quite punctual, and two points of a step would not fit into the next one.
        return point.at_wall_seconds - last.since_wall_seconds <= self.step_seconds + point.seconds / 2

    def _coarsen(self) -> None:
        self.step_seconds *= 2
        finer, self._points = self._points, []
        for point in finer:
            self._take(point)


def is_joined(earlier: Point, later: Point) -> bool:
    """Whether the later one begins where the earlier one ends."""
    return later.since_wall_seconds - earlier.at_wall_seconds <= GAP_SECONDS


def merged(earlier: Point, later: Point) -> Point:
    """Make one of two neighbours: rates are averaged, medians weighted, the worst latency and the last counts kept."""
    # From the beginning of the one to the end of the other, so that no gap opens where two were almost adjoining.
    seconds = later.at_wall_seconds - min(earlier.since_wall_seconds, later.since_wall_seconds)

    def rate(one: float, other: float) -> float:
        return (one * earlier.seconds + other * later.seconds) / seconds

    appends = (earlier.acknowledged_rate * earlier.seconds, later.acknowledged_rate * later.seconds)
    reads = (earlier.read_rate * earlier.seconds, later.read_rate * later.seconds)
    return Point(
        at_wall_seconds=later.at_wall_seconds,
        acknowledged_rate=rate(earlier.acknowledged_rate, later.acknowledged_rate),
        read_rate=rate(earlier.read_rate, later.read_rate),
        error_rate=rate(earlier.error_rate, later.error_rate),
        append_p50_seconds=_weighted(earlier.append_p50_seconds, later.append_p50_seconds, appends),
        append_p99_seconds=_worst(earlier.append_p99_seconds, later.append_p99_seconds),
        read_p50_seconds=_weighted(earlier.read_p50_seconds, later.read_p50_seconds, reads),
        read_p99_seconds=_worst(earlier.read_p99_seconds, later.read_p99_seconds),
        verified_rate=rate(earlier.verified_rate, later.verified_rate),
        violations=later.violations,
        unverified_seconds=max(earlier.unverified_seconds, later.unverified_seconds),
        seconds=seconds,
    )


def quantile(counts: Sequence[int], bounds: Sequence[float], share: float) -> float | None:
    """Return the value below which this share lies, evenly spread within its bucket; None if nothing was counted.

    There is one count for each bound, for what is at most that large, and a last one for what is larger than all:
    of that no more is known than that it is at least the last bound.
    """
    total = sum(counts)
    if total <= 0:
        return None
    rank = share * total
    lower, below = 0.0, 0
    for upper, count, reached in zip(bounds, counts, accumulate(counts), strict=False):
        if reached >= rank and count:
            return lower + (upper - lower) * (rank - below) / count
        lower, below = upper, reached
    return bounds[-1]


def series_of(points: Iterable[Point], points_max: int = POINTS_MAX) -> Series:
    """Make a series of points, the oldest first."""
    series = Series(points_max)
    for point in points:
        series.add(point)
    return series


def _weighted(one: float | None, other: float | None, weights: tuple[float, float]) -> float | None:
    if one is None or other is None:
        return other if one is None else one
    total = sum(weights)
    if total <= 0:
        return (one + other) / 2
    # Between the two, whatever rounding does.
    return min(max((one * weights[0] + other * weights[1]) / total, min(one, other)), max(one, other))


def _worst(one: float | None, other: float | None) -> float | None:
    return max(_known(one, other), default=None)


def _known(*values: float | None) -> Iterator[float]:
    return (value for value in values if value is not None)


class SeriesHead(msgspec.Struct, frozen=True, kw_only=True):
    """The first line."""

    schema: int
    run: str
    stores: list[str]


class SeriesFile:
    """Appends points, and keeps the file small."""

    def __init__(self, path: Path, run: str, stores: list[str]) -> None:
        self._path = path
        self._head = SeriesHead(schema=SCHEMA, run=run, stores=stores)
        self._bytes_max = FILE_BYTES_MAX

    def open(self) -> dict[str, Series]:
        """Return what was recorded of this run, and write it again: the last line may have been cut off."""
        series = read_series(self._path, self._head.run, self._head.stores)
        self.rewrite({store: one.points for store, one in series.items()})
        return series

    def append(self, points: Mapping[str, Point]) -> bool:
        """Write these down; returns whether the file has become too large. Raises OSError."""
        lines = b"".join(self._line(store, point) for store, point in points.items())
        with self._path.open("ab") as file:
            file.write(lines)
            size = file.tell()
        return size > self._bytes_max

    def rewrite(self, points: Mapping[str, Iterable[Point]]) -> None:
        """Write the merged points in place of all that were measured. Raises OSError."""
        with replacing(self._path, mode=0o644, is_synced=False) as file:
            file.write(msgspec.json.encode(self._head) + b"\n")
            for store, ones in points.items():
                file.writelines(self._line(store, one) for one in ones)
            # With many stores even what is merged may fill the file: it must not be rewritten every second.
            self._bytes_max = max(FILE_BYTES_MAX, 2 * file.tell())

    def _line(self, store: str, point: Point) -> bytes:
        values = (_rounded(value) for value in msgspec.structs.astuple(point))
        # Each begins a line of its own, also where the one before was cut off by a disk that was full.
        return b"\n" + msgspec.json.encode([self._head.stores.index(store), *values])


def read_series(path: Path, run: str, stores: list[str] | None = None) -> dict[str, Series]:
    """Return the series of each store of this run; empty ones where nothing, or nothing of this run, was recorded.

    Lines that were cut off or damaged are left out.
    """
    series = {store: Series() for store in stores or []}
    try:
        with path.open("rb") as file:
            head = decode_json(file.readline(), type=SeriesHead)
            if head.schema != SCHEMA or head.run != run:
                return series
            lines = file.read(FILE_READ_BYTES_MAX).splitlines()
    except (OSError, msgspec.MsgspecError):
        return series
    series |= {store: Series() for store in head.stores if store not in series}
    for line in filter(None, lines):
        with contextlib.suppress(msgspec.MsgspecError, IndexError, ValueError):
            number, *values = decode_json(line, type=list[int | float | None])
            series[head.stores[int(number or 0)]].add(_point(values))
    return series


def _point(values: list[int | float | None]) -> Point:
    return msgspec.convert(dict(zip(Point.__struct_fields__, values, strict=True)), type=Point)


def _rounded(value: float | None) -> float | None:
    return round(value, DECIMALS) if isinstance(value, float) else value
