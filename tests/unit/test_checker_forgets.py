"""Forgets: what one has erased must not stand, what it has left is expected, whenever its outcome comes."""

from __future__ import annotations

import pytest

from soak.checker.contract import Contract, Expiry, Order, Reads
from soak.checker.kinds import Kind
from soak.checker.outcome import Attempt, Outcome
from soak.checker.read import Rules
from soak.ledger.reader import WorkerBatch
from soak.ledger.records import Batch, ForgetIntent, ForgetOutcome, Lease, Open
from soak.verifier.intake import Intake
from soak.verifier.state import State
from tests.support.checker.checked_session import SECOND, CheckedSession
from tests.support.run_headers import header_of

TWO_SECONDS_AT_MOST = Contract(ttl_seconds=2.0, expiry=Expiry.ABSOLUTE)
TAIL = Contract(crash_loss_seconds=1.0)


@pytest.mark.parametrize("first_comes_first", [True, False])
def test_forgets_count_one_by_one_whatever_the_order_of_their_outcomes(first_comes_first: bool) -> None:
    session = CheckedSession()
    session.told(1, 1.0, 1.1)
    session.intends_forget(2.0)
    session.intends_forget(3.0)
    for sent in (2.0, 3.0) if first_comes_first else (3.0, 2.0):
        session.forgot(sent, sent + 0.1)
    session.told(2, 4.0, 4.1)
    assert session.shows(5.0) == set()
    assert session.shows(6.0) == {(Kind.LOST, 2)}
    assert session.shows(7.0, 1) == {(Kind.RESURRECTED, 1)}


def test_a_refused_forget_does_not_end_the_doubt_of_another_one() -> None:
    session = CheckedSession()
    session.told(1, 1.0, 1.1)
    session.intends_forget(2.0)
    session.intends_forget(2.1)
    session.forgot(2.0, 2.3, Outcome.FAILED)
    assert session.shows(3.0) == session.shows(4.0) == set()
    session.forgot(2.1, 2.2, Outcome.FAILED)
    assert session.shows(5.0) == set()
    assert session.shows(6.0) == {(Kind.LOST, 1)}


@pytest.mark.parametrize("outcome", [Outcome.OK, Outcome.UNKNOWN, None])
def test_what_a_read_showed_behind_a_forget_is_expected_also_if_the_outcome_came_later(
    outcome: Outcome | None,
) -> None:
    session = CheckedSession()
    session.intends_forget(1.0)
    if outcome is not None:
        session.told(1, 1.5, 1.6, outcome)
    assert session.shows(2.0, 1) == set()
    session.forgot(1.0, 1.1)
    assert session.shows(3.0) == set()
    assert session.shows(4.0) == {(Kind.ROLLED_BACK, 1)}


def test_what_was_said_behind_a_forget_is_expected_however_late_its_outcome_comes() -> None:
    session = CheckedSession()
    session.told(1, 1.0, 1.1)
    session.intends_forget(2.0)
    session.told(2, 3.0, 3.1)
    assert session.shows(4.0, 2) == session.shows(60.0, 2) == session.shows(120.0, 2) == set()
    session.forgot(2.0, 2.1)
    assert session.shows(121.0, 2) == set()
    assert session.shows(122.0) == set()
    assert session.shows(124.0) == {(Kind.ROLLED_BACK, 2)}


def test_what_raced_with_a_forget_and_is_shown_behind_something_in_flight_is_expected() -> None:
    session = CheckedSession()
    session.told((1, 1), 1.0, 2.2)
    session.forgot(2.0, 2.1)
    assert session.shows(3.0, 1, (1, 1)) == set()
    assert session.shows(4.0, 1) == set()
    assert session.shows(5.0, 1) == {(Kind.ROLLED_BACK, 1)}


