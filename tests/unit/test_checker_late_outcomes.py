"""Outcomes that come after the reads they say something about."""

from __future__ import annotations

import msgspec
import pytest

from soak.checker.contract import Contract, Duplicates, Expiry, Order, Reads
from soak.checker.kinds import Kind
from soak.checker.message import Garbled
from soak.checker.outcome import Outcome
from tests.support.checker.checked_session import SECOND, CheckedSession, altered

TAIL = Contract(crash_loss_seconds=1.0)
BEHIND = Contract(reads=Reads.BOUNDED_STALENESS, staleness_seconds=0.5)


@pytest.mark.parametrize(
    "contract",
    [
        Contract(),
        Contract(eviction_allowed=True),
        Contract(retained_messages=1),
        Contract(ttl_seconds=0.5, expiry=Expiry.ABSOLUTE),
    ],
    ids=["strict", "eviction", "last one", "expiry"],
)
def test_what_was_seen_in_flight_is_a_phantom_if_it_is_refused_after_it_has_gone(contract: Contract) -> None:
    session = CheckedSession(contract)
    assert session.shows(1.0, 1) == set()
    session.shows(2.0)
    session.shows(3.0)
    session.told(1, 0.8, 1.1, Outcome.FAILED)
    assert (Kind.PHANTOM, 1) in session.shows(3.5)


def test_a_refusal_that_comes_when_nobody_waits_for_it_any_more_says_nothing() -> None:
    session = CheckedSession(Contract(eviction_allowed=True))
    assert session.shows(1.0, 1) == session.shows(2.0) == session.shows(6.5) == set()
    session.told(1, 0.8, 1.1, Outcome.FAILED)
    assert session.shows(7.0) == set()


def test_a_read_under_way_does_not_lack_what_is_refused_meanwhile() -> None:
    session = CheckedSession()
    session.shows(1.0, 1)
    session.shows(2.0)
    late = session.read(2.1)
    session.told(1, 0.8, 1.1, Outcome.FAILED)
    session.checker.observe(late)
    assert session.shows(3.0) == set()


def test_what_was_refused_is_a_phantom_and_not_resurrected_as_well() -> None:
    session = CheckedSession(Contract(ttl_seconds=1.0))
    session.told(1, 0.1, 0.2)
    session.told(2, 0.3, 0.4, Outcome.FAILED)
    session.close()
    assert session.shows(5.0, 2) == {(Kind.PHANTOM, 2)}


@pytest.mark.parametrize(("acknowledged", "is_lost"), [(1.0, True), (2.0, False)])
def test_nothing_is_excused_by_when_it_was_seen_while_its_acknowledgement_may_come(
    acknowledged: float, is_lost: bool
) -> None:
    session = CheckedSession(TAIL)
    assert session.shows(2.1, 1) == set()
    session.crash(2.2, 2.3)
    assert session.shows(2.5) == set()
    session.sweep()
    assert session.shows(3.5) == set()
    session.told(1, 0.8, acknowledged)
    assert session.shows(4.5) == ({(Kind.ROLLED_BACK, 1)} if is_lost else set())


def test_an_acknowledgement_that_never_comes_is_not_waited_for_for_ever() -> None:
    session = CheckedSession(TAIL)
    session.shows(2.1, 1)
    session.crash(2.2, 2.3)
    session.shows(2.5)
    session.sweep()
    assert session.shows(8.0) == set()
    assert session.book.suspicions is None


def test_an_unknown_write_behind_one_in_flight_can_prove_a_hole() -> None:
    session = CheckedSession(TAIL)
    session.told(1, 0.1, 1.5)
    session.told(3, 1.6, 1.7, Outcome.UNKNOWN)
    assert session.shows(2.0, 1, 2, 3) == set()
    session.crash(2.1, 2.2)
    session.shows(2.5, 2, 3)
    session.sweep()
    assert session.shows(3.5, 2, 3) == {(Kind.ROLLED_BACK, 1)}


def test_an_unreadable_row_explains_what_is_acknowledged_only_afterwards() -> None:
    session = CheckedSession()
    session.told(1, 0.1, 0.2)
    row = Garbled(b"\xff", "bad")
    assert session.shows(1.0, 1, row) == {(Kind.UNDECODABLE, 0)}
    session.told(2, 0.3, 0.4)
    assert session.shows(2.0, 1) == session.shows(3.0, 1) == set()


def test_an_unknown_write_that_a_read_has_shown_bears_its_time_for_the_next_one() -> None:
    session = CheckedSession()
    session.told((1, 1), 0.5, 0.6, Outcome.UNKNOWN)
    assert session.shows(1.0, (1, 1), 1) == set()
    session.told(1, 0.1, 0.2)
    assert session.shows(2.0, (1, 1), 1) == {(Kind.REORDERED, 1)}


