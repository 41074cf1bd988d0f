"""What several verifiers have counted, as if one had: counts add up, and of ages and times the worst or latest counts.

What all of them are told alike (the faults of the run, and what servers say of themselves) is taken from the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from soak.checker.faults import Excuse, FaultHistory, Recovery
from soak.histogram import LogHistogram
from soak.ledger.records import LATENCY_SLOT_US
from soak.metrics import Gauges
from soak.store_errors import StoreErrors
from soak.verifier.findings import ViolationGroups
from soak.verifier.result import ClockStatus
from soak.verifier.tally import Tally

ALIKE = frozenset(
    {
        *("server_clock_steps", "servers", "events", "recoveries_tried", "faults_tried", "unexpected_restarts"),
        *("faults_injected", "fault_failures", "fault_failures_told", "pauses", "unknown_writes"),
        *("recoveries", "recovery_points", "recoveries_beyond", "recovery_times"),
        *("replacements", "replacement_seconds_max", "stayed_clients", "stayed_seconds_max"),
    }
)
"""Counts of which every verifier has all, that follow from others, or that the first one keeps for all."""

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Tally)


def slim(tally: Tally) -> Tally:
    """Leave out what only the verifier that counted it needs."""
    findings = ViolationGroups(tally.findings.groups)
    return msgspec.structs.replace(tally, findings=findings, unknown_writes={}, servers={}, events=[])


def shift_times(tally: Tally, shift_us: int) -> None:
    """Move what is counted by slots of time from the clock of another host to this one's."""
    for store in tally.stores.values():
        for one in store.times.waiting:
            one.slot += shift_us // LATENCY_SLOT_US


def merged_tally(own: Tally, others: Iterable[Tally], faults: FaultHistory) -> Tally:
    """Return what all of them have counted. What a fault took in all is counted once, in the tally of the first."""
    whole = _decoder.decode(_encoder.encode(own))
    for other in others:
        for name in other.stores.keys() & whole.stores.keys():
            _add(whole.stores[name], other.stores[name])
        _add(whole, other, except_for=ALIKE | {"stores"})
        for key, recovery in other.recoveries.items():
            mine = whole.recoveries.get(key)
            whole.recoveries[key] = recovery if mine is None else merged_recovery(mine, recovery)
    count_recoveries(own, whole.recoveries, faults)
    whole.recovery_points, whole.recoveries_beyond = own.recovery_points, own.recoveries_beyond
    whole.recovery_times = own.recovery_times
    return whole


def _add(mine: Any, theirs: Any, except_for: frozenset[str] = ALIKE) -> None:
    """Take in the numbers of another, field by field."""
    for name in mine.__struct_fields__:
        if name not in except_for:
            setattr(mine, name, _sum(name, getattr(mine, name), getattr(theirs, name)))


def _sum(name: str, mine: Any, theirs: Any) -> Any:
    if isinstance(mine, LogHistogram | ViolationGroups):
        mine.merge(theirs)
    elif isinstance(mine, StoreErrors):
        mine.merge(theirs.listed())
    elif isinstance(mine, msgspec.Struct):
        _add(mine, theirs)
    elif isinstance(mine, dict):
        return {
            key: _sum(name, mine[key], theirs[key]) if key in mine and key in theirs else mine.get(key, theirs.get(key))
            for key in (mine | theirs)
        }
    elif isinstance(mine, int | float):
        return max(mine, theirs) if "_seconds" in name else mine + theirs
    elif isinstance(mine, list):
        is_buckets = name == "counts" and len(mine) == len(theirs)
        return [one + other for one, other in zip(mine, theirs, strict=True)] if is_buckets else mine + theirs
    return mine


def merged_recovery(mine: Recovery, theirs: Recovery) -> Recovery:
    """Return what one fault took of one store, by two that have read different sessions."""

    def first(one: float | None, other: float | None) -> float | None:
        return min((seconds for seconds in (one, other) if seconds is not None), default=None)

    return msgspec.structs.replace(
        mine,
        tolerated=mine.tolerated + theirs.tolerated,
        lost=mine.lost + theirs.lost,
        unacknowledged=mine.unacknowledged + theirs.unacknowledged,
        acknowledged_during=mine.acknowledged_during + theirs.acknowledged_during,
        lost_during=mine.lost_during + theirs.lost_during,
        point_seconds=max(mine.point_seconds, theirs.point_seconds),
        after_seconds=max(mine.after_seconds, theirs.after_seconds),
        oldest_us=max((age for age in (mine.oldest_us, theirs.oldest_us) if age is not None), default=None),
        newest_us=min((age for age in (mine.newest_us, theirs.newest_us) if age is not None), default=None),
        is_at_least=mine.is_at_least or theirs.is_at_least,
        is_unread=mine.is_unread or theirs.is_unread,
        is_settled=mine.is_settled and theirs.is_settled,
        lasted_seconds=mine.lasted_seconds if mine.lasted_seconds is not None else theirs.lasted_seconds,
        read_seconds=first(mine.read_seconds, theirs.read_seconds),
        write_seconds=first(mine.write_seconds, theirs.write_seconds),
        unknown=mine.unknown + theirs.unknown,
        surfaced=mine.surfaced + theirs.surfaced,
        errors=mine.errors + theirs.errors,
        last_failed=max(mine.last_failed, theirs.last_failed),
        replaced=mine.replaced or theirs.replaced,
    )


