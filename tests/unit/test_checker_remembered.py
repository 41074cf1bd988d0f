"""Times are thinned out with age, and still tell of every message how old it is at least."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from soak.checker.absorb import RECENT_MAX, SLOT_US, next_known, thinned, thinned_out
from soak.checker.contract import Contract
from soak.checker.kinds import Kind
from soak.checker.outcome import Attempt, Outcome
from tests.support.checker.checked_session import CheckedSession

HOUR_US = 3_600_000_000
EXACT_SINCE = HOUR_US - 120_000_000


def attempts_of(gaps: list[tuple[int, int]]) -> list[Attempt]:
    """Let writers say things one after the other: (writer, microseconds since the last message of anyone)."""
    at = 0
    seqs: dict[int, int] = {}
    made = []
    for writer, gap in gaps:
        at += gap
        seqs[writer] = seqs.get(writer, 0) + 1
        made.append(Attempt(session=1, writer=writer, seq=seqs[writer], outcome=int(Outcome.OK), sent=at - 1, ended=at))
    return made


talks = st.lists(st.tuples(st.integers(0, 2), st.integers(1, 60_000_000)), max_size=150).map(attempts_of)


@given(talks)
def test_nothing_recent_is_dropped_and_of_the_rest_two_are_kept_per_writer_and_slot(said: list[Attempt]) -> None:
    kept = thinned(said, EXACT_SINCE)
    assert [one for one in said if one.ended >= EXACT_SINCE] == [one for one in kept if one.ended >= EXACT_SINCE]
    slots: dict[tuple[int, int], list[Attempt]] = {}
    for one in said:
        if one.ended < EXACT_SINCE:
            slots.setdefault((one.writer, one.ended // SLOT_US), []).append(one)
    ends = [one for slot in slots.values() for one in ([slot[0], slot[-1]] if len(slot) > 1 else slot)]
    assert [one for one in kept if one.ended < EXACT_SINCE] == ends
    assert thinned(kept, EXACT_SINCE) == kept, "thinning again changes nothing"


@given(talks, st.integers(0, 150))
def test_what_was_left_out_is_told_from_what_is_older(said: list[Attempt], older: int) -> None:
    """The oldest are dropped as a whole; nothing of them passes for something that was left out."""
    kept = thinned(said[older:], EXACT_SINCE)
    known = {(one.writer, one.seq) for one in kept}
    for index, one in enumerate(said):
        if (one.writer, one.seq) not in known:
            assert (thinned_out(kept, (one.writer, one.seq)) is not None) is (index >= older)


@given(talks)
def test_the_next_one_that_is_known_is_hardly_younger(said: list[Attempt]) -> None:
    kept = thinned(said, EXACT_SINCE)
    known = {(one.writer, one.seq) for one in kept}
    for one in said:
        if (one.writer, one.seq) in known:
            continue
        later = next_known(kept, (one.writer, one.seq))
        assert later is not None
        assert later.writer == one.writer
        assert 0 < later.ended - one.ended < SLOT_US


def test_after_the_last_nothing_is_known() -> None:
    said = attempts_of([(0, 5), (1, 5)])
    assert next_known(said, (0, 1)) is None
    assert next_known(said, (1, 0)) == said[1]


def test_of_a_session_with_more_messages_than_are_remembered_a_crash_may_still_take_the_tail() -> None:
    """9,000 messages within 90 s, of which 120 s may be lost: no excuse ends where exact times end."""
    session, said = CheckedSession(Contract(crash_loss_seconds=120.0)), 9_000
    session.book.lease(0, said)
    for seq in range(1, said + 1):
        session.told(seq, seq / 100, seq / 100 + 0.005)
        if seq % 3_000 == 0:
            assert session.shows(seq / 100 + 0.007, *range(1, seq + 1)) == set()
    assert len(session.book.recent) < RECENT_MAX, "not all of them are remembered"
    session.crash(91.0, 92.0)
    kept = range(1, 4_001)
    assert session.shows(93.0, *kept) == set()
    session.sweep()
    assert session.shows(95.0, *kept) == set()
    assert not session.book.suspicions, "it is decided"
    session.told(said + 1, 96.0, 96.1)
    assert session.shows(97.0, *kept) == set()
    assert session.shows(99.0, *kept) == {(Kind.LOST, said + 1)}