def test_what_was_missed_and_comes_back_in_another_order_is_reordered() -> None:
    session = CheckedSession(Contract(order=Order.PER_WRITER))
    session.told(1, 0.1, 0.2)
    session.told((1, 1), 0.3, 0.4)
    assert session.shows(1.0, 1, (1, 1)) == session.shows(1.2) == set()
    assert (Kind.REORDERED, 1) in session.shows(1.4, (1, 1), 1)


def test_an_unknown_write_that_a_participant_saw_before_a_crash_proves_a_hole_if_it_survived() -> None:
    session = CheckedSession(TAIL)
    session.told(1, 0.1, 0.2)
    session.told((1, 1), 0.3, 0.4, Outcome.UNKNOWN)
    seen = session.read(0.5, 1, (1, 1))
    session.crash(0.7, 0.8)
    assert session.shows(1.0, (1, 1)) == set()
    session.checker.observe_participant(seen, None, [])
    session.sweep()
    assert session.shows(2.0, (1, 1)) == {(Kind.LOST, 1)}


def test_an_acknowledgement_that_comes_late_puts_a_verified_message_in_order_again() -> None:
    session = CheckedSession()
    session.told(2, 0.3, 0.4)
    assert session.shows(1.0, 2, 1) == session.shows(7.0, 2, 1) == set()
    session.told(1, 0.1, 0.2)
    assert session.shows(8.0, 2, 1) == {(Kind.REORDERED, 1)}
    assert session.shows(9.0, 2, 1) == set()


def test_what_the_primary_shows_wrong_when_it_is_asked_is_reported() -> None:
    session = CheckedSession(BEHIND, asks_primary=True)
    for seq in (1, 2, 3):
        session.told(seq, seq * 0.1, seq * 0.1 + 0.05)
    assert session.shows(4.0, 1) == set()
    replica, primary = session.read(6.0, 1), session.read(6.1, altered(1), 3, 2)
    assert session.checker.needs_primary(replica)
    found = session.reported(session.checker.observe(replica, primary))
    assert found >= {(Kind.CORRUPTED, 1), (Kind.REORDERED, 2)}


def test_the_primary_is_judged_at_the_time_at_which_it_is_asked() -> None:
    session = CheckedSession(msgspec.structs.replace(BEHIND, ttl_seconds=3.0), asks_primary=True)
    session.told(1, 0.1, 0.2)
    session.told(2, 0.3, 0.4)
    assert session.shows(1.0, 1) == set()
    replica, primary = session.read(2.9, 1), session.read(3.5, 1)
    assert session.checker.needs_primary(replica)
    assert session.reported(session.checker.observe(replica, primary)) == set()


def test_a_sliding_life_lasts_as_long_as_the_own_send_of_a_message_whatever_a_fault_may_undo() -> None:
    session = CheckedSession(Contract(ttl_seconds=3.0, crash_loss_seconds=0.5))
    session.told(1, 0.1, 0.2)
    session.told(2, 1.0, 1.1)
    session.told(3, 1.2, 1.3)
    session.crash(1.5, 1.6)
    assert session.shows(3.2, 1, 3) == set()
    session.sweep()
    assert session.shows(3.8, 1, 3) == {(Kind.LOST, 2)}


def test_what_was_answered_before_the_tail_of_a_fault_has_prolonged_a_life() -> None:
    session = CheckedSession(Contract(ttl_seconds=3.0, crash_loss_seconds=0.5))
    for seq, at in ((1, 0.1), (2, 2.0), (3, 4.0), (4, 4.6)):
        session.told(seq, at, at + 0.1)
    assert session.shows(4.8, 1, 2, 3, 4) == set()
    session.crash(5.0, 5.1)  # which may have taken 4, and not 3
    assert session.shows(5.5, 1, 3) == set()
    session.sweep()
    assert session.shows(6.1, 1, 3) == {(Kind.ROLLED_BACK, 2)}


def test_what_an_earlier_fault_may_have_taken_has_not_prolonged_a_life() -> None:
    """The first crash takes 2, and the second one 3: the life ends three seconds after 1."""
    session = CheckedSession(Contract(ttl_seconds=3.0, crash_loss_seconds=0.5))
    session.told(1, 0.1, 0.2)
    session.told(2, 1.0, 1.1)
    session.crash(1.3, 1.4)
    session.told(3, 2.0, 2.1)
    session.crash(2.4, 2.5)
    assert session.shows(3.2) == set()
    session.sweep()
    assert session.shows(3.9) == set()


def window_of(session: CheckedSession, at: float, *seen: int) -> set[tuple[Kind, int]]:
    """Judge a participant's read of the last three by the last full read."""
    acked = [(0, seq, seq * SECOND - 10, seq * SECOND) for seq in range(1, int(at) + 1)]
    observed = session.checker.observe_participant(session.read(at, *seen), 3, acked)
    return session.reported(observed)