def count_recoveries(own: Tally, merged: Mapping[str, Recovery], faults: FaultHistory) -> None:
    """Count recovery points and times of which all is known that the verifiers know together.

    Accounts of faults are let go one day, and more may be found of one that was counted. Counts only grow.
    """
    by_fault: dict[str, list[tuple[Recovery, Recovery]]] = {}
    for key, mine in own.recoveries.items():
        recovery = merged[key]
        if mine.lasted_seconds is None:
            continue  # it is not over; or its account was let go, and opened again for a loss that was found late
        by_fault.setdefault(mine.fault, []).append((mine, recovery))
        if recovery.is_settled:
            _count_times(own, mine, recovery)
    for fault, known in by_fault.items():
        window, recoveries = faults.get(fault), [recovery for _, recovery in known]
        if window is None or window.excuses is Excuse.NOTHING:
            continue
        if any(one.is_unread or not one.is_settled for one in recoveries):
            continue
        accounts, counted = [mine for mine, _ in known], {what for mine, _ in known for what in mine.counted}
        if "point" not in counted:
            own.count_recovery_point(accounts, max(one.point_seconds for one in recoveries))
        if "beyond" not in counted and not all(one.is_kept for one in recoveries):
            own.count_recovery_beyond(accounts)


def _count_times(own: Tally, mine: Recovery, merged: Recovery) -> None:
    for operation, seconds in (("read", merged.read_seconds), ("write", merged.write_seconds)):
        if seconds is not None and operation not in mine.counted:
            own.count_recovery_time(mine, operation, seconds)


def merged_gauges(own: Gauges, others: Iterable[Gauges]) -> Gauges:
    """Return what is true of all of them at this moment."""
    every = [own, *others]

    def worst(name: str) -> dict[str, float]:
        stores = dict.fromkeys(store for one in every for store in getattr(one, name))
        return {store: max(getattr(one, name).get(store, 0.0) for one in every) for store in stores}

    def total(name: str) -> dict[str, int]:
        stores = dict.fromkeys(store for one in every for store in getattr(one, name))
        return {store: sum(getattr(one, name).get(store, 0) for one in every) for store in stores}

    return msgspec.structs.replace(
        own,
        oldest_unverified_seconds=worst("oldest_unverified_seconds"),
        last_sweep_timestamp_seconds=last_sweeps(every),
        coverage_age_seconds=worst("coverage_age_seconds"),
        sessions_live=total("sessions_live"),
        suspicions_open=total("suspicions_open"),
        ledger_lag_seconds=max(one.ledger_lag_seconds for one in every),
        ledger_reachable=all(one.ledger_reachable for one in every),
        unread_messages=sum(one.unread_messages for one in every),
        load_held_back=any(one.load_held_back for one in every),
        state_bytes=sum(one.state_bytes for one in every),
        loop_delay_seconds=max(one.loop_delay_seconds for one in every),
        evidence_files=sum(one.evidence_files for one in every),
        evidence_bytes=sum(one.evidence_bytes for one in every),
        clocks=_worst_clocks(every),
    )


def last_sweeps(every: Sequence[Gauges]) -> dict[str, float]:
    """Return for each store when that verifier read one last which waits longest; one without sessions has nothing to.

    Of a store that nobody has sessions of, it is when it was read last.
    """
    found = {}
    for store in dict.fromkeys(store for one in every for store in one.last_sweep_timestamp_seconds):
        known = [one for one in every if store in one.last_sweep_timestamp_seconds]
        reading = [one.last_sweep_timestamp_seconds[store] for one in known if one.sessions_live.get(store)]
        idle = max(one.last_sweep_timestamp_seconds[store] for one in known)
        found[store] = min(reading, default=idle)
    return found


def _worst_clocks(every: Iterable[Gauges]) -> dict[str, tuple[float, int]]:
    clocks: dict[str, tuple[float, int]] = {}
    for one in every:
        for host, (error, jumps) in one.clocks.items():
            known_error, known_jumps = clocks.get(host, (error, jumps))
            clocks[host] = max(error, known_error), max(jumps, known_jumps)
    return clocks


def merged_clocks(every: Iterable[list[ClockStatus]]) -> list[ClockStatus]:
    """Return how well the clock of each host is known to that verifier which knows it worst."""
    clocks: dict[str, ClockStatus] = {}
    for one in (one for said in every for one in said):
        known = clocks.get(one.host, one)
        errors = (one.error_seconds, known.error_seconds)
        clocks[one.host] = ClockStatus(
            host=one.host,
            error_seconds=None if None in errors else max(error for error in errors if error is not None),
            is_uncertain=one.is_uncertain or known.is_uncertain,
            jumps=max(one.jumps, known.jumps),
        )
    return list(clocks.values())
