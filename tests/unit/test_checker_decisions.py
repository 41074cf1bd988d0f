"""What the checker does where the consistency model can be read in two ways, as its page says."""

from __future__ import annotations

import msgspec
import pytest

from soak.checker.contract import Contract, Duplicates, Order
from soak.checker.events import Confirmed, Event
from soak.checker.faults import Excuse, FaultHistory, FaultWindow, Promotion
from soak.checker.judge import judge
from soak.checker.kinds import Kind
from soak.checker.outcome import ForgetBegun, ForgetEnded, Outcome
from soak.checker.partial import judge_seen
from soak.checker.read import Rules
from soak.checker.session import SessionChecker, StoreJudging
from tests.support.checker.correct_store import AUTHOR, SESSION
from tests.support.checker.talk import SECOND, Talk, absent, kinds, told

LAST_TWO = Rules(contract=Contract(retained_messages=2))
PER_WRITER = Rules(contract=Contract(order=Order.PER_WRITER))
A_SECOND_OF_LIFE = Rules(contract=Contract(ttl_seconds=1.0, crash_loss_seconds=2.0))
TAIL = Rules(contract=Contract(crash_loss_seconds=2.0))


def checker_of(talk: Talk) -> SessionChecker:
    faults = FaultHistory({"redis-list": ["redis"]})
    judging = StoreJudging(rules=talk.rules, author=AUTHOR, faults=faults, targets=["redis"], settle_us=SECOND)
    return SessionChecker(judging, talk.book)


def reported(events: list[Event]) -> set[Kind]:
    return {event.kind for event in events if isinstance(event, Confirmed)}


def checker_after_a_crash(talk: Talk, started: float, ended: float) -> SessionChecker:
    checker = checker_of(talk)
    window = FaultWindow(
        fault="f1",
        kind="crash",
        target="redis",
        excuses=Excuse.CRASH,
        promotes=Promotion.NONE,
        started=int(started * SECOND),
        ended=int(ended * SECOND),
    )
    checker.store.faults.begin(window)
    checker.doubt(window)
    return checker


@pytest.mark.parametrize(
    ("sent", "deaths", "is_loss"), [(2.1, [], False), (2.25, [], True), (2.25, [(2.4, 2.5)], False)]
)
def test_what_was_sent_to_a_dead_server_was_acknowledged_by_the_one_that_came_back(
    sent: float, deaths: list[tuple[float, float]], is_loss: bool
) -> None:
    talk = Talk(TAIL)
    talk.ack(1, 1.0)
    talk.ack(2, 2.6, sent=sent)
    checker = checker_of(talk)
    window = FaultWindow(
        fault="f1",
        kind="crash",
        target="redis",
        excuses=Excuse.CRASH,
        promotes=Promotion.NONE,
        down=True,
        started=2 * SECOND,
        injected=int(2.2 * SECOND),
        ended=int(2.7 * SECOND),
        deaths=[(int(died * SECOND), int(back * SECOND)) for died, back in deaths],
    )
    checker.store.faults.begin(window)
    checker.doubt(window)
    checker.observe(talk.read(4.0, 1))
    checker.store.faults.mark_swept("redis-list")
    assert bool(reported(checker.observe(talk.read(6.0, 1)).events)) is is_loss


def test_a_session_past_its_time_that_stands_again_after_a_crash_is_resurrected() -> None:
    talk = told(1, rules=A_SECOND_OF_LIFE)
    talk.book.closed = True
    checker_after_a_crash(talk, 1.5, 1.6)
    assert kinds(talk.judge(9.0, 1)) == {Kind.RESURRECTED}


def test_what_a_crash_may_have_taken_of_a_forget_may_stand_again() -> None:
    talk = told(1, rules=TAIL)
    checker = checker_after_a_crash(talk, 2.2, 2.4)
    checker.apply(ForgetBegun(sent=2 * SECOND))
    checker.apply(ForgetEnded(outcome=Outcome.OK, sent=2 * SECOND, ended=2 * SECOND + 10))
    assert talk.judge(3.0, 1).is_clean
    assert talk.judge(4.0).absent == {}


def test_what_was_acknowledged_and_appears_in_front_of_what_was_read_is_non_monotonic() -> None:
    talk = Talk(writers=2)
    talk.ack(1, 1.0, writer=1, sent=0.5)
    assert talk.judge(1.1, (1, 1)).is_clean
    talk.ack(1, 2.0, sent=0.5)
    assert kinds(talk.judge(2.1, (0, 1), (1, 1))) == {Kind.NON_MONOTONIC}


