"""A violation is over when a read shows that it is, and open again when one shows it again."""

from __future__ import annotations

from soak.checker.contract import Contract, Order
from soak.checker.events import Healed, Observed, Reopened
from soak.checker.kinds import Kind
from tests.support.checker.checked_session import CheckedSession


def changed(observed: Observed, how: type[Healed | Reopened]) -> set[tuple[Kind, int]]:
    return {
        (kind, place[1])
        for event in observed.events
        if isinstance(event, Healed | Reopened) and type(event) is how
        for kind, _, place in event.changes
        if place is not None
    }


def test_what_came_back_after_a_forget_is_over_once_a_read_does_not_show_it() -> None:
    session = CheckedSession()
    session.told(1, 1.0, 1.1)
    session.intends_forget(2.0)
    session.forgot(2.0, 2.1)
    session.told(2, 3.0, 3.1)
    assert session.shows(4.0, 1, 2) == {(Kind.RESURRECTED, 1)}
    checker = session.checker
    assert changed(checker.observe(session.read(5.0, 1, 2)), Healed) == set(), "it is still there"
    assert changed(checker.observe(session.read(6.0, 2)), Healed) == {(Kind.RESURRECTED, 1)}
    assert changed(checker.observe(session.read(7.0, 2)), Healed) == set(), "once"
    assert changed(checker.observe(session.read(8.0, 1, 2)), Reopened) == {(Kind.RESURRECTED, 1)}


def with_a_wrong_window() -> CheckedSession:
    """Return a session of three messages of whose last two a read has shown one."""
    session = CheckedSession(Contract(order=Order.REALTIME))
    for seq in (1, 2, 3):
        session.told(seq, float(seq), seq + 0.1)
    assert session.shows(4.0, 1, 2, 3) == set()
    assert session.reported(session.checker.observe_tail_by_full(session.read(4.5, 3), 2)) == {(Kind.WINDOW, 2)}
    return session


def test_a_wrong_window_is_over_with_the_next_right_one() -> None:
    session = with_a_wrong_window()
    checker = session.checker
    assert changed(checker.observe(session.read(5.0, 1, 2, 3)), Healed) == set(), "that is no window"
    session.told(4, 6.0, 6.1)
    tail = checker.observe_tail(session.read(7.0, 2, 3, 4), 3)
    assert tail is not None
    assert changed(tail, Healed) == {(Kind.WINDOW, 2)}


def test_a_wrong_window_of_a_closed_session_is_over_with_a_clean_read_of_all() -> None:
    session = with_a_wrong_window()
    checker = session.checker
    session.close()
    assert changed(checker.observe(session.read(5.0, 1, 3)), Healed) == set(), "it lacks a message"
    assert changed(checker.observe(session.read(6.0, 1, 2, 3)), Healed) == set(), "a message has appeared in it"
    assert changed(checker.observe(session.read(7.0, 1, 2, 3)), Healed) == {(Kind.WINDOW, 2)}