@pytest.mark.parametrize(
    ("seen", "wrong"),
    [((3, 4, 6), (Kind.WINDOW, 5)), ((1, 2, 3), (Kind.STALE, 4))],
    ids=["a hole", "only older ones"],
)
def test_a_window_is_wrong_although_the_next_full_read_does_not_show_all_of_it(
    seen: tuple[int, ...], wrong: tuple[Kind, int]
) -> None:
    session = CheckedSession(Contract(retained_messages=3))
    for seq in range(1, 7):
        session.told(seq, seq - 0.001, float(seq))
    assert session.shows(7.0, 4, 5, 6) == set()
    assert wrong in window_of(session, 6.5, *seen)


def test_a_window_with_a_message_twice_is_wrong_also_if_the_session_was_forgotten_since() -> None:
    session = CheckedSession()
    session.told(1, 0.1, 0.2)
    session.intends_forget(2.0)
    session.forgot(2.0, 2.1)
    assert session.shows(3.0) == set()
    assert window_of(session, 1.5, 1, 1) == {(Kind.DUPLICATED, 1)}


def test_what_was_refused_takes_no_place_among_the_last() -> None:
    session = CheckedSession(Contract(retained_messages=3, order=Order.PER_WRITER))
    for seq in (1, 2, 4):
        session.told(seq, seq - 0.1, float(seq))
    session.told(3, 2.5, 2.6, Outcome.FAILED)
    assert session.shows(5.0, 1, 2, 4) == set()
    session.shows(6.0, 2, 3, 4)
    assert session.shows(7.0, 2, 3, 4) == {(Kind.ROLLED_BACK, 1)}


def test_a_copy_takes_no_place_among_the_last() -> None:
    session = CheckedSession(Contract(retained_messages=3))
    for seq in (1, 2, 3):
        session.told(seq, seq - 0.1, float(seq))
    assert session.shows(4.0, 1, 2, 3) == set()
    assert session.shows(5.0, 2, 3, 3) == {(Kind.DUPLICATED, 3)}
    assert session.shows(6.0, 2, 3, 3) == {(Kind.ROLLED_BACK, 1)}


def test_an_unknown_write_may_have_taken_a_place_among_the_last_and_be_lost_since() -> None:
    session = CheckedSession(Contract(retained_messages=2, crash_loss_seconds=1.0))
    session.told(1, 0.1, 0.2)
    session.told(2, 1.0, 1.1)
    session.told(3, 1.8, 1.9, Outcome.UNKNOWN)
    session.crash(2.0, 2.1)
    assert session.shows(3.0, 2) == set()
    session.sweep()
    assert session.shows(4.0, 2) == session.shows(5.0, 2) == set()


def test_what_comes_back_after_the_sweep_takes_back_no_excuse() -> None:
    session = CheckedSession(TAIL)
    session.told(1, 1.4, 1.5)
    session.told(2, 1.6, 1.7)
    assert session.shows(1.9, 1, 2) == set()
    session.crash(2.0, 2.1)
    assert session.shows(2.5) == set()
    session.sweep()
    assert session.shows(3.5) == set()
    assert session.shows(4.5, 2) == session.shows(5.5, 2) == set()


def test_under_eventual_nothing_proves_a_hole() -> None:
    contract = msgspec.structs.replace(TAIL, reads=Reads.EVENTUAL)
    session = CheckedSession(contract, asks_primary=True)
    session.told(1, 1.4, 1.5)
    session.told(2, 1.6, 1.7)
    assert session.shows(1.9, 1, 2) == set()
    session.crash(2.0, 2.1)
    assert session.shows(2.5, 2) == set()
    session.sweep()
    assert session.reported(session.checker.observe(session.read(3.5, 2), session.read(3.6, 2))) == set()


def test_what_a_replica_showed_in_the_shadow_of_a_later_fault_has_not_survived_the_earlier_one() -> None:
    session = CheckedSession(
        msgspec.structs.replace(BEHIND, crash_loss_seconds=1.0), asks_primary=True, reads_replica=True
    )
    session.told(1, 0.8, 0.9)
    session.crash(1.0, 1.1, caught_up=1.2)
    session.crash(3.0, 3.1, caught_up=4.0)
    assert session.shows(3.5, 1) == session.shows(5.0) == set()
    session.sweep()
    assert session.reported(session.checker.observe(session.read(6.0), session.read(6.1))) == set()


@pytest.mark.parametrize("contract", [Contract(), Contract(reads=Reads.EVENTUAL)], ids=["strict", "eventual"])
def test_what_a_participant_saw_in_flight_is_a_phantom_if_it_is_refused(contract: Contract) -> None:
    session = CheckedSession(contract)
    assert session.shows(2.0) == set()
    window_of(session, 1.0, 1)
    session.told(1, 0.8, 1.1, Outcome.FAILED)
    assert session.shows(2.5) == {(Kind.PHANTOM, 1)}


