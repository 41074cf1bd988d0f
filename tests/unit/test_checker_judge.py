"""Judging one read: forgets, expiry, retention, and answers no store should give."""

from __future__ import annotations

import msgspec
import pytest

from soak.checker.contract import Contract, Duplicates, Expiry, Reads
from soak.checker.intervals import Intervals
from soak.checker.judge import judge
from soak.checker.kinds import Kind
from soak.checker.outcome import Attempt, Outcome
from soak.checker.read import Rules
from tests.support.checker.correct_store import AUTHOR, SESSION
from tests.support.checker.talk import SECOND, STRICT, Talk, absent, kinds, told

# -- forget --


def test_after_an_acknowledged_forget_nothing_is_missed_and_nothing_may_be_there() -> None:
    talk = told(1, 2, 3)
    talk.forget(Outcome.OK, 4.0, 4.1)
    assert talk.judge(5.0).is_clean
    assert kinds(talk.judge(6.0, 2)) == {Kind.RESURRECTED}
    assert talk.judge(7.0).is_clean


def test_a_read_from_before_the_forget_ended_may_show_all_some_or_nothing() -> None:
    for shown in ((1, 2, 3), (1,), ()):
        talk = told(1, 2, 3)
        read = talk.read(4.05, *shown)
        talk.forget(Outcome.OK, 4.0, 4.1)
        assert judge(talk.book, read, STRICT, AUTHOR).is_clean


def test_what_is_said_after_a_forget_is_expected_again() -> None:
    talk = told(1, 2, 3)
    talk.forget(Outcome.OK, 4.0, 4.1)
    assert talk.ack(4, 5.0)
    assert talk.judge(6.0, 4).is_clean
    assert absent(talk.judge(7.0)) == {0: [4]}


@pytest.mark.parametrize("shown", [(), (1, 2, 3), (1,)])
def test_an_unknown_forget_excuses_everything_before_it_and_accuses_nothing(shown: tuple[int, ...]) -> None:
    talk = told(1, 2, 3)
    talk.forget(Outcome.UNKNOWN, 4.0, 4.1)
    assert talk.judge(5.0, *shown).is_clean
    talk.ack(4, 6.0)
    assert talk.judge(7.0).is_clean, "it may still be on its way and take what was said since"
    assert talk.judge(8.0, *shown, 4).is_clean


def test_a_forget_whose_outcome_never_arrives_counts_as_unknown() -> None:
    talk = told(1, 2, 3)
    talk.forget(None, 4.0, 0.0)
    assert talk.judge(5.0).is_clean
    assert talk.judge(6.0).is_clean


def test_a_failed_forget_changes_nothing() -> None:
    talk = told(1, 2, 3)
    talk.forget(Outcome.FAILED, 4.0, 4.1)
    assert talk.judge(5.0, 1, 2, 3).is_clean
    assert absent(talk.judge(6.0, 1, 3)) == {0: [2]}


@pytest.mark.parametrize("shown", [(), (3,)])
def test_an_append_that_raced_with_the_forget_may_have_come_before_or_after_it(shown: tuple[int, ...]) -> None:
    talk = told(1, 2)
    talk.ack(3, 4.05, sent=3.9)
    talk.forget(Outcome.OK, 4.0, 4.1)
    assert talk.judge(5.0, *shown).is_clean
    assert talk.judge(6.0, *shown).is_clean


@pytest.mark.parametrize("shown", [(), (3,)])
def test_an_acknowledgement_that_arrives_late_is_placed_by_when_it_was_sent(shown: tuple[int, ...]) -> None:
    talk = told(1, 2)
    talk.forget(Outcome.OK, 4.0, 4.1)
    assert not talk.ack(3, 4.2, sent=4.05)
    assert talk.judge(5.0, *shown).is_clean
    assert talk.ack(4, 5.2, sent=5.1)
    assert absent(talk.judge(6.0, *shown)) == {0: [4]}


def test_an_unknown_append_from_before_a_forget_may_appear_after_it() -> None:
    talk = told(1, 2)
    talk.book.doubt(Attempt(1, 0, 3, int(Outcome.UNKNOWN), SECOND, SECOND))
    talk.forget(Outcome.OK, 4.0, 4.1)
    assert talk.judge(5.0, 3).is_clean


