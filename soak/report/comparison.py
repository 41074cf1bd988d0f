"""Two runs side by side: what the second found that the first did not, and what became slower. Values only."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from soak.checker.kinds import Kind
from soak.errors import ExitCode, UsageError
from soak.report.outcome import RunOutcome
from soak.verifier.result import LatencyResult, Result, ThresholdState

SCHEMA = 1
LOSSES = frozenset({Kind.LOST.value, Kind.ROLLED_BACK.value})
_UNKNOWN_CAUSE = "unknown"


class FindingFate(enum.Enum):
    """How a finding of the second run stands to those of the first."""

    NEW = "new"
    GONE = "gone"
    SAME = "same"


class ComparedRun(msgspec.Struct, frozen=True, kw_only=True):
    """One of the two runs."""

    run: str
    verdict: str
    version: str
    """Of soak; empty: not known."""
    seed: str
    ended_wall_seconds: float
    seconds: float
    stores: list[str]


class BeforeAfter(msgspec.Struct, frozen=True, kw_only=True):
    """A quantity in both runs."""

    before: float | None
    after: float | None
    ratio: float | None
    """The second over the first, where both are known and the first is not zero."""


class FindingChange(msgspec.Struct, frozen=True, kw_only=True):
    """A finding of either run, by store, kind and probable cause."""

    change: FindingFate
    store: str
    kind: str
    cause: str
    count: BeforeAfter
    share: BeforeAfter
    """Of what the store acknowledged."""


class StoreChange(msgspec.Struct, frozen=True, kw_only=True):
    """What was counted for one store."""

    store: str
    acknowledged: BeforeAfter
    violations: BeforeAfter
    lost_share: BeforeAfter
    """Messages lost or rolled back outside the contract, of those acknowledged."""


class LatencyChange(msgspec.Struct, frozen=True, kw_only=True):
    """How long one operation took."""

    store: str
    operation: str
    in_fault: bool
    p50_seconds: BeforeAfter
    p95_seconds: BeforeAfter
    p99_seconds: BeforeAfter
    max_seconds: BeforeAfter


class RecoveryChange(msgspec.Struct, frozen=True, kw_only=True):
    """How long one kind of fault kept one store away, the worst of each run."""

    store: str
    fault: str
    count: BeforeAfter
    read_seconds: BeforeAfter
    write_seconds: BeforeAfter


class ThresholdChange(msgspec.Struct, frozen=True, kw_only=True):
    """How one threshold stands; None: that run has no such threshold."""

    store: str
    name: str
    before: ThresholdState | None
    after: ThresholdState | None
    value: BeforeAfter


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """The whole comparison, as `--json` prints it."""

    schema: int = SCHEMA
    before: ComparedRun
    after: ComparedRun
    exit_code: int
    """0: the same or better; 1: new violations; 4: the second run is inconclusive; 6: a threshold newly missed."""
    summary: str
    notes: list[str]
    """What limits the comparison."""
    stores: list[StoreChange]
    findings: list[FindingChange]
    latencies: list[LatencyChange]
    recoveries: list[RecoveryChange]
    thresholds: list[ThresholdChange]


class _Both(NamedTuple):
    before: Result
    after: Result
    stores: list[str]


def compare(before: RunOutcome, after: RunOutcome) -> Comparison:
    """Compare two runs on the stores they have in common."""
    heads = (_head(before), _head(after))
    first, second = (_result_of(outcome) for outcome in (before, after))
    common = [store for store in heads[0].stores if store in heads[1].stores]
    if not common:
        names = (", ".join(head.stores) or "none" for head in heads)
        raise UsageError("the runs have no store in common: the first has {}, the second {}".format(*names))
    both = _Both(first, second, common)
    findings, thresholds = _findings(both), _thresholds(both)
    code, summary = _judge(after.verdict, findings, thresholds)
    return Comparison(
        before=heads[0],
        after=heads[1],
        exit_code=int(code),
        summary=summary,
        notes=list(_notes(heads, both)),
        stores=[_store(both, store) for store in common],
        findings=findings,
        latencies=_latencies(both),
        recoveries=_recoveries(both),
        thresholds=thresholds,
    )


def _result_of(outcome: RunOutcome) -> Result:
    if outcome.result is None:
        raise UsageError(f"run {outcome.run} measured nothing: {'; '.join(outcome.reasons) or 'it did not begin'}")
    return outcome.result


def _head(outcome: RunOutcome) -> ComparedRun:
    result = _result_of(outcome)
    return ComparedRun(
        run=outcome.run,
        verdict=outcome.verdict,
        version="" if outcome.setup is None else outcome.setup.version,
        seed=result.seed,
        ended_wall_seconds=result.ended_wall_seconds,
        seconds=max(0.0, result.ended_wall_seconds - result.started_wall_seconds),
        stores=[row.store for row in result.by_store],
    )


def _judge(verdict: str, findings: list[FindingChange], thresholds: list[ThresholdChange]) -> tuple[ExitCode, str]:
    """Return the exit code of the comparison, and why."""
    new = [one for one in findings if one.change is FindingFate.NEW]
    if new:
        return ExitCode.VIOLATION, f"{len(new)} new finding{'s' * (len(new) > 1)}"
    if verdict not in {"pass", "violation", "threshold"}:
        return ExitCode.INCONCLUSIVE, f"no new findings, and the second run is {verdict}: it proves nothing"
    missed = [one for one in thresholds if ThresholdState.MISSED is one.after and one.before is not one.after]
    if missed:
        names = ", ".join(f"{one.store} {one.name}" for one in missed)
        return ExitCode.THRESHOLD, f"no new findings; newly missed: {names}"
    gone = sum(one.change is FindingFate.GONE for one in findings)
    return ExitCode.PASS, f"no new findings{f', {gone} gone' if gone else ''}"


def _notes(heads: tuple[ComparedRun, ComparedRun], both: _Both) -> Iterable[str]:
    before, after = heads
    if before.version != after.version:
        versions = (head.version or "an unknown version" for head in heads)
        yield "the runs are of different versions of soak: {} and {}".format(*versions)
    for which, result in (("first", both.before), ("second", both.after)):
        for row in result.by_store:
            if row.store not in both.stores:
                yield f"only the {which} run has {row.store}, with {row.violations:,} violations: left out"
    if min(before.seconds, after.seconds) < 0.5 * max(before.seconds, after.seconds):
        yield "one run is more than twice as long as the other: compare shares and percentiles, not counts"


def _pair(before: float | None, after: float | None) -> BeforeAfter:
    ratio = after / before if before and after is not None else None
    return BeforeAfter(before=before, after=after, ratio=None if ratio is None else round(ratio, 4))


def _store(both: _Both, store: str) -> StoreChange:
    rows = [next(row for row in result.by_store if row.store == store) for result in (both.before, both.after)]
    return StoreChange(
        store=store,
        acknowledged=_pair(*(row.acknowledged for row in rows)),
        violations=_pair(*(row.violations for row in rows)),
        lost_share=_pair(*(_lost_share(result, store) for result in (both.before, both.after))),
    )


def _acknowledged(result: Result, store: str) -> int:
    return sum(row.acknowledged for row in result.by_store if row.store == store)


def _lost_share(result: Result, store: str) -> float | None:
    lost = sum(row.count for row in result.violations_by if row.store == store and row.kind in LOSSES)
    acknowledged = _acknowledged(result, store)
    return lost / acknowledged if acknowledged else None


def _findings(both: _Both) -> list[FindingChange]:
    known = [_counts(result, both.stores) for result in (both.before, both.after)]
    changes = [
        _finding(both, key, known[0].get(key, 0), known[1].get(key, 0)) for key in dict.fromkeys((*known[1], *known[0]))
    ]
    return sorted(changes, key=lambda one: list(FindingFate).index(one.change))


def _counts(result: Result, stores: list[str]) -> dict[tuple[str, str, str], int]:
    """Count violations by store, kind and cause; those that no finding lists have an unknown cause."""
    counts: dict[tuple[str, str, str], int] = {}
    for one in result.findings:
        counts[one.store, one.kind, one.cause] = counts.get((one.store, one.kind, one.cause), 0) + one.count
    for row in result.violations_by:
        listed = sum(count for (store, kind, _), count in counts.items() if (store, kind) == (row.store, row.kind))
        if not listed:
            counts[row.store, row.kind, _UNKNOWN_CAUSE] = row.count
    return {key: count for key, count in counts.items() if key[0] in stores and count}


def _finding(both: _Both, key: tuple[str, str, str], before: int, after: int) -> FindingChange:
    store, kind, cause = key
    totals = [_acknowledged(result, store) for result in (both.before, both.after)]
    shares = [count / total if total else None for count, total in zip((before, after), totals, strict=True)]
    return FindingChange(
        change=FindingFate.SAME if before and after else FindingFate.NEW if after else FindingFate.GONE,
        store=store,
        kind=kind,
        cause=cause,
        count=_pair(before, after),
        share=_pair(*shares),
    )


def _latencies(both: _Both) -> list[LatencyChange]:
    known = [
        {(row.store, row.operation, row.in_fault): row for row in result.latencies if row.store in both.stores}
        for result in (both.before, both.after)
    ]
    return [_latency(key, [of_run.get(key) for of_run in known]) for key in dict.fromkeys((*known[0], *known[1]))]


def _latency(key: tuple[str, str, bool], rows: list[LatencyResult | None]) -> LatencyChange:
    store, operation, in_fault = key
    names = ("p50_seconds", "p95_seconds", "p99_seconds", "max_seconds")
    pairs = {name: _pair(*(None if row is None else getattr(row, name) for row in rows)) for name in names}
    return LatencyChange(store=store, operation=operation, in_fault=in_fault, **pairs)


def _recoveries(both: _Both) -> list[RecoveryChange]:
    keys = dict.fromkeys(
        (row.store, row.kind)
        for result in (both.before, both.after)
        for row in result.recoveries
        if row.store in both.stores
    )
    return [_recovery(both, *key) for key in keys]


def _recovery(both: _Both, store: str, kind: str) -> RecoveryChange:
    rows = [
        [row for row in result.recoveries if (row.store, row.kind) == (store, kind)]
        for result in (both.before, both.after)
    ]
    return RecoveryChange(
        store=store,
        fault=kind,
        count=_pair(*(len(of_run) for of_run in rows)),
        read_seconds=_pair(*(_worst(row.read_seconds for row in of_run) for of_run in rows)),
        write_seconds=_pair(*(_worst(row.write_seconds for row in of_run) for of_run in rows)),
    )


def _worst(seconds: Iterable[float | None]) -> float | None:
    return max((one for one in seconds if one is not None), default=None)


def _thresholds(both: _Both) -> list[ThresholdChange]:
    known = [
        {(one.store, one.name): one for one in result.thresholds if not one.store or one.store in both.stores}
        for result in (both.before, both.after)
    ]
    changes = []
    for store, name in dict.fromkeys((*known[0], *known[1])):
        before, after = (of_run.get((store, name)) for of_run in known)
        changes.append(
            ThresholdChange(
                store=store,
                name=name,
                before=None if before is None else before.state,
                after=None if after is None else after.state,
                value=_pair(*(None if one is None else one.value for one in (before, after))),
            )
        )
    return changes