def test_two_reads_that_order_a_pair_differently_are_reordered_also_per_writer() -> None:
    talk = Talk(PER_WRITER, writers=2)
    talk.ack(1, 1.0)
    talk.ack(1, 1.0, writer=1)
    assert talk.judge(1.1, (0, 1), (1, 1)).is_clean
    assert kinds(talk.judge(2.0, (1, 1), (0, 1))) == {Kind.REORDERED}


def test_a_kept_window_is_judged_by_times_also_between_writers_without_a_promised_order() -> None:
    rules = Rules(contract=Contract(order=Order.PER_WRITER, retained_messages=2))
    talk = Talk(rules, writers=3)
    talk.ack(1, 1.0)
    talk.ack(1, 2.0, writer=1)
    talk.ack(1, 3.0, writer=2)
    assert absent(talk.judge(4.0, (0, 1), (2, 1))) == {1: [1]}


def test_what_only_a_participant_saw_altered_is_corrupted() -> None:
    talk = told(1)
    altered = msgspec.structs.replace(AUTHOR.write(SESSION, 0, 1), content="other")
    seen = judge_seen(talk.book, talk.read(2.0, altered), 5, [], talk.rules, AUTHOR)
    assert [finding.kind for finding in seen.findings] == [Kind.CORRUPTED]


def test_a_refused_message_that_stands_twice_is_a_phantom_and_duplicated() -> None:
    talk = Talk()
    talk.book.fail(0, 1)
    assert kinds(talk.judge(1.0, 1, 1)) == {Kind.PHANTOM, Kind.DUPLICATED}


def test_more_than_the_retained_number_is_not_reported() -> None:
    talk = Talk(LAST_TWO)
    for seq in (1, 2, 3):
        talk.ack(seq, float(seq))
    assert talk.judge(4.0, 1, 2, 3).is_clean


def test_permitted_copies_take_places_among_the_retained() -> None:
    rules = Rules(contract=Contract(retained_messages=2, duplicates=Duplicates.AT_LEAST_ONCE))
    talk = Talk(rules)
    talk.ack(1, 1.0)
    talk.ack(2, 2.0)
    assert absent(talk.judge(3.0, 2, 2)) == {}


def test_a_leased_message_that_nobody_is_known_to_have_sent_is_not_reported() -> None:
    talk = told(1)
    assert judge(talk.book, talk.read(2.0, 1, 2), talk.rules, AUTHOR).is_clean


def test_a_forget_of_unknown_outcome_excuses_absence_for_good() -> None:
    talk = told(1)
    talk.forget(Outcome.UNKNOWN, 2.0, 2.1)
    talk.ack(2, 3.0)
    assert absent(talk.judge(9_000.0)) == {}


def test_a_read_of_the_end_reaches_back_to_what_is_verified_past_what_is_not_yet_heard_of() -> None:
    talk = told(*range(1, 11))
    talk.book.lease(1, 1_000)
    talk.book.lease(0, 1_000)
    checker = checker_of(talk)
    checker.observe(talk.read(11.0, *range(1, 11)))
    for seq in range(11, 19):
        talk.ack(seq, float(seq))
    wanted = checker.wants(20_000_000)
    assert wanted is not None
    assert wanted.last is not None
    # The next four are stored already; the ledger has still to tell of them.
    stored = list(range(1, 23))
    assert checker.observe_tail(talk.read(20.0, *stored[-wanted.last :]), wanted.last) is not None


def test_what_stands_in_front_of_a_read_of_the_end_was_not_late_but_is_out_of_order() -> None:
    for outcome_comes_first in (True, False):
        talk = told(1, 2, 3)
        talk.book.lease(1, 1_000)
        checker = checker_of(talk)
        talk.ack(4, 4.0)
        tail = talk.read(5.0, 3, 4)
        assert checker.observe_tail(tail, 2) is not None
        full = (1, 2, (1, 1), 3, 4)
        if not outcome_comes_first:
            assert reported(checker.observe(talk.read(5.5, *full)).events) == set()
        talk.ack(1, 4.5, writer=1, sent=3.9)
        assert reported(checker.observe(talk.read(6.0, *full)).events) == {Kind.REORDERED}
