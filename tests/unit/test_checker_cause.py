"""The probable cause follows from the facts at hand, and is unknown where there are none."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from soak.checker import facts as f
from soak.checker.causes import Cause, Clues, Explanation, candidates, explain
from soak.checker.clues import when_seen
from soak.checker.faults import FaultWindow
from soak.checker.kinds import Kind
from soak.checker.outcome import Attempt, Outcome
from soak.checker.telemetry import FOLDER_MARK, ServerSample
from soak.faults.catalogue import ALL as FAULTS

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
        excuses=FAULTS[kind].excuses,
        promotes=FAULTS[kind].promotes,
        serves=FAULTS[kind].serves,
        down=FAULTS[kind].down,
        target="redis",
        started=int(started * SECOND),
        injected=int(started * SECOND),
        ended=int((started + 0.3 if ended is None else ended) * SECOND),
        survivor_sent=int(survivor * SECOND),
    )


def sample(at: float, configuration: dict[str, str] | None = None, **telemetry: int) -> ServerSample:
    counters = {name: str(value) for name, value in telemetry.items()}
    return ServerSample(server="redis", at=int(at * SECOND), configuration=configuration or {}, telemetry=counters)


MINE = attempt(0, 5, 10.0)
RIVAL = attempt(1, 1, 10.005)
NEAR = attempt(1, 1, 10.02)
PREFIX: dict[str, Any] = {"gone": [(0, seq) for seq in range(1, 6)], "present": [(0, 6, 12)]}
"""The session is gone up to here, and stands from there."""
EMPTY: dict[str, Any] = {"gone": PREFIX["gone"], "present": [], "items": 0, "first_items": 0}
SEEN: dict[str, Any] = {"was_seen": True, "last_seen": 12 * SECOND}


def lost(kind: Kind = Kind.LOST, **facts: Any) -> Explanation:
    """Explain the loss of what was acknowledged at 10 s, missed at 13 s and confirmed as gone at 15 s."""
    at: dict[str, Any] = {
        "place": (0, 5),
        "attempt": MINE,
        "present": [(0, 1, 4), (0, 6, 8)],
        "gone": [(0, 5)],
        "first_missed": 13 * SECOND,
        "first_missed_returned": 13 * SECOND + 1_000,
        "first_items": 7,
        "read_invoked": 15 * SECOND,
        "read_returned": 15 * SECOND + 1_000,
        "items": 7,
    }
    clues = Clues(**{"kind": kind, **at, **facts})
    found = explain(clues)
    assert found.all_facts == candidates(clues).all_facts, "a fact was thought to hold that does not"
    return found


def said(explanation: Explanation) -> str:
    return "; ".join(fact.sentence(lambda at: f"{at / SECOND:.1f}") for fact in explanation.all_facts)


# -- the server died --


def test_a_server_that_comes_back_with_another_folder_and_nothing_in_it_was_wiped() -> None:
    """Also where it does not tell how it is configured, as services do not."""
    gone = msgspec.structs.replace(
        window("crash", 11.0), target="http", telemetry={FOLDER_MARK: "a"}, telemetry_after={FOLDER_MARK: "b"}
    )
    assert lost(faults=[gone]).cause is Cause.WIPED_VOLUME
    same = msgspec.structs.replace(gone, telemetry_after={FOLDER_MARK: "a"})
    assert lost(faults=[same]).cause is Cause.RESTART_WITHOUT_PERSISTENCE
    without_missed = msgspec.structs.replace(gone, telemetry_after={})
    assert lost(faults=[without_missed]).cause is Cause.RESTART_WITHOUT_PERSISTENCE
    kept = msgspec.structs.replace(gone, survivor_sent=9 * SECOND)
    assert lost(faults=[kept]).cause is Cause.UNSYNCED_TAIL


def test_what_the_restarted_server_acknowledged_did_not_die_with_the_one_before() -> None:
    dead = msgspec.structs.replace(
        window("crash", 8.0, 10.005, survivor=7.0), down=True, injected=int(8.2 * SECOND), serves=False
    )
    assert lost(faults=[dead], others=[RIVAL]).cause is Cause.CONCURRENT_OVERWRITE
    earlier = msgspec.structs.replace(dead, injected=int(10.002 * SECOND))
    assert lost(faults=[earlier]).cause is Cause.UNSYNCED_TAIL, "it was sent before the server was dead"
    up = msgspec.structs.replace(dead, down=False)
    assert lost(faults=[up]).cause is Cause.UNSYNCED_TAIL, "the server answered meanwhile"


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
    late = attempt(1, 1, 10.005, lasting=3.0)
    seen = lost(Kind.ROLLED_BACK, faults=[window("crash", 11.0)], others=[late], **SEEN)
    assert seen.cause is Cause.CONCURRENT_OVERWRITE


def test_an_append_that_ended_before_a_read_showed_the_message_has_not_overwritten_it() -> None:
    assert lost(Kind.ROLLED_BACK, others=[RIVAL], **SEEN).cause is Cause.UNKNOWN


# -- the server restarted by itself --


def restarting(configuration: dict[str, str]) -> list[ServerSample]:
    before, after = sample(9.0, configuration), sample(14.0, configuration)
    return [
        msgspec.structs.replace(before, telemetry={"run_id": "aaa"}),
        msgspec.structs.replace(after, telemetry={"run_id": "bbb"}),
    ]


def test_a_server_that_is_another_process_and_keeps_no_log_outranks_whatever_else_happened() -> None:
    """Also another writer that overlapped, keys that were evicted, and operations that failed at the time."""
    found = lost(samples=restarting(RDB), others=[RIVAL], troubles=[10 * SECOND])
    assert found.cause is Cause.RESTART_WITHOUT_PERSISTENCE
    assert {type(fact) for fact in found.facts} == {f.ServerRestarted, f.NoPersistence}


def test_what_was_young_when_a_server_restarted_was_not_synced() -> None:
    assert lost(samples=restarting(AOF)).cause is Cause.UNSYNCED_TAIL
    old = attempt(0, 5, 2.0)
    assert lost(samples=restarting(AOF), attempt=old, others=[attempt(1, 1, 2.005)]).cause is Cause.CONCURRENT_OVERWRITE


def test_a_hole_is_no_unsynced_tail_even_right_before_a_crash() -> None:
    """What was sent after its acknowledgement outlived the crash: the log had both, and another writer took one."""
    crash = window("crash", 10.5, survivor=10.4)
    later = attempt(0, 6, 10.1)
    found = lost(faults=[crash], samples=restarting(AOF), others=[RIVAL, later])
    assert found.cause is Cause.CONCURRENT_OVERWRITE
    assert lost(faults=[crash], samples=restarting(AOF), others=[later]).cause is not Cause.UNSYNCED_TAIL


def test_of_two_crashes_the_one_whose_tail_it_was_is_blamed() -> None:
    """It was missed only after the second, which something survived that was sent between the two."""
    first, second = window("crash", 10.2, 10.6, survivor=9.9), window("crash", 12.0, 12.5, survivor=11.9)
    found = lost(faults=[first, second], samples=restarting(AOF), others=[attempt(0, 6, 11.0)])
    assert found.cause is Cause.UNSYNCED_TAIL


@pytest.mark.parametrize(
    "other",
    [
        attempt(0, 6, 9.99),
        attempt(0, 6, 10.49, lasting=0.02),
        attempt(0, 6, 11.0),
        attempt(0, 9, 10.1),
    ],
    ids=["sent before", "acknowledged in the crash", "sent after the crash", "gone, too"],
)
def test_only_what_stands_and_was_sent_and_acknowledged_in_between_makes_a_hole(other: Attempt) -> None:
    """A survivor in another session makes none: a service may buffer each session by itself."""
    crash = window("crash", 10.5, survivor=10.4)
    found = lost(faults=[crash], samples=restarting(AOF), others=[other])
    assert found.cause is Cause.UNSYNCED_TAIL
    assert [type(fact) for fact in found.against] == [f.HoleInTail]


def test_another_writer_of_the_session_outranks_a_crash_that_something_later_outlived_elsewhere() -> None:
    """Unless the store loses what lonely writers say as well."""
    crash = window("crash", 10.5, survivor=10.4)
    found = lost(faults=[crash], samples=restarting(AOF), others=[RIVAL])
    assert found.cause is Cause.CONCURRENT_OVERWRITE
    assert "sent at 10.4, after this one was acknowledged at 10.0, outlived the fault: it is a hole" in said(found)
    buffered = lost(faults=[crash], samples=restarting(AOF), others=[RIVAL], losses=4, losses_alone=2)
    assert buffered.cause is Cause.UNSYNCED_TAIL
    tail = lost(faults=[window("crash", 10.5, survivor=9.9)], samples=restarting(AOF), others=[RIVAL])
    assert tail.cause is Cause.UNSYNCED_TAIL
    assert "a hole" not in said(tail)


def test_what_was_shown_together_with_a_survivor_is_called_a_hole() -> None:
    failover = window("sentinel_failover", 11.0)
    shown = {"was_seen": True, "survivor": (0, 6), "others": [attempt(0, 6, 11.5)]}
    assert "shown it together with 0/6" in said(lost(Kind.ROLLED_BACK, faults=[failover], **shown))


def test_nothing_is_called_acknowledged_that_was_not() -> None:
    unknown = msgspec.structs.replace(MINE, outcome=Outcome.UNKNOWN)
    failover = window("sentinel_failover", 9.5, 12.0)
    words = said(lost(Kind.ROLLED_BACK, faults=[failover], attempt=unknown, was_seen=True))
    assert "was never acknowledged, but a read showed it" in words
    assert "the acknowledgement came" not in words


def test_a_restart_that_was_over_before_the_message_was_sent_is_not_blamed() -> None:
    """Samples date a restart by seconds, the record of the fault dates it exactly."""
    crash = window("crash", 9.5, 9.9, survivor=9.0)
    assert lost(samples=restarting(AOF)).cause is Cause.UNSYNCED_TAIL
    assert lost(faults=[crash], samples=restarting(AOF), others=[RIVAL]).cause is Cause.CONCURRENT_OVERWRITE


def test_a_restart_that_the_message_was_seen_to_survive_is_not_blamed() -> None:
    seen = {"was_seen": True, "last_seen": 14 * SECOND, "first_missed": 14 * SECOND + 1}
    samples = [*restarting(RDB)[:1], msgspec.structs.replace(restarting(RDB)[1], at=13 * SECOND)]
    assert lost(Kind.ROLLED_BACK, samples=samples, **seen).cause is Cause.UNKNOWN


# -- what was done to the server says why --


def after(fault: FaultWindow, **telemetry: str) -> FaultWindow:
    fault.telemetry_after = telemetry
    return fault


def promoting(fault: FaultWindow) -> FaultWindow:
    """Let another node be the primary after a fault that was to promote none."""
    fault.telemetry = {"primary": "postgres-1"}
    return after(fault, primary="postgres-2")


@pytest.mark.parametrize("kind", LOSSES)
@pytest.mark.parametrize(
    ("fault", "cause", "is_sure"),
    [
        (window("failover", 11.0, survivor=9.0), Cause.REPLICA_LAG, True),
        (window("early_failover", 11.0, survivor=9.0), Cause.REPLICA_LAG, True),
        (window("early_failover", 9.0, 12.0, survivor=9.0), Cause.REPLICA_LAG, True),
        (promoting(window("restart", 11.0, survivor=9.0)), Cause.REPLICA_LAG, True),
        (promoting(window("crash", 11.0, survivor=9.0)), Cause.REPLICA_LAG, True),
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
    assert any(isinstance(fact, f.FaultHappened) and fact.fault.kind == fault.kind for fact in explanation.facts)


def test_a_replica_that_was_known_to_lag_when_it_was_promoted_is_told_with_its_lag() -> None:
    promoted = window("early_failover", 11.0, survivor=9.0)
    promoted.telemetry = {"replication_lag_bytes": "4096"}
    assert "4096 bytes behind" in said(lost(faults=[promoted]))


def test_an_acknowledgement_in_the_middle_of_a_fault_is_not_said_to_precede_it() -> None:
    told = said(lost(faults=[window("early_failover", 9.0, 12.0, survivor=9.0)]))
    assert "the acknowledgement came 1.0 s after it began" in told


@pytest.mark.parametrize("kind", ["ttl_change", "clock_step"])
def test_sessions_that_expire_early_because_of_a_fault_have_expired(kind: str) -> None:
    samples = [sample(9.0, AOF, expired_keys=3), sample(14.0, AOF, expired_keys=40)]
    explanation = lost(samples=samples, faults=[window(kind, 11.0)], **PREFIX)
    assert explanation.cause is Cause.EXPIRY
    assert ("time to live" in said(explanation)) == (kind == "ttl_change")


def test_a_time_to_live_that_was_changed_long_before_is_not_told() -> None:
    samples = [sample(9.0, AOF, expired_keys=3), sample(14.0, AOF, expired_keys=40)]
    explanation = lost(samples=samples, faults=[window("ttl_change", 5.0)], **PREFIX)
    assert "time to live" not in said(explanation)


@pytest.mark.parametrize("kind", [Kind.CORRUPTED, Kind.UNDECODABLE])
def test_bytes_that_were_changed_behind_the_server_are_no_change_of_serialization(kind: Kind) -> None:
    there = {"first_missed": 0, "present": [(0, 1, 8)]}
    spoiled = lost(kind, **there, faults=[window("file_corruption", 11.0)])
    assert (spoiled.cause, bool(spoiled.facts)) == (Cause.UNKNOWN, True)
    earlier = lost(kind, **there, faults=[window("file_corruption", 5.0)])
    assert earlier.cause is Cause.SERIALIZATION_CHANGE


# -- the server removed it --


@pytest.mark.parametrize(("counter", "cause"), [("evicted_keys", Cause.EVICTION), ("expired_keys", Cause.EXPIRY)])
def test_a_session_that_goes_while_the_server_counts_keys_it_removed(counter: str, cause: Cause) -> None:
    samples = [sample(9.0, None, **{counter: 3}), sample(14.0, None, **{counter: 40})]
    explanation = lost(samples=samples, **PREFIX)
    assert explanation.cause is cause
    assert f"redis counted 37 {counter} between 9.0 and 14.0" in said(explanation)


def test_keys_that_were_removed_before_it_was_written_explain_nothing() -> None:
    samples = [sample(8.0, evicted_keys=0, expired_keys=0), sample(9.9, evicted_keys=40, expired_keys=40)]
    samples.append(sample(14.0, evicted_keys=40, expired_keys=40))
    assert lost(samples=samples, **PREFIX).cause is Cause.UNKNOWN


def test_a_single_message_is_not_evicted_out_of_a_session_that_stands() -> None:
    samples = [sample(9.0, evicted_keys=3), sample(14.0, evicted_keys=40)]
    assert lost(samples=samples, others=[RIVAL]).cause is Cause.CONCURRENT_OVERWRITE


def test_counters_that_began_anew_with_the_server_count_from_zero() -> None:
    samples = [sample(9.0, evicted_keys=30), sample(14.0, evicted_keys=4)]
    assert "began to count anew between 9.0 and 14.0, and counted 4 evicted_keys" in said(
        lost(samples=samples, **PREFIX)
    )


def test_where_nothing_counts_what_expires_a_session_gone_up_to_a_moment_has_expired() -> None:
    samples = [sample(9.0, {"fsync": "on"}), sample(14.0, {"fsync": "on"})]
    explanation = lost(samples=samples, **PREFIX)
    assert (explanation.cause, bool(explanation.against)) == (Cause.EXPIRY, True)


# -- it was never written --


@pytest.mark.parametrize(
    "facts",
    [
        {"faults": [window("connection_refused", 9.5, 10.2)]},
        {"faults": [window("connection_refused", 10.005, 10.2)]},
        {"troubles": [9 * SECOND + 500_000, 10 * SECOND + 400_000]},
        {"troubles": [10 * SECOND + 5_000]},
        {"samples": [sample(7.0), sample(13.0)]},
    ],
)
def test_an_acknowledgement_amid_errors_is_an_error_that_was_swallowed(facts: dict[str, Any]) -> None:
    found = lost(present=[(1, 1, 1)], **facts)
    assert found.cause is Cause.SWALLOWED_ERROR
    assert isinstance(found.facts[0], f.FaultDuring | f.OperationsFailed | f.ServerSilent)


def test_another_writer_that_overlapped_outranks_operations_that_failed_at_the_time() -> None:
    assert lost(others=[RIVAL], troubles=[10 * SECOND + 5_000]).cause is Cause.CONCURRENT_OVERWRITE


@pytest.mark.parametrize(
    "facts",
    [
        {"faults": [window("connection_refused", 5.0, 6.0)]},
        {"faults": [window("connection_refused", 7.0, 7.8)]},
        {"faults": [window("eviction", 9.5, 10.2)]},
        {"troubles": [5 * SECOND, 15 * SECOND]},
        {"troubles": [9 * SECOND + 500_000, 9 * SECOND + 900_000]},
        {"samples": [sample(9.0), sample(11.0), sample(13.0)]},
    ],
)
def test_errors_at_another_time_are_not_blamed(facts: dict[str, Any]) -> None:
    """Not even those that ended a moment before: the append itself must have run while they went on."""
    found = lost(present=[], **facts)
    assert found.cause is Cause.UNKNOWN
    assert not any(isinstance(fact, f.FaultDuring | f.OperationsFailed | f.ServerSilent) for fact in found.all_facts)


def test_reads_that_answer_with_nothing_while_the_server_is_silent_swallow_an_error() -> None:
    explanation = lost(Kind.ROLLED_BACK, troubles=[13 * SECOND], **EMPTY, **SEEN)
    assert explanation.cause is Cause.SWALLOWED_ERROR
    quiet = lost(Kind.ROLLED_BACK, **EMPTY, **SEEN)
    assert quiet.cause is Cause.UNKNOWN


def test_what_was_never_seen_where_answers_were_empty_was_swallowed_unless_something_else_is_known() -> None:
    assert lost(**EMPTY).cause is Cause.SWALLOWED_ERROR
    evicted = [sample(9.0, evicted_keys=3), sample(14.0, evicted_keys=40)]
    assert lost(samples=evicted, **EMPTY).cause is Cause.EVICTION
    assert lost(faults=[window("pause", 11.6)], **{**EMPTY, "first_items": 3}).cause is Cause.SWALLOWED_ERROR


def test_the_last_words_of_a_process_that_died_were_never_flushed() -> None:
    tail: dict[str, Any] = {"present": [(0, 1, 4)]}
    assert lost(worker_silent_us=3 * SECOND, **tail).cause is Cause.UNSYNCED_TAIL
    assert lost(worker_silent_us=3 * SECOND, others=[RIVAL]).cause is Cause.CONCURRENT_OVERWRITE
    assert lost(worker_silent_us=SECOND // 2, others=[RIVAL], **tail).cause is Cause.CONCURRENT_OVERWRITE


def test_repeated_words_are_blamed_only_when_every_loss_repeats() -> None:
    facts: dict[str, Any] = {"same_text": [(0, 2)], "others": [RIVAL]}
    assert lost(losses=3, losses_repeating=3, **facts).cause is Cause.SWALLOWED_ERROR
    assert lost(losses=3, losses_repeating=2, **facts).cause is Cause.CONCURRENT_OVERWRITE
    assert lost(losses=1, losses_repeating=1, **facts).cause is Cause.CONCURRENT_OVERWRITE


# -- two at once --


def test_a_loss_beside_another_writers_append_looks_like_an_overwrite() -> None:
    explanation = lost(others=[MINE, RIVAL, attempt(1, 2, 15.0)])
    assert explanation.cause is Cause.CONCURRENT_OVERWRITE
    assert [(fact.writer, fact.seq) for fact in explanation.facts if isinstance(fact, f.OverlappingAppend)] == [(1, 1)]


def test_an_append_that_began_after_this_one_had_ended_overwrites_nothing() -> None:
    assert lost(others=[NEAR]).cause is not Cause.CONCURRENT_OVERWRITE


def test_a_store_that_loses_what_lonely_writers_say_overwrites_nothing() -> None:
    explanation = lost(others=[RIVAL], losses=4, losses_alone=3)
    assert (explanation.cause, bool(explanation.against)) == (Cause.SWALLOWED_ERROR, True)


def test_a_lonely_message_that_was_never_seen_beside_its_neighbours_was_not_written() -> None:
    found = lost(losses=1, losses_alone=1)
    assert found.cause is Cause.SWALLOWED_ERROR
    assert "no read of its session by the verifier showed it" in said(found)
    assert "0/4 before it and 0/6 after it" in said(found)
    assert "never reached the store" not in said(found)


def test_the_end_of_a_session_that_no_read_shows_may_be_what_reads_stop_short_of() -> None:
    assert lost(present=[(0, 1, 4)]).cause is Cause.UNKNOWN


def test_several_in_a_row_that_were_never_seen_between_others_were_not_written() -> None:
    found = lost(gone=[(0, 4), (0, 5), (0, 6)], present=[(0, 1, 3), (0, 7, 8)], losses=3, losses_alone=3)
    assert found.cause is Cause.SWALLOWED_ERROR
    assert "shows 0/3, which is older, and 0/7, which is younger" in said(found)


def test_neighbours_are_not_said_to_stand_where_nothing_was_read() -> None:
    assert "neighbours" not in said(lost(**EMPTY))


def test_what_stands_further_away_is_no_neighbour() -> None:
    """Where a store keeps the last twenty, the next message that stands is not the next that was said."""
    assert "neighbours" not in said(lost(gone=[(0, seq) for seq in range(1, 60)], present=[(0, 60, 79)], items=20))


def test_what_stands_in_another_session_is_not_said_to_be_unwritten() -> None:
    found = lost(elsewhere=["other-chat"], losses_alone=1, losses=1)
    assert found.cause is Cause.UNKNOWN
    assert "it stands in session other-chat" in said(found)


def test_in_a_session_of_several_writers_neighbours_are_those_by_the_times() -> None:
    others = [attempt(1, 1, 9.0), attempt(1, 2, 9.5), attempt(1, 3, 11.0), attempt(0, 4, 8.0), attempt(0, 6, 12.0)]
    found = lost(others=others, present=[(0, 4, 4), (1, 1, 3), (0, 6, 6)], losses=1)
    assert "1/2 before it and 1/3 after it" in said(found)


def test_a_message_that_was_seen_and_goes_without_a_trace_stays_unexplained() -> None:
    seen = lost(Kind.ROLLED_BACK, **SEEN)
    assert seen.cause is Cause.UNKNOWN
    assert "the read at 12.0 showed it, the one at 13.0 did not" in said(seen)
    assert lost(attempt=None).cause is Cause.UNKNOWN


def test_a_sighting_whose_time_is_not_known_is_told_without_one() -> None:
    seen = said(lost(Kind.ROLLED_BACK, was_seen=True))
    assert "a read had shown it before the one at 13.0 did not" in seen


@pytest.mark.parametrize(
    ("mine", "others", "last_whole", "expected"),
    [
        (MINE, [], 12 * SECOND, 12 * SECOND),
        (MINE, [], 9 * SECOND, 0),
        (MINE, [], 10 * SECOND + 20_000, 0),
        (Attempt(1, 0, 5, 2, 10 * SECOND, 10 * SECOND), [], 12 * SECOND, 0),
        (None, [], 12 * SECOND, 12 * SECOND),
        (None, [attempt(0, 6, 10.0)], 12 * SECOND, 12 * SECOND),
        (None, [attempt(0, 6, 13.0)], 12 * SECOND, 0),
    ],
)
def test_no_read_is_said_to_have_shown_a_message_before_it_was_sent(
    mine: Attempt | None, others: list[Attempt], last_whole: int, expected: int
) -> None:
    assert when_seen((0, 5), [*others, *([mine] if mine else [])], last_whole) == expected


# -- the other kinds --


@pytest.mark.parametrize("kind", [Kind.STALE, Kind.NON_MONOTONIC])
@pytest.mark.parametrize(
    ("facts", "cause"),
    [
        ({"reads_replica": True}, Cause.REPLICA_LAG),
        ({"first_items": 0, **SEEN}, Cause.SWALLOWED_ERROR),
        ({"first_items": 0}, Cause.UNKNOWN),
        ({"troubles": [13 * SECOND]}, Cause.SWALLOWED_ERROR),
        ({"others": [RIVAL]}, Cause.UNKNOWN),
        ({}, Cause.UNKNOWN),
    ],
)
def test_a_read_that_lacked_something_for_a_while(kind: Kind, facts: dict[str, Any], cause: Cause) -> None:
    found = lost(kind, present=[(0, 1, 8)], **facts)
    assert found.cause is cause
    assert "the answer at 13.0 lacked it, the read at 15.0 shows it" in said(found)
    assert "primary" not in said(found)


SWAPPED = [(0, 6, 6), (0, 5, 5)]
"""It stands after the next message of its writer."""


@pytest.mark.parametrize("kind", [Kind.REORDERED, Kind.NON_MONOTONIC])
@pytest.mark.parametrize(
    ("later", "cause"),
    [(attempt(0, 6, 10.3), Cause.CLIENT_CLOCK), (attempt(0, 6, 14.0), Cause.UNKNOWN)],
)
def test_an_order_points_to_clocks_only_if_a_timestamp_would_have_produced_it(
    kind: Kind, later: Attempt, cause: Cause
) -> None:
    found = lost(kind, first_missed=0, present=SWAPPED, others=[later])
    assert found.cause is cause
    assert "it stands after 0/6" in said(found)


def test_an_order_whose_times_are_not_known_stays_unexplained() -> None:
    assert lost(Kind.REORDERED, first_missed=0, present=SWAPPED).cause is Cause.UNKNOWN
    assert lost(Kind.REORDERED, first_missed=0, present=SWAPPED, attempt=None).cause is Cause.UNKNOWN


def test_what_appears_beside_something_sent_at_the_same_time_points_to_clocks() -> None:
    tied = attempt(1, 1, 10.0)
    found = lost(Kind.NON_MONOTONIC, first_missed=0, present=[(0, 5, 5), (1, 1, 1)], others=[tied])
    assert found.cause is Cause.CLIENT_CLOCK


def test_a_duplicate_is_a_retry_only_if_something_went_wrong_while_it_was_appended() -> None:
    during = attempt(1, 9, 14.99, lasting=0.1)
    there: dict[str, Any] = {"first_missed": 0, "present": [(0, 1, 5), (0, 5, 8)]}
    assert lost(Kind.DUPLICATED, **there).cause is Cause.UNKNOWN
    read_meanwhile = lost(Kind.DUPLICATED, others=[during], **there)
    assert read_meanwhile.cause is Cause.UNKNOWN
    assert "1 append to the session ran while it was read" in said(read_meanwhile)
    retried = lost(Kind.DUPLICATED, others=[during], faults=[window("dropped_reply", 9.9)], **there)
    assert retried.cause is Cause.RETRY
    assert "the load called append for it once" in said(retried)
    # A search that answers twice says nothing of the append: an index may have been written by two processes.
    searched = lost(Kind.DUPLICATED, faults=[window("dropped_reply", 9.9)], is_search=True, **there)
    assert searched.cause is Cause.UNKNOWN
    assert "the answer to one search holds it 2 times" in said(searched)


THERE: dict[str, Any] = {"first_missed": 0, "present": [(0, 1, 8)]}


def test_what_was_never_read_as_it_was_written_points_to_serialization() -> None:
    texts = {"expected": "caf\u00e9", "got": "cafe\u0301", "expected_role": "user", "got_role": "user"}
    found = lost(Kind.CORRUPTED, **THERE, **texts)
    assert found.cause is Cause.SERIALIZATION_CHANGE
    assert "'e\\u0301' (U+0065 U+0301) in place of '\\xe9' (U+00E9)" in said(found)
    assert "the same Unicode normal form NFC" in said(found)
    assert lost(Kind.UNDECODABLE, place=None, attempt=None, gone=[], **THERE).cause is Cause.SERIALIZATION_CHANGE


def test_what_had_been_read_right_was_changed_in_place() -> None:
    changed = lost(Kind.CORRUPTED, **THERE, **SEEN)
    assert changed.cause is Cause.UNKNOWN
    assert "it was right until 12.0, then changed in place: the answer at 15.0 has it otherwise" in said(changed)
    undated = lost(Kind.CORRUPTED, was_seen=True, **THERE)
    assert undated.cause is Cause.UNKNOWN
    assert "an earlier read had returned it as it was written" in said(undated)
    replaced = lost(Kind.UNDECODABLE, place=None, attempt=None, gone=[], replaced=[(0, 9)], **THERE)
    assert replaced.cause is Cause.UNKNOWN


def test_nothing_is_said_about_the_content_of_a_read_that_raised() -> None:
    raised = lost(
        Kind.UNDECODABLE, place=None, attempt=None, gone=[], replaced=[(0, 1)], first_missed=0, present=[], items=0
    )
    assert raised.cause is Cause.UNKNOWN
    assert raised.all_facts == []


def test_a_text_that_is_cut_at_a_power_of_two_says_so() -> None:
    texts = {"expected": "x" * 5_000, "got": "x" * 4_096, "expected_role": "user", "got_role": "user"}
    assert "4,096 characters is a power of two" in said(lost(Kind.CORRUPTED, **THERE, **texts))


def test_what_is_not_found_after_a_crash_is_not_called_a_swallowed_error() -> None:
    stored = {"present": [(0, 1, 8)]}
    assert lost(Kind.UNFINDABLE, **stored).cause is Cause.SWALLOWED_ERROR
    assert lost(Kind.UNFINDABLE, faults=[window("crash", 11.0)], **stored).cause is Cause.UNKNOWN


@pytest.mark.parametrize("kind", [Kind.PHANTOM, Kind.LEAKED, Kind.RESURRECTED, Kind.WINDOW])
def test_what_the_ledger_cannot_tell_stays_unknown(kind: Kind) -> None:
    found = lost(kind, first_missed=0)
    assert (found.cause, found.all_facts) == (Cause.UNKNOWN, [])