@pytest.mark.parametrize(
    ("contract", "seconds_later", "clean"),
    [
        (Contract(), 0.5, False),
        (Contract(reads=Reads.BOUNDED_STALENESS, staleness_seconds=5.0), 1.0, True),
        (Contract(reads=Reads.BOUNDED_STALENESS, staleness_seconds=5.0), 6.0, False),
        (Contract(reads=Reads.EVENTUAL), 60.0, True),
    ],
)
def test_a_read_may_show_what_was_forgotten_as_long_as_it_may_be_stale(
    contract: Contract, seconds_later: float, *, clean: bool
) -> None:
    talk = told(1, 2, 3, rules=Rules(contract=contract))
    talk.forget(Outcome.OK, 4.0, 4.1)
    assert talk.judge(4.1 + seconds_later, 1, 2, 3).is_clean == clean


def test_between_hosts_a_forget_is_over_only_after_the_declared_slack_of_the_clocks() -> None:
    talk = told(1, 2, rules=Rules(contract=Contract(), clock_epsilon_us=SECOND))
    talk.forget(Outcome.OK, 4.0, 4.1)
    assert talk.judge(4.6, 1, 2).is_clean, "by the other host's clock it may not have been sent yet"
    assert kinds(talk.judge(5.3, 1, 2)) == {Kind.RESURRECTED}


# -- expiry --


def expiring(expiry: Expiry) -> Rules:
    return Rules(contract=Contract(ttl_seconds=10.0, expiry=expiry), ttl_epsilon_us=SECOND)


@pytest.mark.parametrize(
    ("expiry", "base"), [(Expiry.SLIDING, 3.0), (Expiry.ABSOLUTE, 1.0)], ids=["sliding", "absolute"]
)
def test_until_its_time_a_session_must_be_there_and_after_it_must_be_gone(expiry: Expiry, base: float) -> None:
    def fresh() -> Talk:
        talk = told(1, 2, 3, rules=expiring(expiry))
        talk.book.closed = True
        return talk

    assert absent(fresh().judge(base + 8.9)) == {0: [1, 2, 3]}, "before send + TTL - epsilon"
    assert fresh().judge(base + 9.5).is_clean, "undecided"
    assert fresh().judge(base + 9.5, 1, 2, 3).is_clean, "undecided"
    assert fresh().judge(base + 10.9, 1, 2, 3).is_clean, "undecided"
    assert fresh().judge(base + 60.0).is_clean
    late = fresh().judge(base + 11.1, 1, 2, 3)
    assert kinds(late) == {Kind.RESURRECTED}, "after ack + TTL + epsilon"
    assert len(late.findings) == 3


@pytest.mark.parametrize("expiry", Expiry)
def test_an_unknown_append_suspends_that_it_must_be_gone_and_so_does_a_session_under_way(expiry: Expiry) -> None:
    talk = told(1, 2, 3, rules=expiring(expiry))
    assert talk.judge(60.0, 1, 2, 3).is_clean, "the session is not over"
    talk.book.doubt(Attempt(1, 0, 4, int(Outcome.UNKNOWN), SECOND, SECOND))
    talk.book.closed = True
    assert talk.judge(61.0, 1, 2, 3).is_clean


def test_an_absolute_life_begins_with_the_append_that_was_sent_first_not_with_the_one_answered_first() -> None:
    def fresh() -> Talk:
        talk = Talk(expiring(Expiry.ABSOLUTE), writers=2)
        talk.ack(1, 6.0, writer=1, sent=5.9)
        talk.ack(1, 7.0, writer=0, sent=1.0)
        return talk

    assert fresh().judge(11.0).is_clean
    assert absent(fresh().judge(9.0)) == {0: [1], 1: [1]}


# -- retention --


def keeping(count: int) -> Rules:
    return Rules(contract=Contract(retained_messages=count))


def test_what_is_older_than_the_last_so_many_is_rightly_gone() -> None:
    talk = Talk(keeping(3))
    for seq in range(1, 7):
        talk.ack(seq, float(seq))
    judgement = talk.judge(7.0, 4, 5, 6)
    assert judgement.is_clean
    assert {writer: list(seqs) for writer, seqs in judgement.excused.items()} == {0: [1, 2, 3]}
    assert not talk.book.pending


def test_among_the_last_so_many_nothing_may_be_missing() -> None:
    talk = Talk(keeping(3))
    for seq in range(1, 7):
        talk.ack(seq, float(seq))
    assert absent(talk.judge(7.0, 3, 4, 5)) == {0: [6]}
    talk = Talk(keeping(3))
    for seq in range(1, 7):
        talk.ack(seq, float(seq))
    assert absent(talk.judge(7.0, 3, 4, 6)) == {0: [5]}