@pytest.mark.parametrize(("retained", "is_late"), [(3, True), (1, False)])
def test_lateness_is_noticed_also_where_only_the_last_are_kept_and_none_had_to_go(retained: int, is_late: bool) -> None:
    session = CheckedSession(Contract(retained_messages=retained))
    session.told(3, 0.7, 0.8)
    assert session.shows(1.0, 3) == set()
    session.told(2, 0.5, 0.6)
    assert session.shows(2.0, *((2, 3) if is_late else (3,))) == ({(Kind.STALE, 2)} if is_late else set())


def test_what_was_seen_in_flight_and_begins_a_new_life_is_expected_in_it() -> None:
    session = CheckedSession(Contract(ttl_seconds=2.0, expiry=Expiry.ABSOLUTE))
    session.told(1, 0.1, 0.2)
    assert session.shows(3.0, 2) == set()
    session.told(2, 2.8, 3.1)
    assert session.shows(3.5) == set()
    assert session.shows(4.2) == {(Kind.ROLLED_BACK, 2)}


def test_what_is_sent_when_an_old_life_must_be_over_is_expected_also_if_another_had_begun_before() -> None:
    session = CheckedSession(Contract(ttl_seconds=2.0, expiry=Expiry.ABSOLUTE))
    session.told(1, 0.1, 0.5)
    session.told(2, 2.2, 2.3)  # the life of 1 ends between 2.1 and 2.5
    session.told(3, 3.0, 3.1)
    assert session.shows(3.2, 2, 3) == session.shows(3.4) == set()
    assert session.shows(4.0) == {(Kind.ROLLED_BACK, 3)}


def test_a_fault_may_have_undone_what_began_an_old_life() -> None:
    """It may have taken 1 alone: then the life began with 2, which is over by 3.1 and not by 2.5."""
    session = CheckedSession(Contract(ttl_seconds=2.0, expiry=Expiry.ABSOLUTE, crash_loss_seconds=None))
    session.told(1, 0.1, 0.5)
    session.told(2, 1.0, 1.1)
    session.told(3, 2.2, 2.3)
    session.crash(2.35, 2.36)
    session.told(4, 3.0, 3.05)
    assert session.shows(3.06, 2, 3, 4) == session.shows(3.2) == set()
    session.sweep()
    assert session.shows(4.0) == set()


def test_an_unknown_append_that_was_seen_in_an_old_life_has_not_begun_the_next() -> None:
    session = CheckedSession(Contract(ttl_seconds=2.0, expiry=Expiry.ABSOLUTE))
    session.told(1, 0.0, 0.1)
    assert session.shows(1.0, 1, 2) == set()
    session.told(3, 2.5, 2.6)
    assert session.shows(2.8, 3) == set()
    session.told(2, 0.5, 0.9, Outcome.UNKNOWN)
    assert session.shows(3.0) == set()
    assert session.shows(3.6) == {(Kind.ROLLED_BACK, 3)}


@pytest.mark.parametrize("is_read_between", [True, False])
def test_a_life_that_an_unknown_append_began_is_over_when_a_read_had_shown_that_long_before(
    is_read_between: bool,
) -> None:
    for duplicates, reported in ((Duplicates.EXACTLY_ONCE, {(Kind.LOST, 2)}), (Duplicates.AT_LEAST_ONCE, set())):
        session = CheckedSession(Contract(ttl_seconds=2.0, expiry=Expiry.ABSOLUTE, duplicates=duplicates))
        assert session.shows(0.2, 1) == set()
        session.told(1, 0.1, 0.3, Outcome.UNKNOWN)
        session.told((1, 1), 1.0, 1.1)
        if is_read_between:
            assert session.shows(2.45) == set()
        session.told(2, 2.5, 2.6)
        assert session.shows(3.5) == set()
        assert session.shows(4.2) == reported


def test_two_orders_are_compared_although_an_append_between_the_reads_has_begun_a_new_life() -> None:
    session = CheckedSession(Contract(ttl_seconds=2.0, expiry=Expiry.ABSOLUTE))
    session.told(1, 0.0, 0.1)
    session.told((1, 1), 1.0, 1.1, Outcome.UNKNOWN)
    assert session.shows(2.4, 2, (1, 1)) == set()
    session.told(2, 1.9, 2.3)
    assert session.shows(2.6, (1, 1), 2) == {(Kind.REORDERED, 2)}


def test_an_unknown_append_that_was_seen_late_may_have_begun_a_life_or_the_next() -> None:
    for is_told_first in (True, False):
        session = CheckedSession(Contract(ttl_seconds=2.0, expiry=Expiry.ABSOLUTE))
        session.told(1, 0.0, 0.1)
        assert session.shows(2.2, 2) == set()
        appends = [(2, 0.5, 0.9, Outcome.UNKNOWN), (3, 2.5, 2.6, Outcome.OK)]
        for append in appends if is_told_first else reversed(appends):
            session.told(*append)
        assert session.shows(2.8) == session.shows(3.6) == set()