def test_what_was_seen_before_a_forget_and_stands_behind_it_is_resurrected_whatever_comes_late() -> None:
    session = CheckedSession()
    assert session.shows(0.5, 1) == set()
    session.intends_forget(1.0)
    assert session.shows(2.0, 1) == set()
    session.forgot(1.0, 1.1)
    assert session.shows(3.0) == {(Kind.RESURRECTED, 1)}
    assert session.shows(4.0) == set()


def test_what_vanishes_while_a_forget_is_on_its_way_and_comes_back_in_another_order_is_reordered() -> None:
    session = CheckedSession(Contract(order=Order.PER_WRITER))
    session.intends_forget(0.1)
    session.told(1, 0.5, 0.6)
    session.told((1, 1), 0.7, 0.8)
    assert session.shows(1.0, 1, (1, 1)) == session.shows(2.0) == set()
    assert session.shows(3.0, (1, 1), 1) == {(Kind.REORDERED, 1)}


def test_what_was_seen_in_flight_while_a_forget_was_on_its_way_is_a_phantom_if_it_is_refused() -> None:
    session = CheckedSession()
    session.intends_forget(1.0)
    assert session.shows(1.1, 1) == set()
    session.forgot(1.0, 1.5)
    assert session.shows(2.0) == set()
    session.told(1, 1.05, 1.3, Outcome.FAILED)
    assert session.shows(3.0) == {(Kind.PHANTOM, 1)}


def test_an_unknown_write_that_was_seen_behind_one_in_flight_and_forgotten_begins_no_new_life() -> None:
    session = CheckedSession(TWO_SECONDS_AT_MOST)
    session.told((1, 1), 0.1, 0.2, Outcome.UNKNOWN)
    assert session.shows(0.5, 1, (1, 1)) == set()
    session.forgot(0.6, 0.7)
    session.told(1, 0.05, 0.3)
    session.told(2, 0.8, 0.9)
    assert session.shows(1.0, 2) == session.shows(1.7) == set()
    assert session.shows(2.3) == {(Kind.ROLLED_BACK, 2)}


@pytest.mark.parametrize("outcome", [Outcome.OK, Outcome.UNKNOWN])
def test_what_was_seen_and_forgotten_begins_no_new_life_when_its_outcome_comes(outcome: Outcome) -> None:
    session = CheckedSession(TWO_SECONDS_AT_MOST)
    assert session.shows(0.5, 1) == set()
    session.forgot(0.6, 0.7)
    session.told(2, 0.8, 0.9)
    session.told(1, 0.05, 0.65, outcome)
    assert session.shows(1.0, 2) == session.shows(1.7) == set()
    assert session.shows(2.3) == {(Kind.ROLLED_BACK, 2)}


@pytest.mark.parametrize("outcome", [Outcome.OK, Outcome.UNKNOWN])
def test_what_vanished_behind_a_forget_whose_outcome_came_later_is_missed(outcome: Outcome) -> None:
    session = CheckedSession()
    session.told(1, 0.1, 0.2)
    assert session.shows(0.5, 1) == set()
    session.intends_forget(1.0)
    session.told(2, 1.5, 1.6, outcome)
    assert session.shows(2.0, 2) == session.shows(2.5) == set()
    session.forgot(1.0, 1.1)
    assert session.shows(3.0) == set()
    assert session.shows(4.0) == {(Kind.ROLLED_BACK, 2)}


def test_what_a_read_from_before_a_forget_had_ended_showed_may_be_gone() -> None:
    session = CheckedSession()
    session.told(1, 0.1, 0.2)
    session.intends_forget(1.0)
    assert session.shows(1.05, 1) == set()
    session.forgot(1.0, 1.1)
    assert session.shows(2.0) == session.shows(3.0) == set()


def test_what_raced_with_a_forget_and_was_left_stays_excused_where_messages_go_by_themselves() -> None:
    session = CheckedSession(Contract(eviction_allowed=False, retained_messages=5))
    session.intends_forget(1.0)
    session.told(1, 0.9, 1.2)
    assert session.shows(2.0, 1) == set()
    session.forgot(1.0, 1.1)
    assert session.shows(3.0) == session.shows(4.0) == set()


