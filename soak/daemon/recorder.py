"""Keeps a record of how it went: each second what the verifier has counted, as rates and latencies of each store."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import structlog

from soak.daemon.snapshot import Snapshot
from soak.ledger.records import LATENCY_BUCKETS_SECONDS
from soak.report.series import Point, Series, quantile
from soak.report.series_file import SeriesFile
from soak.verifier.result import Measured

INTERVAL_SECONDS = 1.0
RECENT_POINTS_MAX = 900
"""Points of full resolution that are kept besides the merged ones: a quarter of an hour."""
UNANSWERED_SECONDS_MAX = 10.0
"""Of a longer time without an answer of the verifier nothing is drawn: it is a gap."""

_log = structlog.get_logger("soak.daemon")


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """What the verifier had counted at one moment."""

    at_us: int
    at_wall_seconds: float
    measured: list[Measured]


class Recorder:
    """Remembers the whole run in few points, and the last minutes in full."""

    def __init__(self, path: Path, run: str, stores: list[str]) -> None:
        self._file = SeriesFile(path, run, stores)
        self._last: Sample | None = None
        self._is_writable = True
        self.whole: dict[str, Series] = {store: Series() for store in stores}
        """The whole run, all its daemons taken together."""
        self.recent: dict[str, deque[Point]] = {store: deque(maxlen=RECENT_POINTS_MAX) for store in stores}

    async def record(self, snapshot: Callable[[], Awaitable[Snapshot]]) -> None:
        """Measure and write down until cancelled."""
        await self._open()
        while True:
            await self.note((await snapshot()).verifier)
            await asyncio.sleep(INTERVAL_SECONDS)

    async def note(self, status: dict[str, Any] | None) -> None:
        """Take up what the verifier says of itself."""
        sample = sample_of(status)
        if sample is None or (self._last is not None and sample.at_us == self._last.at_us):
            return
        before, self._last = self._last, sample
        points = difference(before, sample) if before is not None else {}
        points = {store: point for store, point in points.items() if store in self.whole}
        for store, point in points.items():
            self.whole[store].add(point)
            self.recent[store].append(point)
        if points:
            await self._write(points)

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
            _log.warning("how it goes cannot be recorded; the charts of a report will have gaps", error=error)
        self._is_writable = False


def sample_of(status: dict[str, Any] | None) -> Sample | None:
    """Return what a verifier's status says was counted; None if it says nothing of the kind."""
    try:
        return msgspec.convert(status, type=Sample)
    except msgspec.ValidationError:
        return None


def difference(before: Sample, after: Sample) -> dict[str, Point]:
    """Return what happened between two samples on each store; nothing where that cannot be told."""
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
