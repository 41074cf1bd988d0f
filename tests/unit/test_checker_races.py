"""Races and leftovers: what arrives late, twice or in one batch accuses nobody and hides nothing."""

from __future__ import annotations

import pytest

from soak.checker.absorb import absorb
from soak.checker.contract import Contract, Duplicates, Expiry, Order, Reads
from soak.checker.faults import Excuse, FaultWindow, Promotion
from soak.checker.judge import judge
from soak.checker.kinds import Kind
from soak.checker.message import Garbled
from soak.checker.outcome import Attempt, Outcome
from soak.checker.read import Rules
from soak.checker.retention import begin_no_later, end_forget, extend, may_have_expired
from soak.checker.second_look import Look, Lost, look_again, suspect
from tests.support.checker.checked_session import CheckedSession
from tests.support.checker.correct_store import AUTHOR
from tests.support.checker.talk import SECOND, Talk, absent, kinds


def doubt(talk: Talk, seq: int, at: float) -> None:
    talk.book.doubt(Attempt(1, 0, seq, int(Outcome.UNKNOWN), int((at - 0.01) * SECOND), int(at * SECOND)))


def test_one_unreadable_row_explains_one_missing_message_once() -> None:
    talk = Talk()
    for seq in (1, 2, 3):
        talk.ack(seq, float(seq))
    garbled = Garbled(b"\xff", "bad")
    assert not absent(talk.judge(4.0, 1, 2, garbled))
    talk.ack(4, 5.0)
    assert absent(talk.judge(6.0, 1, 2, garbled)) == {0: [4]}


def test_a_late_unknown_write_does_not_move_the_beginning_of_a_kept_window() -> None:
    talk = Talk(Rules(contract=Contract(retained_messages=3)))
    talk.ack(1, 1.0)
    doubt(talk, 2, 2.0)
    for seq in (3, 4, 5):
        talk.ack(seq, float(seq))
    assert talk.judge(6.0, 3, 4, 5).is_clean
    assert talk.judge(7.0, 4, 5, 2).is_clean


def test_what_a_read_shows_that_began_before_a_forget_had_ended_need_not_be_there_again() -> None:
    talk = Talk()
    talk.ack(1, 1.0)
    doubt(talk, 2, 2.0)
    read = talk.read(3.0, 1, 2)
    talk.forget(Outcome.OK, 3.1, 3.2)

    absorb(talk.book, judge(talk.book, read, talk.rules, AUTHOR), read, talk.rules, remember_us=60 * SECOND)
    assert talk.judge(4.0).is_clean


def test_an_append_after_a_forget_is_expected_also_when_both_are_told_at_once() -> None:
    talk = Talk()
    talk.ack(1, 1.0)
    talk.book.intend_forget(2 * SECOND)
    talk.ack(2, 3.0, sent=2.5)
    end_forget(talk.book, Outcome.OK, 2 * SECOND, int(2.1 * SECOND))
    assert absent(talk.judge(4.0)) == {0: [2]}
    assert kinds(talk.judge(5.0, 1, 2)) == {Kind.RESURRECTED}


@pytest.mark.parametrize("second", [Outcome.FAILED, Outcome.OK])
def test_a_forget_that_may_still_happen_is_not_forgotten_over_a_second_one(second: Outcome) -> None:
    talk = Talk()
    talk.ack(1, 1.0)
    talk.forget(Outcome.UNKNOWN, 2.0, 2.1)
    talk.forget(second, 3.0, 3.1)
    talk.ack(2, 4.0)
    assert talk.judge(5.0).is_clean
    assert talk.judge(6.0, 2).is_clean


def test_an_unknown_append_may_have_begun_the_life_of_a_session() -> None:
    rules = Rules(contract=Contract(ttl_seconds=10.0, expiry=Expiry.ABSOLUTE))
    talk = Talk(rules)
    first = Attempt(1, 0, 1, int(Outcome.UNKNOWN), 0, SECOND)
    talk.book.doubt(first)
    begin_no_later(talk.book, first)
    extend(talk.book, Attempt(1, 0, 2, 0, 6 * SECOND, 6 * SECOND))
    assert may_have_expired(talk.book, 10 * SECOND, rules)


def test_an_unknown_append_does_not_prolong_the_life_of_a_session() -> None:
    rules = Rules(contract=Contract(ttl_seconds=10.0))
    talk = Talk(rules)
    begin_no_later(talk.book, Attempt(1, 0, 1, int(Outcome.UNKNOWN), 4 * SECOND, 5 * SECOND))
    extend(talk.book, Attempt(1, 1, 1, 0, SECOND, 6 * SECOND))
    assert may_have_expired(talk.book, 11 * SECOND, rules)


def test_a_permitted_repeat_takes_up_a_place_in_a_kept_window() -> None:
    for shown, missing in (((2, 3, 3), {}), ((2, 3), {0: [1]})):
        talk = Talk(Rules(contract=Contract(retained_messages=3, duplicates=Duplicates.AT_LEAST_ONCE)))
        for seq in (1, 2, 3):
            talk.ack(seq, float(seq))
        assert absent(talk.judge(4.0, *shown)) == missing


def test_where_no_order_is_promised_the_place_of_a_message_does_not_say_how_old_it_is() -> None:
    talk = Talk(Rules(contract=Contract(order=Order.NONE, retained_messages=3)), writers=2)
    talk.ack(1, 1.0)
    talk.ack(2, 2.0)
    talk.ack(1, 3.0, writer=1)
    doubt(talk, 3, 4.0)
    assert talk.judge(5.0, (1, 1), 1, 2).is_clean
    assert absent(talk.judge(6.0, 1, 2)) == {1: [1]}


