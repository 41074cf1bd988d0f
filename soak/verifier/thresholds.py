"""Holding what was measured against the thresholds of the settings. A quantity without samples never passes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from soak.thresholds import ERRORS, RECOVERY_TIME, STALENESS, Limits, Threshold, format_value, thresholds_in
from soak.verifier.result import LatencyResult, RecoveryResult, ThresholdResult, ThresholdState

Staleness = Mapping[str, Mapping[str, float | None]]
"""By store and statistic, in seconds."""


class ThresholdInputs(NamedTuple):
    """What thresholds are about."""

    latencies: Sequence[LatencyResult]
    recoveries: Sequence[RecoveryResult]
    staleness: Staleness


def judge(limits: Limits, stores: Sequence[str], measured: ThresholdInputs) -> list[ThresholdResult]:
    """Judge each threshold: one without a store on every store that has samples and no such threshold of its own."""
    every = list(thresholds_in(limits))
    own = {(one.store, one.name) for one in every}
    results: list[ThresholdResult] = []
    for threshold in every:
        if not threshold.store:
            results += _judge(threshold, [store for store in stores if (store, threshold.name) not in own], measured)
        elif threshold.store in stores:
            results += _judge(threshold, [threshold.store], measured)
    return results


def _judge(threshold: Threshold, stores: Sequence[str], measured: ThresholdInputs) -> Iterable[ThresholdResult]:
    values = {store: _value(threshold, store, measured) for store in stores}
    known = {store: value for store, value in values.items() if value is not None}
    if stores and not known:
        return [_result(threshold, threshold.store, None)]
    return [_result(threshold, store, value) for store, value in known.items()]


def _value(threshold: Threshold, store: str, measured: ThresholdInputs) -> float | None:
    """Return what was measured; None without samples, infinite where a recovery was not seen to its end."""
    if threshold.quantity == STALENESS:
        return measured.staleness.get(store, {}).get(threshold.statistic)
    if threshold.quantity == RECOVERY_TIME:
        return _recovery_seconds([one for one in measured.recoveries if one.store == store], threshold.limit)
    rows = [row for row in measured.latencies if (row.store, row.in_fault) == (store, threshold.in_fault)]
    if threshold.quantity == ERRORS:
        tries = sum(row.count + row.errors for row in rows)
        return sum(row.errors for row in rows) / tries if tries else None
    own = (row for row in rows if row.operation == threshold.quantity)
    return next((getattr(row, f"{threshold.statistic}_seconds") for row in own), None)


def _recovery_seconds(recoveries: list[RecoveryResult], limit: float) -> float | None:
    """Return the longest; one that was not seen to its end matters only where no other is too long already."""
    times = [seconds for one in recoveries for seconds in (one.read_seconds, one.write_seconds)]
    longest = max((seconds for seconds in times if seconds is not None), default=0.0)
    if not times:
        return None
    return math.inf if None in times and longest <= limit else longest


def _result(threshold: Threshold, store: str, value: float | None) -> ThresholdResult:
    name = threshold.name
    unknown = value is None or math.isinf(value)
    if value is None or unknown:
        state, shown = ThresholdState.NO_SAMPLES, "no samples" if value is None else "a recovery was not seen"
    else:
        state = ThresholdState.MET if value <= threshold.limit else ThresholdState.MISSED
        shown = format_value(name, value)
    return ThresholdResult(
        name=name,
        store=store,
        limit=threshold.limit,
        value=None if unknown else value,
        state=state,
        line=f"{f'{store} ' if store else ''}{name}: {shown}, at most {threshold.text}",
    )