def test_fewer_than_so_many_are_a_loss_where_more_were_said() -> None:
    talk = Talk(keeping(3))
    for seq in range(1, 7):
        talk.ack(seq, float(seq))
    assert absent(talk.judge(7.0, 5, 6))


# -- what no store should answer --


class Odd:
    """Something that cannot be encoded."""


@pytest.mark.parametrize(
    "odd",
    [
        Odd(),
        {1, 2},
        msgspec.structs.replace(AUTHOR.write(SESSION, 0, 2), seq="2"),
        msgspec.structs.replace(AUTHOR.write(SESSION, 0, 2), writer=None),
        msgspec.structs.replace(AUTHOR.write(SESSION, 0, 2), content=b"bytes"),
    ],
    ids=["an object", "a set", "seq is text", "writer is None", "content is bytes"],
)
def test_something_that_is_no_message_is_told_and_stops_nothing(odd: object) -> None:
    talk = told(1, 2, 3)
    assert kinds(talk.judge(5.0, 1, odd, 3)) <= {Kind.UNDECODABLE, Kind.CORRUPTED, Kind.PHANTOM}
    assert kinds(talk.judge(6.0, 1, odd, 3))
    fresh = Talk()
    fresh.ack(1, 1.0)
    assert kinds(fresh.judge(2.0, odd, 1))


def test_half_a_character_in_a_content_is_corrupted_and_stops_nothing() -> None:
    talk = told(1, 2, 3)
    cut = msgspec.structs.replace(AUTHOR.write(SESSION, 0, 2), content="a smile cut in half \ud83d")
    assert kinds(talk.judge(5.0, 1, cut, 3)) == {Kind.CORRUPTED}
    assert kinds(talk.judge(6.0, 1, cut, 3)) == {Kind.CORRUPTED}


def test_a_loss_behind_a_permitted_repeat_is_noticed() -> None:
    talk = Talk(Rules(contract=Contract(duplicates=Duplicates.AT_LEAST_ONCE)))
    talk.ack(1, 1.0)
    talk.ack(2, 2.0)
    assert talk.judge(3.0, 1, 1, 2).is_clean
    assert absent(talk.judge(4.0, 1, 1)) == {0: [2]}


def test_a_message_that_is_refused_after_it_was_seen_is_a_phantom() -> None:
    talk = told(1, 2)
    for at in (3.0, 4.0, 9.5, 10.0):  # longer than anyone waits for an outcome
        talk.judge(at, 1, 2, 3)
    talk.book.fail(0, 3)
    assert kinds(talk.judge(11.0, 1, 2, 3)) == {Kind.PHANTOM}


def test_a_busy_session_does_not_make_fresh_messages_look_like_unknown_ones() -> None:
    """Each read sees a message whose outcome is on its way; none of them waits long for it."""
    talk = Talk()
    for seq in range(1, 41):
        talk.judge(seq * 0.25, *range(1, seq + 1))
        talk.ack(seq, seq * 0.25 + 0.02, sent=seq * 0.25 - 0.01)
    talk.judge(11.0, *range(1, 41))
    assert not list(talk.book.writer(0).unknown)
    assert kinds(talk.judge(12.0, *range(1, 39), 40, 39)) == {Kind.REORDERED}


def test_what_was_in_flight_when_the_load_died_is_waited_for_together() -> None:
    talk = Talk(writers=4)
    shown = [(writer, 1) for writer in range(4)]
    for at in (1.0, 3.0, 6.5, 7.0):
        assert talk.judge(at, *shown).is_clean
    assert [list(talk.book.writer(writer).standing) for writer in range(4)] == [[1]] * 4


def test_a_read_that_is_a_tuple_is_as_good_as_a_list() -> None:
    talk = told(1, 2)
    talk.ack(3, 3.0)
    read = talk.read(4.0, 1, 2, 3)
    read = msgspec.structs.replace(read, items=tuple(read.items))
    assert judge(talk.book, read, STRICT, AUTHOR).is_clean


def test_a_book_of_verified_messages_does_not_grow_with_them() -> None:
    talk = Talk()
    for seq in range(1, 901):
        talk.ack(seq, seq / 10)
    assert talk.judge(1_000.0, *range(1, 901)).is_clean
    assert list(talk.book.writer(0).standing.runs()) == [(1, 900)]
    assert not talk.book.pending
    assert isinstance(talk.book.writer(0).acked, Intervals)