def test_a_forget_that_a_fault_may_have_undone_is_settled_by_the_next_one() -> None:
    session = CheckedSession(TAIL)
    session.told(1, 1.0, 1.1)
    session.intends_forget(2.0)
    session.forgot(2.0, 2.1)
    session.crash(2.5, 2.6)
    assert session.shows(3.0, 1) == set()
    session.intends_forget(4.0)
    session.forgot(4.0, 4.1)
    assert session.shows(5.0, 1) == {(Kind.RESURRECTED, 1)}


def test_an_absolute_life_begins_anew_behind_a_forget() -> None:
    session = CheckedSession(TWO_SECONDS_AT_MOST)
    session.told(1, 0.1, 0.2)
    session.intends_forget(0.5)
    session.forgot(0.5, 0.6)
    session.told(2, 1.0, 1.1)
    assert session.shows(2.0) == set()
    assert session.shows(2.8) == {(Kind.LOST, 2)}


def test_what_may_have_come_after_the_forget_may_have_begun_that_life() -> None:
    session = CheckedSession(TWO_SECONDS_AT_MOST)
    session.told(1, 0.1, 0.2, Outcome.UNKNOWN)
    session.intends_forget(0.5)
    session.forgot(0.5, 0.6)
    session.told(2, 1.0, 1.1)
    assert session.shows(2.2) == session.shows(2.9) == set()


@pytest.mark.parametrize("outcome", [Outcome.UNKNOWN, None])
def test_a_forget_in_doubt_prolongs_no_life_to_which_nothing_was_said_since(outcome: Outcome | None) -> None:
    session = CheckedSession(TWO_SECONDS_AT_MOST)
    session.told(1, 0.1, 0.2)
    session.told(2, 0.8, 0.9)
    session.close()
    session.intends_forget(1.0)
    if outcome is not None:
        session.forgot(1.0, 1.1, outcome)
    assert session.shows(2.5, 1, 2) == {(Kind.RESURRECTED, 1), (Kind.RESURRECTED, 2)}


def test_a_life_that_a_fault_may_have_taken_ends_with_what_was_said_after_it() -> None:
    session = CheckedSession(Contract(ttl_seconds=5.0, expiry=Expiry.ABSOLUTE, crash_loss_seconds=1.0))
    session.told(1, 1.0, 1.1)
    session.crash(1.5, 1.6)
    session.sweep()
    session.told(2, 5.0, 5.1)
    session.close()
    assert session.shows(9.0, 2) == set()
    assert session.shows(10.5, 2) == {(Kind.RESURRECTED, 2)}


def test_what_a_read_showed_in_flight_and_a_forget_erased_has_not_begun_the_life_behind_it() -> None:
    session = CheckedSession(TWO_SECONDS_AT_MOST)
    assert session.shows(0.6, 1) == set()
    session.intends_forget(0.7)
    session.told(1, 0.5, 0.8)
    session.forgot(0.7, 0.75)
    session.told(2, 1.5, 1.6)
    assert session.shows(2.4) == set()
    assert session.shows(3.0) == {(Kind.LOST, 2)}


@pytest.mark.parametrize("answered", [0.4, 0.9])
def test_a_forget_had_happened_before_a_tail_if_what_was_answered_before_that_stands_behind_it(answered: float) -> None:
    """It was answered within the tail. If something behind it was answered before, no crash can have undone it."""
    session = CheckedSession(TAIL)
    session.intends_forget(0.1)
    session.told(1, 0.2, answered)
    session.told(2, 0.45, 0.95)
    session.forgot(0.1, 1.0)
    assert session.shows(1.2, 1, 2) == set()
    session.crash(1.5, 1.6)
    assert session.shows(2.0, 2) == set()
    session.sweep()
    assert session.shows(3.0, 2) == ({(Kind.ROLLED_BACK, 1)} if answered < 0.5 else set())