def test_what_was_shown_in_flight_behind_another_does_not_make_room_for_that() -> None:
    talk = Talk(Rules(contract=Contract(retained_messages=2)), writers=2)
    talk.ack(1, 1.0)
    assert talk.judge(2.0, 1, (1, 1)).is_clean
    talk.ack(1, 2.5, writer=1, sent=0.5)
    talk.ack(2, 3.0)
    assert absent(talk.judge(4.0, 2)) == {1: [1]}


def taken(talk: Talk, first_missed: float, window: FaultWindow, *, last_seen: float = 0.0) -> list[Lost]:
    """Read nothing, twice: say what was lost, and by what it is excused."""
    read = talk.read(first_missed)
    judgement = judge(talk.book, read, talk.rules, AUTHOR)
    talk.book.last_read = int(last_seen * SECOND)
    (suspicion,) = suspect(talk.book, judgement.absent, read, [])
    assert suspicion is not None
    again = talk.read(first_missed + 60.0)
    second = judge(talk.book, again, talk.rules, AUTHOR)
    look = Look(talk.book, again, second, None, AUTHOR.run, talk.rules, [window], True, SECOND, False)  # noqa: FBT003
    return look_again(look, suspicion).lost


def crash(at: float) -> FaultWindow:
    return FaultWindow(
        fault="crash-1",
        kind="crash",
        target="redis",
        excuses=Excuse.CRASH,
        promotes=Promotion.NONE,
        started=int(at * SECOND),
        ended=int((at + 0.5) * SECOND),
    )


STALE = Contract(reads=Reads.BOUNDED_STALENESS, staleness_seconds=1.0, crash_loss_seconds=2.0)


@pytest.mark.parametrize(("acked_at", "is_excused"), [(9.5, True), (8.5, False)])
def test_a_crash_may_take_what_a_reader_that_was_behind_had_not_shown_yet(acked_at: float, is_excused: bool) -> None:
    talk = Talk(Rules(contract=STALE))
    talk.ack(1, acked_at)
    (lost,) = taken(talk, 10.0, crash(10.2))
    assert (lost.excused_by is not None) is is_excused


@pytest.mark.parametrize(("seen_at", "is_excused"), [(11.2, True), (11.6, False)])
def test_a_reader_that_is_behind_may_show_what_a_crash_has_taken(seen_at: float, is_excused: bool) -> None:
    talk = Talk(Rules(contract=STALE))
    talk.ack(1, 9.5)
    assert talk.judge(seen_at, 1).is_clean
    (lost,) = taken(talk, 13.0, crash(10.0), last_seen=seen_at)
    assert lost.kind is Kind.ROLLED_BACK
    assert (lost.excused_by is not None) is is_excused


def test_what_is_older_than_every_time_that_is_remembered_is_not_taken_for_the_next_one() -> None:
    """Saves alone, at least once an hour: a message of last week is no part of what they may miss."""
    talk = Talk(Rules(contract=Contract(crash_loss_seconds=3_600.0)))
    week = 604_800.0
    for seq, at in ((1, 1.0), (2, week), (3, week + 1.0), (4, week + 2.0)):
        talk.ack(seq, at)
        read = talk.read(at + 0.5, *range(1, seq + 1))
        judgement = judge(talk.book, read, talk.rules, AUTHOR)
        absorb(talk.book, judgement, read, talk.rules, remember_us=3_625 * SECOND, exact_us=120 * SECOND)
    read = talk.read(week + 900.0, 1, 2, 3, 4)
    judgement = judge(talk.book, read, talk.rules, AUTHOR)
    absorb(talk.book, judgement, read, talk.rules, remember_us=3_625 * SECOND, exact_us=120 * SECOND)
    assert [one.seq for one in talk.book.recent] == [2, 4], "the third was left out between two of its time"
    losses = taken(talk, week + 1_001.0, crash(week + 1_000.0), last_seen=week + 900.0)
    assert {lost.place[1]: lost.excused_by is not None for lost in losses} == {1: False, 2: True, 3: True, 4: True}


@pytest.mark.parametrize("expiry", Expiry)
def test_what_was_seen_of_a_worker_that_died_before_it_could_tell_may_expire_at_any_time(expiry: Expiry) -> None:
    talk = Talk(Rules(contract=Contract(ttl_seconds=3.0, expiry=expiry)))
    talk.book.lease(0, 32)
    for at in (10.0, 20.0):
        # Its outcome never comes, and after a while nobody waits for it any more.
        read = talk.read(at, 1)
        absorb(talk.book, judge(talk.book, read, talk.rules, AUTHOR), read, talk.rules, remember_us=60 * SECOND)
    assert 1 in talk.book.writers[0].standing
    assert talk.judge(24.0).is_clean


def test_an_unreadable_row_where_a_late_unknown_write_stood_is_one_wrong_and_not_two() -> None:
    talk = Talk()
    doubt(talk, 1, 1.0)
    talk.ack(2, 2.0)
    assert talk.judge(3.0, 2, 1).is_clean
    judgement = talk.judge(4.0, 2, Garbled(b"\xff", "bad"))
    assert (kinds(judgement), absent(judgement)) == ({Kind.UNDECODABLE}, {})


def test_a_fault_between_two_reads_that_raise_starts_their_count_again() -> None:
    session = CheckedSession()

    def raises(at: float) -> set[tuple[Kind, int]]:
        times = int(at * SECOND), int((at + 0.01) * SECOND)
        return session.reported(session.checker.observe_failure(*times, "raised", others_answered=times[0]))

    assert raises(1.0) == raises(1.5) == set()
    session.crash(1.6, 1.8)
    session.sweep()
    assert raises(2.5) == raises(3.0) == set()
    assert raises(3.5) == {(Kind.UNDECODABLE, 0)}