@pytest.mark.parametrize("expiry", Expiry)
def test_what_was_seen_in_flight_in_an_old_life_and_refused_is_a_phantom(expiry: Expiry) -> None:
    session = CheckedSession(Contract(ttl_seconds=2.0, expiry=expiry))
    session.told(1, 0.0, 0.1)
    assert session.shows(1.0, 1, (1, 1)) == set()
    session.told(2, 2.5, 2.6)
    assert session.shows(2.8, 2) == set()
    session.told((1, 1), 0.5, 2.7, Outcome.FAILED)
    assert session.shows(3.0, 2) == {(Kind.PHANTOM, 1)}


def test_what_was_under_way_when_a_life_ended_may_have_gone_with_it() -> None:
    """It was applied in the old life, and answered when another append had begun a new one."""
    session = CheckedSession(Contract(ttl_seconds=2.0, expiry=Expiry.ABSOLUTE))
    session.told(1, 0.0, 0.01)
    session.told((1, 1), 4.0, 4.05)
    session.told(2, 1.5, 4.3)
    assert session.shows(4.8, (1, 1)) == set()
    assert session.shows(5.25, (1, 1)) == set()


@pytest.mark.parametrize("expiry", Expiry)
def test_what_is_told_late_and_belongs_to_a_life_that_is_over_is_not_expected_in_the_next(expiry: Expiry) -> None:
    session = CheckedSession(Contract(ttl_seconds=2.0, expiry=expiry))
    session.told(1, 0.0, 0.1)
    session.told((1, 1), 4.0, 4.05)
    session.told(2, 0.5, 0.6)
    assert session.shows(4.5, (1, 1)) == session.shows(5.1) == set()
    assert session.shows(5.7) == {(Kind.ROLLED_BACK, 1)}


def test_what_is_told_late_may_have_begun_the_life_in_which_the_next_was_said() -> None:
    session = CheckedSession(Contract(ttl_seconds=2.0, expiry=Expiry.ABSOLUTE))
    session.told(1, 0.0, 0.1)
    session.told(3, 3.0, 3.1)
    session.told(2, 1.9, 2.2)
    assert session.shows(4.3) == session.shows(4.9) == set()


def test_an_unknown_append_that_was_seen_long_ago_does_not_date_the_end_of_a_life() -> None:
    """The life began by the acknowledgement of 2: what is said at 60.3 may be in it, and gone with it."""
    session = CheckedSession(Contract(ttl_seconds=60.0, expiry=Expiry.ABSOLUTE))
    session.told(1, 0.2, 0.23, Outcome.UNKNOWN)
    session.told(2, 0.5, 0.53)
    assert session.shows(1.0, 1, 2) == session.shows(30.0, 1, 2) == set()
    session.told(3, 60.3, 60.4)
    assert session.shows(60.45, 1, 2, 3) == session.shows(60.6) == session.shows(61.5) == set()


def test_an_unknown_append_may_have_begun_a_life_later_than_its_caller_gave_up() -> None:
    session = CheckedSession(Contract(ttl_seconds=2.0, expiry=Expiry.ABSOLUTE))
    session.told(1, 0.2, 0.23, Outcome.UNKNOWN)
    session.told(2, 0.5, 0.53)
    assert session.shows(2.3, 1, 2, 3) == set()
    session.told(3, 2.26, 2.4)
    assert session.shows(3.3) == set()
    assert session.shows(3.9) == set()


def test_an_acknowledgement_that_nobody_waited_for_any_more_dates_a_message() -> None:
    session = CheckedSession(Contract(crash_loss_seconds=2.0))
    assert session.shows(1.0, 1) == set()
    assert session.shows(7.0, 1) == set()
    session.told(1, 0.5, 6.9)
    session.crash(8.0, 8.5)
    assert session.shows(9.0) == set()
    session.sweep()
    assert session.shows(10.0) == set()


def test_a_row_that_cannot_be_read_stands_for_what_the_last_read_showed_there() -> None:
    session = CheckedSession(Contract(crash_loss_seconds=1.0))
    session.told(1, 0.0, 0.1)
    assert session.shows(0.5, 1) == set()
    session.told(2, 0.9, 1.0)
    session.crash(1.2, 1.4)
    session.told(3, 1.5, 1.6)
    garbled = Garbled(b"\xff", "bad")
    assert session.shows(1.7, 1, 3) == set()
    assert session.shows(2.0, 1, garbled) == {(Kind.UNDECODABLE, 0)}
    session.sweep()
    assert session.shows(3.0, 1, garbled) == set()
    assert session.shows(4.0, 1, garbled) == set()


def test_what_a_read_showed_behind_a_forget_is_resurrected_though_another_forget_followed() -> None:
    session = CheckedSession()
    session.told(1, 0.0, 0.1)
    session.intends_forget(0.2)
    assert session.shows(0.5, 1) == set()
    session.intends_forget(0.6)
    session.forgot(0.2, 0.3)
    session.forgot(0.6, 0.7)
    assert session.shows(1.0) == {(Kind.RESURRECTED, 1)}