def test_lateness_behind_a_forget_is_noticed_when_the_outcome_comes() -> None:
    session = CheckedSession()
    session.intends_forget(1.0)
    session.forgot(1.0, 1.1)
    assert session.shows(2.0) == set()
    session.told(1, 1.5, 1.6)
    assert session.shows(3.0, 1) == {(Kind.STALE, 1)}


def test_a_late_view_of_what_a_forget_erased_is_held_to_the_order_in_time() -> None:
    session = CheckedSession(Contract(reads=Reads.BOUNDED_STALENESS, staleness_seconds=1.0))
    session.told(1, 0.1, 0.2)
    session.told((1, 1), 0.5, 0.6)
    session.intends_forget(1.0)
    session.forgot(1.0, 1.1)
    assert session.shows(1.5, (1, 1), 1) == {(Kind.REORDERED, 1)}


def test_under_eventual_what_was_seen_in_flight_behind_a_forget_is_lost_and_not_rolled_back() -> None:
    session = CheckedSession(Contract(reads=Reads.EVENTUAL), asks_primary=True)
    session.intends_forget(1.0)
    session.forgot(1.0, 1.1)
    session.told(2, 2.0, 2.1)
    assert session.shows(3.0, 1, 2) == set()
    assert session.shows(4.0, 1) == set()
    replica, primary = session.read(5.0, 1), session.read(5.1, 1)
    assert session.reported(session.checker.observe(replica, primary)) == {(Kind.LOST, 2)}


def test_what_a_replica_showed_in_the_shadow_of_a_fault_was_not_seen_behind_a_forget() -> None:
    behind = Contract(reads=Reads.BOUNDED_STALENESS, staleness_seconds=0.5)
    session = CheckedSession(behind, asks_primary=True, reads_replica=True)
    session.told(1, 0.1, 0.2, Outcome.UNKNOWN)
    session.intends_forget(1.0)
    session.crash(1.5, 1.6, caught_up=3.0)
    assert session.shows(2.5, 1) == session.shows(3.5) == set()
    session.forgot(1.0, 1.1)
    session.sweep()
    assert session.shows(4.5) == set()
    assert session.reported(session.checker.observe(session.read(5.5), session.read(5.6))) == set()


def test_what_raced_with_a_forget_and_was_seen_in_flight_behind_it_is_expected() -> None:
    session = CheckedSession()
    session.intends_forget(1.0)
    session.forgot(1.0, 1.1)
    assert session.shows(2.0, 1) == set()
    session.told(1, 1.05, 1.2)
    assert session.shows(3.0) == set()
    assert session.shows(4.0) == {(Kind.ROLLED_BACK, 1)}


def test_what_was_seen_behind_a_forget_and_is_missed_is_not_excused_by_it_when_its_outcome_comes() -> None:
    session = CheckedSession()
    session.intends_forget(1.0)
    session.forgot(1.0, 1.1)
    assert session.shows(2.0, 1) == session.shows(2.2) == set()
    session.told(1, 1.05, 1.2)
    assert session.shows(3.0) == {(Kind.ROLLED_BACK, 1)}


def test_what_stood_behind_a_forget_is_resurrected_also_if_it_has_gone_when_the_outcome_comes() -> None:
    session = CheckedSession()
    session.told(1, 0.1, 0.2)
    session.intends_forget(1.0)
    assert session.shows(2.0, 1) == session.shows(3.0) == set()
    session.forgot(1.0, 1.1)
    assert session.shows(4.0) == {(Kind.RESURRECTED, 1)}


def test_a_life_that_a_fault_may_have_cut_short_behind_a_forget_lasts_no_longer_than_any_other() -> None:
    session = CheckedSession(Contract(ttl_seconds=2.0, crash_loss_seconds=1.0))
    session.told(1, 0.1, 0.2)
    session.crash(0.3, 0.4)
    session.sweep()
    session.intends_forget(0.5)
    session.forgot(0.5, 0.6)
    session.told(2, 0.8, 0.9)
    assert session.shows(1.0, 2) == session.shows(5.0) == session.shows(6.0) == set()


