"""Operations that a fault touched are counted apart from the others."""

from __future__ import annotations

import math

import msgspec

from soak.histogram import bucket_of
from soak.ledger.records import LATENCY_SLOT_US, LatencyTally
from soak.verifier.latencies import WAIT_SLOTS, OperationTimes, Span, Timed, _sides, take

SLOTS_PER_SECOND = 1_000_000 // LATENCY_SLOT_US


def ended(at_seconds: float, took: float, *, operation: str = "append", is_error: bool = False) -> LatencyTally:
    """Return one operation that ended then."""
    slot = int(at_seconds * SLOTS_PER_SECOND)
    buckets = {bucket_of(took): 1}
    if is_error:
        return LatencyTally("redis-list", operation, slot, errors=buckets)
    return LatencyTally("redis-list", operation, slot, counts=buckets, sum_seconds=took, max_seconds=took)


def times_of(*tallies: LatencyTally, spans: list[Span]) -> OperationTimes:
    times = OperationTimes()
    for tally in tallies:
        take(times, tally, lambda: spans)
    return times


def seconds(since: float, until: float) -> Span:
    return Span(since * 1e6, until * 1e6)


def counts(side: dict[str, Timed]) -> dict[str, tuple[int, int]]:
    return {name: (timed.latency.total, timed.errors) for name, timed in side.items()}


def sides_of(
    *tallies: LatencyTally, spans: list[Span]
) -> tuple[dict[str, tuple[int, int]], dict[str, tuple[int, int]]]:
    outside, inside = _sides(times_of(*tallies, spans=spans), spans)
    return counts(dict(outside)), counts(dict(inside))


def test_an_operation_is_inside_if_any_moment_of_it_is() -> None:
    fault = [seconds(10, 15)]
    before, during, after = ended(9.0, 0.01), ended(12.0, 0.01), ended(16.0, 0.01)
    assert sides_of(before, during, after, spans=fault) == ({"append": (2, 0)}, {"append": (1, 0)})
    reaches_into_it, lasts_through_it = ended(16.0, 2.0), ended(30.0, 25.0)
    assert sides_of(reaches_into_it, lasts_through_it, spans=fault) == ({}, {"append": (2, 0)})


def test_errors_are_inside_or_outside_by_how_long_they_took() -> None:
    fault = [seconds(10, 15)]
    timed_out, refused_later = ended(17.0, 5.0, is_error=True), ended(17.0, 0.001, is_error=True)
    assert sides_of(timed_out, refused_later, spans=fault) == ({"append": (0, 1)}, {"append": (0, 1)})


def test_a_fault_that_goes_on_has_everything_since_its_beginning_inside() -> None:
    assert sides_of(ended(9.0, 0.01), ended(900.0, 0.01), spans=[Span(10e6, math.inf)]) == (
        {"append": (1, 0)},
        {"append": (1, 0)},
    )


def test_context_reads_and_recalls_are_reads_and_the_verifiers_own_are_not_counted() -> None:
    tallies = [ended(1.0, 0.01, operation=name) for name in ("history", "recall", "search", "forget", "sweep")]
    assert sides_of(*tallies, spans=[]) == ({"read": (2, 0), "search": (1, 0), "forget": (1, 0)}, {})


def test_operations_of_one_slot_are_parted_by_how_long_they_took() -> None:
    quick_and_slow = ended(17.0, 0.01)
    quick_and_slow.add(ended(17.0, 5.0))
    quick_and_slow.add(ended(17.0, 0.001, is_error=True))
    assert sides_of(quick_and_slow, spans=[seconds(10, 15)]) == ({"append": (1, 1)}, {"append": (1, 0)})
    assert sides_of(quick_and_slow, spans=[seconds(1, 2)]) == ({"append": (2, 1)}, {})


def test_asking_for_the_times_changes_nothing() -> None:
    spans = [seconds(10, 15)]
    slots = [ended(at, took) for at in (1.0, 12.0, 16.0, 40.0) for took in (0.01, 2.0)]
    times = times_of(*slots, spans=spans)
    kept = msgspec.msgpack.encode(times)
    assert times.outside
    first, again = (_sides(times, spans) for _ in range(2))
    assert first == again
    assert first[0]["append"].latency.max_seconds == 2.0
    assert msgspec.msgpack.encode(times) == kept


def test_a_fault_that_becomes_known_late_still_has_its_operations() -> None:
    known: list[Span] = []
    times = OperationTimes()
    take(times, ended(10.0, 0.01), lambda: known)
    take(times, ended(12.0, 0.01), lambda: known)
    known.append(seconds(9, 11))
    take(times, ended(12.0 + 2 * WAIT_SLOTS / SLOTS_PER_SECOND, 0.01), lambda: known)
    assert (counts(times.outside), counts(times.inside)) == ({"append": (1, 0)}, {"append": (1, 0)})


def test_what_waits_is_bounded_and_survives_a_restart() -> None:
    tallies = [ended(at / SLOTS_PER_SECOND, 0.01, operation=op) for at in range(1000) for op in ("append", "history")]
    times = times_of(*tallies, *tallies[-2:], spans=[seconds(100, 150)])
    assert len(times.waiting) == 2 * (WAIT_SLOTS + 1)
    restored = msgspec.msgpack.decode(msgspec.msgpack.encode(times), type=OperationTimes)
    outside, inside = _sides(restored, [seconds(100, 150)])
    assert {name: timed.latency.total for name, timed in outside.items()} == {"append": 800, "read": 800}
    assert {name: timed.latency.total for name, timed in inside.items()} == {"append": 201, "read": 201}


def test_the_longest_is_exact() -> None:
    outside, _ = _sides(times_of(ended(1.0, 0.123456), ended(1.0, 0.01), spans=[]), [])
    assert outside["append"].latency.max_seconds == 0.123456