def test_a_fault_undoes_no_forget_for_a_read_that_was_before_it() -> None:
    for crashed, reported in ((0.6, {(Kind.RESURRECTED, 1)}), (0.4, set())):
        session = CheckedSession(TAIL)
        session.told(1, 0.0, 0.1)
        session.intends_forget(0.2)
        assert session.shows(0.5, 1) == set()
        session.crash(crashed, 0.9)
        session.forgot(0.2, 0.3)
        session.sweep()
        assert session.shows(1.0) == reported


def test_what_was_seen_without_an_outcome_and_forgotten_must_not_be_there_again() -> None:
    for contract, reported in (
        (Contract(), {(Kind.RESURRECTED, 1)}),
        (Contract(duplicates=Duplicates.AT_LEAST_ONCE), set()),
    ):
        session = CheckedSession(contract)
        assert session.shows(0.5, 1) == set()
        session.intends_forget(1.0)
        session.forgot(1.0, 1.1)
        assert session.shows(2.0, 1) == reported


def test_what_was_seen_in_flight_behind_a_forget_stays_seen_when_a_read_in_a_shadow_shows_it_too() -> None:
    session = CheckedSession(BEHIND, reads_replica=True)
    session.intends_forget(0.1)
    session.forgot(0.1, 0.2)
    assert session.shows(2.0, 1, 2) == set()
    session.crash(2.2, 2.3, caught_up=2.5)
    assert session.shows(2.4, 1, 2) == set()
    session.sweep()
    session.told(1, 0.5, 0.6)
    session.told(2, 0.7, 0.8)
    assert session.shows(4.0, 1) == set()
    assert session.shows(6.0, 1) == {(Kind.ROLLED_BACK, 2)}


def test_two_orders_of_what_is_in_flight_are_compared_although_a_read_in_a_shadow_came_between() -> None:
    session = CheckedSession(BEHIND, reads_replica=True)
    session.intends_forget(0.1)
    session.forgot(0.1, 0.2)
    assert session.shows(2.0, (1, 1), 1) == set()
    session.crash(2.2, 2.3, caught_up=2.5)
    assert session.shows(2.4, (1, 1), 1) == set()
    session.sweep()
    assert (Kind.REORDERED, 1) in session.shows(4.0, 1, (1, 1))


def test_lateness_stays_suspected_when_a_read_in_a_shadow_was_under_way_as_the_outcome_came() -> None:
    session = CheckedSession(BEHIND, reads_replica=True)
    assert session.shows(1.0) == set()
    session.crash(1.2, 1.3, caught_up=2.0)
    late = session.read(1.5)
    session.told(1, 0.1, 0.2)
    session.checker.observe(late)
    session.sweep()
    assert session.shows(3.0, 1) == {(Kind.STALE, 1)}


def test_what_a_read_lacked_before_a_forget_was_sent_and_one_before_its_outcome_shows_was_late() -> None:
    session = CheckedSession()
    assert session.shows(1.0) == set()
    session.told(1, 0.1, 0.2)
    session.intends_forget(1.5)
    assert session.shows(2.0, 1) == {(Kind.STALE, 1)}


@pytest.mark.parametrize("outcome", [Outcome.OK, Outcome.UNKNOWN])
def test_what_was_shown_late_before_a_forget_is_reported_though_that_has_happened_since(outcome: Outcome) -> None:
    session = CheckedSession()
    assert session.shows(1.0) == session.shows(2.0, 1) == set()
    session.told(1, 0.1, 0.2)
    session.intends_forget(2.5)
    session.forgot(2.5, 2.6, outcome)
    assert session.shows(3.0) == {(Kind.STALE, 1)}


def test_what_was_forgotten_and_shown_is_resurrected_also_if_it_has_gone_when_its_outcome_comes() -> None:
    session = CheckedSession()
    session.intends_forget(1.0)
    session.forgot(1.0, 1.1)
    assert session.shows(2.0, 1) == session.shows(2.2) == set()
    session.told(1, 0.1, 0.2)
    assert session.shows(2.4) == {(Kind.RESURRECTED, 1)}


def test_what_was_forgotten_and_shown_is_resurrected_also_if_a_forget_in_doubt_may_have_taken_it_since() -> None:
    session = CheckedSession()
    session.told(1, 0.1, 0.2)
    session.intends_forget(1.0)
    assert session.shows(2.0, 1) == set()
    session.intends_forget(2.5)
    session.forgot(2.5, 2.6, Outcome.UNKNOWN)
    assert session.shows(3.0) == set()
    session.forgot(1.0, 1.1)
    assert session.shows(4.0) == {(Kind.RESURRECTED, 1)}


