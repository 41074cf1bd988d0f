"""The probable cause follows from the facts at hand, and is unknown where there are none."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from soak.model.attempt import Attempt
from soak.model.cause import Cause, Clues, Explanation, explain
from soak.model.faults import FaultWindow
from soak.model.kinds import Kind
from soak.model.telemetry import FOLDER_MARK, ServerSample

SECOND = 1_000_000
AOF = {"appendonly": "yes", "save": ""}
RDB = {"appendonly": "no", "save": "900 1"}
LOSSES = [Kind.LOST, Kind.ROLLED_BACK]


def attempt(writer: int, seq: int, at: float, lasting: float = 0.01) -> Attempt:
    return Attempt(1, writer, seq, 0, int(at * SECOND), int((at + lasting) * SECOND))


def window(kind: str, started: float, ended: float | None = None, *, survivor: float = 0.0) -> FaultWindow:
    return FaultWindow(
        fault="f",
        kind=kind,
        target="redis",
        started=int(started * SECOND),
        ended=int((started + 0.3 if ended is None else ended) * SECOND),
        survivor_sent=int(survivor * SECOND),
    )


def sample(at: float, configuration: dict[str, str] | None = None, **telemetry: int) -> ServerSample:
    counters = {name: str(value) for name, value in telemetry.items()}
    return ServerSample(server="redis", at=int(at * SECOND), configuration=configuration or {}, telemetry=counters)


MINE = attempt(0, 5, 10.0)
RIVAL = attempt(1, 1, 10.1)


def lost(kind: Kind = Kind.LOST, **facts: Any) -> Explanation:
    """Explain the loss of what was acknowledged at 10 s, missed at 13 s and confirmed as gone at 15 s."""
    at: dict[str, Any] = {
        "attempt": MINE,
        "first_missed": 13 * SECOND,
        "read_invoked": 15 * SECOND,
        "read_returned": 15 * SECOND + 1_000,
        "items": 7,
    }
    return explain(Clues(**{"kind": kind, **at, **facts}))


# -- the server died --


def test_a_server_that_comes_back_with_another_folder_and_nothing_in_it_was_wiped() -> None:
    """Also where it does not tell how it is configured, as services do not."""
    gone = msgspec.structs.replace(
        window("crash", 11.0), target="http", telemetry={FOLDER_MARK: "a"}, telemetry_after={FOLDER_MARK: "b"}
    )
    assert lost(faults=[gone]).cause is Cause.WIPED_VOLUME
    same = msgspec.structs.replace(gone, telemetry_after={FOLDER_MARK: "a"})
    assert lost(faults=[same]).cause is Cause.RESTART_WITHOUT_PERSISTENCE
    untold = msgspec.structs.replace(gone, telemetry_after={})
    assert lost(faults=[untold]).cause is Cause.RESTART_WITHOUT_PERSISTENCE
    kept = msgspec.structs.replace(gone, survivor_sent=9 * SECOND)
    assert lost(faults=[kept]).cause is Cause.UNSYNCED_TAIL


@pytest.mark.parametrize("kind", LOSSES)
@pytest.mark.parametrize(
    ("fault", "configuration", "cause"),
    [
        (window("crash", 11.0, survivor=9.0), RDB, Cause.RESTART_WITHOUT_PERSISTENCE),
        (window("crash", 11.0), RDB, Cause.RESTART_WITHOUT_PERSISTENCE),
        (window("crash", 11.0), None, Cause.RESTART_WITHOUT_PERSISTENCE),
        (window("restart", 11.0), AOF, Cause.WIPED_VOLUME),
        (window("wiped_volume", 11.0), AOF, Cause.WIPED_VOLUME),
        (window("power_cut", 11.0, survivor=9.0), AOF, Cause.UNSYNCED_TAIL),
        (window("crash", 11.0, survivor=9.0), AOF, Cause.UNSYNCED_TAIL),
        (window("power_cut", 11.0, survivor=9.0), {"fsync": "on"}, Cause.UNSYNCED_TAIL),
        (window("power_cut", 11.0, survivor=9.0), {"fsync": "off"}, Cause.RESTART_WITHOUT_PERSISTENCE),
        (window("power_cut", 12.0), AOF, Cause.UNSYNCED_TAIL),
        (window("power_cut", 13.0, ended=13.0), AOF, Cause.UNSYNCED_TAIL),
        (window("crash", 12.0), AOF, Cause.WIPED_VOLUME),
        (window("crash", 9.9, 10.5), AOF, Cause.SWALLOWED_ERROR),
    ],
)
def test_a_loss_is_put_down_to_the_fault_between_its_acknowledgement_and_its_absence(
    kind: Kind, fault: FaultWindow, configuration: dict[str, str] | None, cause: Cause
) -> None:
    samples = [sample(8.0, configuration)] if configuration else []
    explanation = lost(kind, faults=[fault], samples=samples)
    assert explanation.cause is cause
    assert explanation.facts


def test_what_a_server_acknowledges_before_a_fault_has_taken_effect_is_no_error_swallowed() -> None:
    fault = window("crash", 9.9, 10.5)
    fault.injected = int(10.45 * SECOND)
    assert lost(faults=[fault], samples=[sample(8.0, AOF)]).cause is not Cause.SWALLOWED_ERROR
    fault.injected = int(9.95 * SECOND)
    assert lost(faults=[fault], samples=[sample(8.0, AOF)]).cause is Cause.SWALLOWED_ERROR


def test_a_disk_that_is_empty_after_a_power_cut_long_after_was_wiped() -> None:
    late = lost(faults=[window("power_cut", 14.0)], samples=[sample(8.0, AOF)], first_missed=15 * SECOND)
    assert late.cause is Cause.WIPED_VOLUME


@pytest.mark.parametrize("fault", [window("crash", 5.0), window("crash", 14.0), window("pause", 11.6)])
def test_a_fault_that_cannot_have_taken_it_is_not_blamed(fault: FaultWindow) -> None:
    assert lost(faults=[fault], others=[RIVAL]).cause is Cause.CONCURRENT_OVERWRITE


def test_a_fault_that_the_message_was_seen_to_survive_is_not_blamed() -> None:
    seen = lost(Kind.ROLLED_BACK, faults=[window("crash", 11.0)], last_seen=12 * SECOND, others=[RIVAL])
    assert seen.cause is Cause.CONCURRENT_OVERWRITE


# -- what was done to the server says why --


def after(fault: FaultWindow, **telemetry: str) -> FaultWindow:
    fault.telemetry_after = telemetry
    return fault


@pytest.mark.parametrize("kind", LOSSES)
@pytest.mark.parametrize(
    ("fault", "cause", "is_sure"),
    [
        (window("failover", 11.0, survivor=9.0), Cause.REPLICA_LAG, True),
        (window("early_failover", 11.0, survivor=9.0), Cause.REPLICA_LAG, True),
        (window("early_failover", 9.0, 12.0, survivor=9.0), Cause.REPLICA_LAG, True),
        (after(window("downgrade", 11.0), keys="0"), Cause.RESTART_WITHOUT_PERSISTENCE, True),
        (after(window("downgrade", 11.0), keys="7"), Cause.RESTART_WITHOUT_PERSISTENCE, False),
        (window("downgrade", 11.0), Cause.RESTART_WITHOUT_PERSISTENCE, False),
        (after(window("upgrade", 11.0), keys="0"), Cause.RESTART_WITHOUT_PERSISTENCE, True),
        (window("downgrade", 11.0, survivor=9.0), Cause.UNSYNCED_TAIL, True),
        (window("file_corruption", 11.0, survivor=9.0), Cause.UNKNOWN, True),
        (window("aof_truncation", 11.0, survivor=9.0), Cause.UNKNOWN, True),
        (window("shutdown_nosave", 11.0, survivor=9.0), Cause.UNSYNCED_TAIL, True),
        (window("fsync_error", 9.5, 12.0, survivor=9.0), Cause.UNSYNCED_TAIL, True),
        (window("clock_step", 9.5, 12.0, survivor=9.0), Cause.UNSYNCED_TAIL, True),
    ],
)
def test_a_loss_is_put_down_to_what_was_done_to_the_server(
    kind: Kind, fault: FaultWindow, cause: Cause, is_sure: bool
) -> None:
    explanation = lost(kind, faults=[fault], samples=[sample(8.0, AOF)])
    assert (explanation.cause, not explanation.against) == (cause, is_sure)
    assert fault.kind in explanation.facts[0]


def test_a_replica_that_was_known_to_lag_when_it_was_promoted_is_told_with_its_lag() -> None:
    promoted = window("early_failover", 11.0, survivor=9.0)
    promoted.telemetry = {"replication_lag_bytes": "4096"}
    assert any("4096 bytes behind" in fact for fact in lost(faults=[promoted]).facts)


@pytest.mark.parametrize("kind", ["ttl_change", "clock_step"])
def test_sessions_that_expire_early_because_of_a_fault_have_expired(kind: str) -> None:
    samples = [sample(9.0, AOF, expired_keys=3), sample(14.0, AOF, expired_keys=40)]
    explanation = lost(samples=samples, is_prefix=True, faults=[window(kind, 11.0)])
    assert explanation.cause is Cause.EXPIRY
    assert any("time to live" in fact for fact in explanation.facts) == (kind == "ttl_change")


def test_a_time_to_live_that_was_changed_long_before_is_not_told() -> None:
    samples = [sample(9.0, AOF, expired_keys=3), sample(14.0, AOF, expired_keys=40)]
    explanation = lost(samples=samples, is_prefix=True, faults=[window("ttl_change", 5.0)])
    assert not any("time to live" in fact for fact in explanation.facts)


@pytest.mark.parametrize("kind", [Kind.CORRUPTED, Kind.UNDECODABLE])
def test_bytes_that_were_changed_behind_the_server_are_no_change_of_serialization(kind: Kind) -> None:
    spoiled = lost(kind, first_missed=0, faults=[window("file_corruption", 11.0)])
    assert (spoiled.cause, bool(spoiled.facts)) == (Cause.UNKNOWN, True)
    earlier = lost(kind, first_missed=0, faults=[window("file_corruption", 5.0)])
    assert earlier.cause is Cause.SERIALIZATION_CHANGE


# -- the server removed it --


@pytest.mark.parametrize(("counter", "cause"), [("evicted_keys", Cause.EVICTION), ("expired_keys", Cause.EXPIRY)])
def test_a_session_that_goes_while_the_server_counts_keys_it_removed(counter: str, cause: Cause) -> None:
    samples = [sample(9.0, **{counter: 3}), sample(14.0, **{counter: 40})]
    explanation = lost(samples=samples, is_prefix=True)
    assert explanation.cause is cause
    assert any("37 keys" in fact for fact in explanation.facts)


def test_keys_that_were_removed_before_it_was_written_explain_nothing() -> None:
    samples = [sample(8.0, evicted_keys=0, expired_keys=0), sample(9.9, evicted_keys=40, expired_keys=40)]
    samples.append(sample(14.0, evicted_keys=40, expired_keys=40))
    assert lost(samples=samples, is_prefix=True).cause is Cause.UNKNOWN


def test_a_single_message_is_not_evicted_out_of_a_session_that_stands() -> None:
    samples = [sample(9.0, evicted_keys=3), sample(14.0, evicted_keys=40)]
    assert lost(samples=samples, others=[RIVAL]).cause is Cause.CONCURRENT_OVERWRITE


def test_counters_that_began_anew_with_the_server_count_from_zero() -> None:
    samples = [sample(9.0, evicted_keys=30), sample(14.0, evicted_keys=4)]
    assert any("4 keys" in fact for fact in lost(samples=samples, is_prefix=True).facts)


def test_where_nothing_counts_what_expires_a_session_gone_up_to_a_moment_has_expired() -> None:
    samples = [sample(9.0, {"fsync": "on"}), sample(14.0, {"fsync": "on"})]
    explanation = lost(samples=samples, is_prefix=True)
    assert (explanation.cause, bool(explanation.against)) == (Cause.EXPIRY, True)


# -- it was never written --


@pytest.mark.parametrize(
    "facts",
    [
        {"faults": [window("outage", 9.5, 10.2)]},
        {"troubles": [9 * SECOND, 10 * SECOND + 500_000]},
        {"samples": [sample(7.0), sample(13.0)]},
    ],
)
def test_an_acknowledgement_amid_errors_is_an_error_that_was_swallowed(facts: dict[str, Any]) -> None:
    assert lost(others=[RIVAL], **facts).cause is Cause.SWALLOWED_ERROR


@pytest.mark.parametrize(
    "facts",
    [
        {"faults": [window("outage", 5.0, 6.0)]},
        {"faults": [window("eviction", 9.5, 10.2)]},
        {"troubles": [5 * SECOND, 15 * SECOND]},
        {"samples": [sample(9.0), sample(11.0), sample(13.0)]},
    ],
)
def test_errors_at_another_time_are_not_blamed(facts: dict[str, Any]) -> None:
    assert lost(others=[RIVAL], **facts).cause is Cause.CONCURRENT_OVERWRITE


def test_reads_that_answer_with_nothing_while_the_server_is_silent_swallow_an_error() -> None:
    explanation = lost(Kind.ROLLED_BACK, items=0, last_seen=12 * SECOND, troubles=[14 * SECOND], is_prefix=True)
    assert explanation.cause is Cause.SWALLOWED_ERROR


def test_the_last_words_of_a_process_that_died_were_never_flushed() -> None:
    assert lost(worker_silent_us=3 * SECOND, is_tail=True).cause is Cause.UNSYNCED_TAIL
    assert lost(worker_silent_us=3 * SECOND, others=[RIVAL]).cause is Cause.CONCURRENT_OVERWRITE
    assert lost(worker_silent_us=SECOND // 2, is_tail=True, others=[RIVAL]).cause is Cause.CONCURRENT_OVERWRITE


def test_repeated_words_are_blamed_only_when_every_loss_repeats() -> None:
    facts: dict[str, Any] = {"repeats_text": True, "others": [RIVAL]}
    assert lost(losses=3, losses_repeating=3, **facts).cause is Cause.SWALLOWED_ERROR
    assert lost(losses=3, losses_repeating=2, **facts).cause is Cause.CONCURRENT_OVERWRITE
    assert lost(losses=1, losses_repeating=1, **facts).cause is Cause.CONCURRENT_OVERWRITE


# -- two at once --


def test_a_loss_beside_another_writers_append_looks_like_an_overwrite() -> None:
    explanation = lost(others=[MINE, RIVAL, attempt(1, 2, 15.0)])
    assert explanation.cause is Cause.CONCURRENT_OVERWRITE
    assert "writer 1 seq 1" in explanation.facts[0]
    assert "seq 2" not in explanation.facts[0]


def test_a_store_that_loses_what_lonely_writers_say_overwrites_nothing() -> None:
    explanation = lost(others=[RIVAL], losses=4, losses_alone=3)
    assert (explanation.cause, bool(explanation.against)) == (Cause.SWALLOWED_ERROR, True)


def test_a_lonely_message_that_was_never_seen_never_reached_the_store() -> None:
    assert lost(losses_alone=1).cause is Cause.SWALLOWED_ERROR


def test_a_message_that_was_seen_and_goes_without_a_trace_stays_unexplained() -> None:
    assert lost(Kind.ROLLED_BACK, last_seen=12 * SECOND).cause is Cause.UNKNOWN
    assert lost(attempt=None).cause is Cause.UNKNOWN


# -- the other kinds --


@pytest.mark.parametrize("kind", [Kind.STALE, Kind.NON_MONOTONIC])
@pytest.mark.parametrize(
    ("facts", "cause"),
    [
        ({"reads_replica": True}, Cause.REPLICA_LAG),
        ({"items": 0}, Cause.SWALLOWED_ERROR),
        ({"troubles": [13 * SECOND]}, Cause.SWALLOWED_ERROR),
        ({"others": [RIVAL]}, Cause.CONCURRENT_OVERWRITE),
        ({}, Cause.UNKNOWN),
    ],
)
def test_a_read_that_lacked_something_for_a_while(kind: Kind, facts: dict[str, Any], cause: Cause) -> None:
    assert lost(kind, **facts).cause is cause


@pytest.mark.parametrize("kind", [Kind.REORDERED, Kind.NON_MONOTONIC])
def test_an_order_that_contradicts_the_times_points_to_clocks(kind: Kind) -> None:
    assert lost(kind, first_missed=0).cause is Cause.CLIENT_CLOCK


def test_a_duplicate_is_a_retry_unless_the_read_was_put_together_while_others_wrote() -> None:
    during = attempt(1, 9, 14.99, lasting=0.1)
    assert lost(Kind.DUPLICATED).cause is Cause.RETRY
    assert lost(Kind.DUPLICATED, others=[during]).cause is Cause.CONCURRENT_OVERWRITE
    assert lost(Kind.DUPLICATED, others=[during], faults=[window("dropped_reply", 9.9)]).cause is Cause.RETRY


@pytest.mark.parametrize("kind", [Kind.CORRUPTED, Kind.UNDECODABLE])
def test_bytes_that_differ_point_to_serialization(kind: Kind) -> None:
    assert lost(kind, first_missed=0).cause is Cause.SERIALIZATION_CHANGE
    assert lost(kind, first_missed=0, last_seen=12 * SECOND).against


@pytest.mark.parametrize("kind", [Kind.PHANTOM, Kind.LEAKED, Kind.RESURRECTED, Kind.WINDOW])
def test_what_the_ledger_cannot_tell_stays_unknown(kind: Kind) -> None:
    assert lost(kind, first_missed=0) == Explanation(Cause.UNKNOWN, [], [])
