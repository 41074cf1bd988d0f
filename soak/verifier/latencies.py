"""How long operations of participants took, apart for those inside of faults and those outside.

An operation is inside if any moment of it lies between the beginning of a fault on a server of its store and the end of
that fault or, if later, the first read and write that were answered again. Operations are counted by slots of a quarter
second, and one slot too many counts as inside: what is outside was never touched by a fault.

A fault may become known late, a server that died by itself for instance. So operations wait before they are assigned.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from soak.histogram import LogHistogram, longest_seconds
from soak.ledger.records import LATENCY_SLOT_US, LatencyTally
from soak.verifier.result import LatencyResult

if TYPE_CHECKING:
    from soak.verifier.state import State

MEASURED = {"append": "append", "history": "read", "recall": "read", "search": "search", "forget": "forget"}
"""What participants do, and as what it is reported."""
WAIT_SLOTS = 40
"""Ten seconds: longer than it takes to notice that a server has restarted."""
_US = 1e6


class Timed(msgspec.Struct):
    """Operations of one kind: how long those took that were answered, and how many were not."""

    latency: LogHistogram = msgspec.field(default_factory=LogHistogram)
    errors: int = 0


class OperationTimes(msgspec.Struct):
    """The operations of one store, by what they are reported as."""

    outside: dict[str, Timed] = msgspec.field(default_factory=dict)
    inside: dict[str, Timed] = msgspec.field(default_factory=dict)
    waiting: list[LatencyTally] = msgspec.field(default_factory=list)
    """The latest, not yet assigned; one for each operation and slot."""


class Span(NamedTuple):
    """From the beginning of a fault until it was over for the store's clients."""

    since_us: float
    until_us: float


def take(times: OperationTimes, tally: LatencyTally, spans: Callable[[], list[Span]]) -> None:
    """Count operations, and assign those that have waited long enough."""
    if tally.operation not in MEASURED:
        return
    same = (one for one in reversed(times.waiting) if (one.operation, one.slot) == (tally.operation, tally.slot))
    known = next(same, None)
    if known is not None:
        known.add(tally)
        return
    newest = max((one.slot for one in times.waiting), default=tally.slot)
    times.waiting.append(tally)
    if tally.slot > newest:
        due = [one for one in times.waiting if one.slot < tally.slot - WAIT_SLOTS]
        if due:
            times.waiting = [one for one in times.waiting if one.slot >= tally.slot - WAIT_SLOTS]
            _assign(times, due, spans())


def _assign(times: OperationTimes, tallies: Iterable[LatencyTally], spans: list[Span]) -> None:
    for tally in tallies:
        name = MEASURED[tally.operation]
        slowest = max(tally.counts, default=0)
        if not _is_touched(tally.slot, max((slowest, *tally.errors)), spans):
            # Nothing of it was inside, as of nearly every tally: it need not be looked at one bucket at a time.
            timed = times.outside.setdefault(name, Timed())
            timed.latency.merge(LogHistogram(tally.counts, tally.max_seconds))
            timed.errors += sum(tally.errors.values())
            continue
        for bucket, count in tally.counts.items():
            timed = _side(times, tally.slot, bucket, spans).setdefault(name, Timed())
            timed.latency.add(bucket, count, tally.max_seconds if bucket == slowest else longest_seconds(bucket))
        for bucket, count in tally.errors.items():
            _side(times, tally.slot, bucket, spans).setdefault(name, Timed()).errors += count


def _side(times: OperationTimes, slot: int, bucket: int, spans: list[Span]) -> dict[str, Timed]:
    return times.inside if _is_touched(slot, bucket, spans) else times.outside


def _is_touched(slot: int, bucket: int, spans: list[Span]) -> bool:
    """Whether operations of this slot that took so long had a moment inside of a fault."""
    if not spans:
        return False
    began_us = slot * LATENCY_SLOT_US - longest_seconds(bucket) * _US
    ended_us = (slot + 1) * LATENCY_SLOT_US
    return any(span.since_us < ended_us and began_us < span.until_us for span in spans)


def spans_of(state: State, store: str) -> list[Span]:
    """Return when the store was under a fault, its recovery included."""
    spans = []
    for window in state.faults.values():
        if window.target not in state.targets[store]:
            continue
        recovery = state.tally.recoveries.get(f"{window.fault}/{store}")
        until: float = math.inf if window.ended is None else window.ended
        if recovery is not None and window.ended is not None:
            answered = [one for one in (recovery.read_seconds, recovery.write_seconds) if one is not None]
            is_open = state.recovery_times.is_open(window, store) and recovery.awaits
            until = math.inf if is_open else max(until, *(window.started + one * _US for one in answered), 0)
        spans.append(Span(window.started, until))
    return spans


def latencies_of(state: State) -> list[LatencyResult]:
    """Return the percentiles of every store and operation, first those outside of faults."""
    return [
        _result(store, name, timed, in_fault=in_fault)
        for store, tally in state.tally.stores.items()
        for in_fault, side in enumerate(_sides(tally.times, spans_of(state, store)))
        for name in dict.fromkeys(MEASURED.values())
        if (timed := side.get(name)) is not None
    ]


def _sides(times: OperationTimes, spans: list[Span]) -> tuple[Mapping[str, Timed], Mapping[str, Timed]]:
    """Return what was outside and what was inside, the latest included as far as anyone knows now."""
    now = OperationTimes(_copied(times.outside), _copied(times.inside))
    _assign(now, times.waiting, spans)
    return now.outside, now.inside


def _copied(side: dict[str, Timed]) -> dict[str, Timed]:
    return {
        name: Timed(LogHistogram(dict(timed.latency.counts), timed.latency.max_seconds), timed.errors)
        for name, timed in side.items()
    }


def _result(store: str, name: str, timed: Timed, *, in_fault: int) -> LatencyResult:
    latency = timed.latency
    return LatencyResult(
        store=store,
        operation=name,
        in_fault=bool(in_fault),
        count=latency.total,
        errors=timed.errors,
        p50_seconds=_rounded(latency.quantile(0.5)),
        p95_seconds=_rounded(latency.quantile(0.95)),
        p99_seconds=_rounded(latency.quantile(0.99)),
        max_seconds=_rounded(latency.max_seconds if latency.total else None),
    )


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 6)