def test_two_orders_behind_a_forget_are_compared_also_where_reads_may_be_behind_for_ever() -> None:
    for duplicates, reported in ((Duplicates.EXACTLY_ONCE, {(Kind.REORDERED, 1)}), (Duplicates.AT_LEAST_ONCE, set())):
        session = CheckedSession(Contract(reads=Reads.EVENTUAL, duplicates=duplicates))
        session.intends_forget(0.1)
        session.forgot(0.1, 0.2)
        assert session.shows(1.0, (1, 1), 1) == set()
        assert session.shows(2.0, 1, (1, 1)) == reported


def test_outcomes_of_what_a_participant_saw_behind_a_forget_come_in_any_order() -> None:
    session = CheckedSession()
    session.intends_forget(0.1)
    session.forgot(0.1, 0.2)
    assert session.shows(1.0, 1, 2) == set()
    session.checker.observe_participant(session.read(0.8, 1, 2), 3, [])
    session.told(2, 0.5, 0.6, Outcome.UNKNOWN)
    session.told(1, 0.3, 0.4, Outcome.UNKNOWN)
    assert session.shows(2.0, 1, 2) == set()


def test_of_what_was_missed_while_nothing_was_decided_each_is_dated_by_the_read_that_had_shown_it() -> None:
    session = CheckedSession(TAIL)
    session.told(1, 0.1, 0.2)
    assert session.shows(0.5, 1) == set()
    session.told(2, 0.6, 0.7)
    session.crash(0.8, 0.9)
    session.intends_forget(1.0)
    assert session.shows(1.2, 2) == session.shows(1.4) == set()
    session.forgot(1.0, 1.1, Outcome.FAILED)
    session.sweep()
    assert session.shows(2.0) == set()
    assert session.shows(3.0) == {(Kind.ROLLED_BACK, 1), (Kind.ROLLED_BACK, 2)}


def test_what_nobody_acknowledged_and_a_read_in_a_shadow_showed_is_rolled_back_and_not_lost() -> None:
    session = CheckedSession(msgspec.structs.replace(BEHIND, retained_messages=2), reads_replica=True)
    session.intends_forget(0.1)
    session.told(1, 0.5, 0.6, Outcome.UNKNOWN)
    session.crash(0.9, 1.0, caught_up=1.5)
    assert session.shows(1.2, 1) == set()
    session.forgot(0.1, 0.2)
    session.sweep()
    assert session.shows(3.0) == set()
    assert session.shows(5.0) == {(Kind.ROLLED_BACK, 1)}


def test_what_the_primary_alone_showed_in_flight_is_a_phantom_if_it_is_refused() -> None:
    session = CheckedSession(Contract(reads=Reads.EVENTUAL), asks_primary=True, reads_replica=True)
    session.told(1, 0.0, 0.1)
    assert session.shows(0.2) == set()
    session.checker.observe(session.read(1.0), session.read(1.05, 1, 2))
    session.told(2, 0.9, 1.0, Outcome.FAILED)
    assert session.shows(2.0, 1) == {(Kind.PHANTOM, 2)}


def test_what_a_replica_showed_and_hides_while_the_primary_has_it_is_non_monotonic() -> None:
    contract = Contract(reads=Reads.BOUNDED_STALENESS, staleness_seconds=0.1)
    session = CheckedSession(contract, asks_primary=True, reads_replica=True)
    session.told(1, 0.0, 0.1)
    assert session.shows(0.5, 1) == set()
    assert session.shows(0.8) == set()
    observed = session.checker.observe(session.read(2.0), session.read(2.05, 1))
    assert session.reported(observed) == {(Kind.NON_MONOTONIC, 1)}


@pytest.mark.parametrize(("seen_at", "reported"), [(1.05, set()), (1.3, {(Kind.LOST, 2)})])
def test_what_a_participant_saw_after_a_fault_was_not_taken_by_that(
    seen_at: float, reported: set[tuple[Kind, int]]
) -> None:
    session = CheckedSession(TAIL)
    session.told(1, 0.1, 0.2)
    session.told(2, 0.9, 1.0)
    seen = session.read(seen_at, 1, 2)
    session.crash(1.1, 1.2)
    assert session.shows(2.0, 1) == set()
    session.checker.observe_participant(seen, 3, [])
    session.sweep()
    assert session.shows(3.0, 1) == reported


@pytest.mark.parametrize(("lacked", "reported"), [((), {(Kind.STALE, 2)}), ((2,), set())])
def test_what_the_primary_lacked_was_missing_also_within_the_bound_of_a_replica(
    lacked: tuple[int, ...], reported: set[tuple[Kind, int]]
) -> None:
    session = CheckedSession(BEHIND, asks_primary=True, reads_replica=True)
    session.told(1, 0.1, 0.2)
    assert session.shows(1.0) == set()
    session.told(2, 1.6, 1.7)
    late, primary = session.read(2.0), session.read(2.1, *lacked)
    assert session.reported(session.checker.observe(late, primary)) == {(Kind.LOST, 1)}
    assert session.shows(4.0, 2) == reported


