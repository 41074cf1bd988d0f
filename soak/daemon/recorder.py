"""Records rates and latencies of each store every second, for the charts of page and reports."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import msgspec
import structlog

from soak.api.status import SoakStatus, VerifierStatus
from soak.ledger.records import LATENCY_BUCKETS_SECONDS
from soak.report.series import Point, Series, SeriesFile, quantile
from soak.verifier.result import Measured, StoreResult

INTERVAL_SECONDS = 1.0
RECENT_POINTS_MAX = 900
"""Points kept at full resolution, besides the merged ones: a quarter of an hour."""
UNANSWERED_SECONDS_MAX = 10.0
"""If the verifier does not answer for longer than this, the charts show a gap."""

_log = structlog.get_logger("soak.daemon")


class SeriesRecorder:
    """Keeps the whole run in few points, and the last minutes in full."""

    def __init__(self, path: Path, run: str, stores: list[str]) -> None:
        self._file = SeriesFile(path, run, stores)
        self._last: VerifierStatus | None = None
        self._is_writable = True
        self.whole: dict[str, Series] = {store: Series() for store in stores}
        """The whole run, all its daemons taken together."""
        self.recent: dict[str, deque[Point]] = {store: deque(maxlen=RECENT_POINTS_MAX) for store in stores}

    async def record(self, snapshot: Callable[[], Awaitable[SoakStatus]]) -> None:
        """Measure and write down until cancelled."""
        await self._open()
        while True:
            await self.note((await snapshot()).verifier)
            await asyncio.sleep(INTERVAL_SECONDS)

    async def note(self, status: VerifierStatus | None) -> None:
        """Record what has happened since the last status."""
        if status is None or not status.measured:
            return
        if self._last is not None and status.at_us == self._last.at_us:
            return
        before, self._last = self._last, status
        points = difference(before, status) if before is not None else {}
        points = {store: point for store, point in points.items() if store in self.whole}
        for store, point in points.items():
            self.whole[store].add(point)
            self.recent[store].append(point)
        if points:
            await self._write(points)

    async def end(self, by_store: Sequence[StoreResult], at_wall_seconds: float) -> None:
        """Record what the verifier found after its last answer: the charts end with the numbers of its result."""
        last = self._last
        if last is None:
            return
        rows = {row.store: row for row in by_store}
        measured = [
            msgspec.structs.replace(one, verified=rows[one.store].verified, violations=rows[one.store].violations)
            for one in last.measured
            if one.store in rows
        ]
        at_us = last.at_us + round((at_wall_seconds - last.at_wall_seconds) * 1e6)
        await self.note(msgspec.structs.replace(last, at_us=at_us, at_wall_seconds=at_wall_seconds, measured=measured))

    async def _open(self) -> None:
        try:
            found = await asyncio.to_thread(self._file.open)
        except OSError as error:
            self._complain(error)
            return
        for store, series in found.items():
            self.whole[store] = series
            self.recent[store].extend(point for point in series.points if series.step_seconds == INTERVAL_SECONDS)

    async def _write(self, points: dict[str, Point]) -> None:
        try:
            # In a thread: a disk that is slow must not hold up the daemon.
            if await asyncio.to_thread(self._file.append, points):
                kept = {store: list(series.points) for store, series in self.whole.items()}
                await asyncio.to_thread(self._file.rewrite, kept)
            self._is_writable = True
        except OSError as error:
            self._complain(error)

    def _complain(self, error: OSError) -> None:
        if self._is_writable:
            _log.warning("series_not_written", error=error)
        self._is_writable = False


def difference(before: VerifierStatus, after: VerifierStatus) -> dict[str, Point]:
    """Return what happened on each store between two statuses; nothing where that is not known."""
    seconds = (after.at_us - before.at_us) / 1e6
    if not 0 < seconds <= UNANSWERED_SECONDS_MAX:
        return {}
    earlier = {one.store: one for one in before.measured}
    return {
        later.store: _point(earlier[later.store], later, after.at_wall_seconds, seconds)
        for later in after.measured
        # A verifier that was killed counts a little again what it had counted already.
        if later.store in earlier and _has_grown(earlier[later.store], later)
    }


def _has_grown(before: Measured, after: Measured) -> bool:
    return (
        after.acknowledged >= before.acknowledged
        and after.verified >= before.verified
        and after.errors >= before.errors
        and all(later >= earlier for earlier, later in zip(before.appends, after.appends, strict=True))
        and all(later >= earlier for earlier, later in zip(before.reads, after.reads, strict=True))
    )


def _point(before: Measured, after: Measured, at_wall_seconds: float, seconds: float) -> Point:
    appends = [later - earlier for earlier, later in zip(before.appends, after.appends, strict=True)]
    reads = [later - earlier for earlier, later in zip(before.reads, after.reads, strict=True)]
    return Point(
        at_wall_seconds=at_wall_seconds,
        acknowledged_rate=(after.acknowledged - before.acknowledged) / seconds,
        read_rate=sum(reads) / seconds,
        error_rate=(after.errors - before.errors) / seconds,
        append_p50_seconds=quantile(appends, LATENCY_BUCKETS_SECONDS, 0.5),
        append_p99_seconds=quantile(appends, LATENCY_BUCKETS_SECONDS, 0.99),
        read_p50_seconds=quantile(reads, LATENCY_BUCKETS_SECONDS, 0.5),
        read_p99_seconds=quantile(reads, LATENCY_BUCKETS_SECONDS, 0.99),
        verified_rate=(after.verified - before.verified) / seconds,
        violations=after.violations,
        unverified_seconds=after.unverified_seconds,
        seconds=seconds,
    )


FIELDS = Point.__struct_fields__
DIGITS = 5
"""More than these nobody sees in a chart; moments keep theirs."""


class Measurements(Protocol):
    """Whoever measures as it goes."""

    @property
    def whole(self) -> Mapping[str, Series]: ...

    @property
    def recent(self) -> Mapping[str, Sequence[Point]]: ...


class ChartPoints(msgspec.Struct, frozen=True, kw_only=True):
    """The points of each store, the oldest first, as rows of the named fields."""

    fields: tuple[str, ...]
    stores: dict[str, list[list[float | None]]]


def chart_points(measurements: Measurements, since_wall_seconds: float = 0.0) -> ChartPoints:
    """Return the points of each store since a moment, the oldest first, as rows of the named fields."""
    return ChartPoints(
        fields=FIELDS,
        stores={
            store: [_row(point) for point in _points(measurements, store) if point.at_wall_seconds > since_wall_seconds]
            for store in measurements.whole
        },
    )


def _points(measurements: Measurements, store: str) -> list[Point]:
    recent = list(measurements.recent[store])
    earlier = measurements.whole[store].points
    if recent:
        earlier = [point for point in earlier if point.at_wall_seconds < recent[0].at_wall_seconds]
    return [*earlier, *recent]


def _row(point: Point) -> list[float | None]:
    values = (getattr(point, field) for field in FIELDS)
    return [_short(value) if field != "at_wall_seconds" else value for field, value in zip(FIELDS, values, strict=True)]


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.{DIGITS}g}")