def test_what_came_back_after_a_forget_takes_no_place_among_the_last() -> None:
    session = CheckedSession(Contract(retained_messages=2))
    session.told(1, 0.1, 0.2)
    session.intends_forget(0.5)
    session.forgot(0.5, 0.6)
    session.told(2, 0.8, 0.9)
    session.told(3, 1.0, 1.1)
    assert session.shows(2.0, 2, 3) == set()
    assert session.shows(3.0, 1, 3) == {(Kind.RESURRECTED, 1)}
    assert session.shows(4.0, 1, 3) == {(Kind.ROLLED_BACK, 2)}


def test_an_unknown_append_from_before_a_forget_may_have_begun_the_life_behind_it_and_nothing_older() -> None:
    session = CheckedSession(TWO_SECONDS_AT_MOST)
    session.told(1, 0.1, 0.2)
    session.told(2, 0.4, 0.45, Outcome.UNKNOWN)
    session.intends_forget(0.5)
    session.forgot(0.5, 0.6)
    session.told(3, 1.0, 1.1)
    assert session.shows(1.6) == set()
    assert session.shows(2.3) == {(Kind.LOST, 3)}


def test_what_is_acknowledged_before_a_forget_and_was_shown_behind_it_is_resurrected_when_that_is_told() -> None:
    session = CheckedSession()
    session.intends_forget(1.0)
    session.forgot(1.0, 1.1)
    assert session.shows(2.0, 1) == set()
    session.told(1, 0.1, 0.2)
    assert session.shows(3.0) == {(Kind.RESURRECTED, 1)}


def test_a_read_that_may_be_behind_the_last_forget_may_show_what_an_earlier_one_had_removed() -> None:
    session = CheckedSession(Contract(reads=Reads.BOUNDED_STALENESS, staleness_seconds=1.0))
    session.told(1, 0.1, 0.2)
    for sent in (1.0, 5.0):
        session.intends_forget(sent)
        session.forgot(sent, sent + 0.1)
    assert session.shows(5.5, 1) == set()
    assert session.shows(6.5, 1) == {(Kind.RESURRECTED, 1)}


def test_a_forget_under_way_does_not_excuse_what_was_seen_behind_another_one() -> None:
    session = CheckedSession()
    session.intends_forget(0.5)
    session.intends_forget(1.0)
    session.forgot(1.0, 1.1)
    assert session.shows(2.0, 1) == set()
    session.told(1, 1.05, 1.2)
    session.forgot(0.5, 0.6)
    assert session.shows(3.0) == set()
    assert session.shows(4.0) == {(Kind.ROLLED_BACK, 1)}


def test_outcomes_of_one_batch_are_taken_in_the_order_in_which_they_ended() -> None:
    """An append behind a forget begins a new life. Taken before it, it would be one of a life that may be over."""
    contract, store = TWO_SECONDS_AT_MOST, "redis-list"
    header = header_of({store: contract})
    state = State(header, {store: ("redis",)}, 60 * SECOND)
    intake = Intake(state, {store: Rules(contract=contract, ttl_epsilon_us=0)}, "host")
    at = [int(seconds * SECOND) for seconds in (0.0, 0.1, 1.5, 1.6, 1.7, 2.5, 2.6, 2.7)]
    batch = Batch(
        opens=[Open(1, "w1-1-chat", store)],
        leases=[Lease(1, 0, 3)],
        attempts=[Attempt(1, 0, seq, 0, at[i], at[i + 1]) for seq, i in ((1, 0), (2, 4), (3, 6))],
        forget_intents=[ForgetIntent(1, at[2])],
        forget_outcomes=[ForgetOutcome(1, 0, at[2], at[3])],
    )
    intake.take(WorkerBatch("1-0", "w1", "host", 0, 1, batch), 1)
    (tracked,) = state.tracked()
    assert [attempt.seq for attempt in tracked.book.pending] == [2, 3]