@pytest.mark.parametrize(("answer", "reported"), [((3,), {(Kind.ROLLED_BACK, 3)}), ((), set())])
def test_what_the_primary_showed_in_flight_after_a_fault_was_not_taken_by_that(
    answer: tuple[int, ...], reported: set[tuple[Kind, int]]
) -> None:
    session = CheckedSession(msgspec.structs.replace(TAIL, reads=Reads.EVENTUAL), asks_primary=True, reads_replica=True)
    session.told(1, 0.1, 0.2)
    assert session.shows(1.0) == set()
    session.crash(1.1, 1.2, caught_up=1.3)
    assert session.shows(1.5) == set()
    session.sweep()
    session.checker.observe(session.read(2.1, 3), session.read(2.2, *answer))
    assert session.shows(3.0) == set()
    observed = session.checker.observe(session.read(4.0), session.read(4.1))
    assert session.reported(observed) >= reported
    assert ((Kind.ROLLED_BACK, 3) in session.reported(observed)) is bool(reported)


@pytest.mark.parametrize("contract", [BEHIND, Contract(reads=Reads.EVENTUAL)], ids=["bounded", "eventual"])
def test_what_a_participant_saw_in_flight_is_rolled_back_if_the_primary_lacks_it(contract: Contract) -> None:
    session = CheckedSession(contract, asks_primary=True, reads_replica=True)
    session.told(1, 0.1, 0.2)
    assert session.shows(1.5, 1) == set()
    session.checker.observe_participant(session.read(1.2, 1, 2), 3, [])
    later, primary = session.read(3.0, 1), session.read(3.1, 1)
    assert session.checker.needs_primary(later)
    assert session.reported(session.checker.observe(later, primary)) == {(Kind.ROLLED_BACK, 2)}


@pytest.mark.parametrize("contract", [BEHIND, Contract(reads=Reads.EVENTUAL, crash_loss_seconds=1.0)])
def test_what_only_the_primary_showed_in_flight_is_rolled_back_if_it_lacks_it_later(contract: Contract) -> None:
    session = CheckedSession(contract, asks_primary=True, reads_replica=True)
    session.crash(0.1, 0.2, caught_up=0.3)
    session.told(1, 0.5, 0.6)
    assert session.shows(2.0) == set()
    session.sweep()
    late, primary = session.read(4.0), session.read(4.1, 1, 2)
    assert session.checker.needs_primary(late)
    session.checker.observe(late, primary)
    later, primary = session.read(6.0, 1), session.read(6.1, 1)
    assert session.checker.needs_primary(later)
    assert session.reported(session.checker.observe(later, primary)) == {(Kind.ROLLED_BACK, 2)}


def test_an_unknown_write_that_was_shown_is_rolled_back_if_the_next_read_was_under_way_when_that_was_judged() -> None:
    session = CheckedSession()
    session.told(1, 0.1, 0.2, Outcome.UNKNOWN)
    shows, lacks = session.read(1.0, 1), session.read(2.0)
    session.checker.observe(shows)
    assert session.reported(session.checker.observe(lacks)) == set()
    assert session.shows(3.0) == {(Kind.ROLLED_BACK, 1)}


def test_what_the_primary_shows_when_it_is_asked_proves_a_hole_also_under_eventual() -> None:
    session = CheckedSession(msgspec.structs.replace(TAIL, reads=Reads.EVENTUAL), asks_primary=True)
    session.told(1, 1.4, 1.5)
    session.told(2, 1.6, 1.7)
    assert session.shows(1.9, 1) == set()
    session.crash(2.0, 2.1)
    late, primary = session.read(2.5), session.read(2.6, 2)
    session.checker.observe(late, primary)
    session.sweep()
    assert session.reported(session.checker.observe(session.read(3.5), session.read(3.6, 2))) >= {(Kind.ROLLED_BACK, 1)}


@pytest.mark.parametrize("appears_at", [3.0, 300.0])
def test_an_unknown_write_may_never_stand_in_front_of_what_was_acknowledged_before_it_was_sent(
    appears_at: float,
) -> None:
    session = CheckedSession()
    session.told(1, 1.0, 1.1)
    session.told(2, 1.2, 1.3)
    session.told((1, 1), 1.4, 1.5, Outcome.UNKNOWN)
    for at in range(2, int(appears_at), 20):
        assert session.shows(at, 1, 2) == set()
    assert session.shows(appears_at, 1, (1, 1), 2) == {(Kind.REORDERED, 2)}


def test_an_unknown_write_may_appear_late_in_front_of_what_was_sent_after_it() -> None:
    session = CheckedSession()
    session.told(1, 1.0, 1.1)
    session.told((1, 1), 1.4, 1.5, Outcome.UNKNOWN)
    session.told(2, 1.6, 1.7)
    assert session.shows(2.0, 1, 2) == session.shows(30.0, 1, 2) == set()
    assert session.shows(60.0, 1, (1, 1), 2) == session.shows(61.0, 1, (1, 1), 2) == set()
    assert session.book.fronts is None
