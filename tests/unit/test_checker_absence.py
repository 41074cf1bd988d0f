"""From suspicion to verdict: what is missing once is only suspected, and a later read decides."""

from __future__ import annotations

from soak.checker.expected_session import ExpectedSession
from soak.checker.incidents import Suspicion
from soak.checker.intervals import Intervals
from soak.checker.outcome import Attempt
from soak.checker.read import Read
from soak.checker.second_look import resolve, suspect


def seqs(*numbers: int) -> Intervals:
    return Intervals.of(numbers)


def read_at(time: int) -> Read:
    return Read(invoked=time, returned=time + 1, acked={}, items=[])


def book_with_seen(*seen: int) -> ExpectedSession:
    book = ExpectedSession("talk", "redis-list")
    book.lease(0, 100)
    for seq in range(1, 11):
        book.acknowledge(Attempt(1, 0, seq, 0, seq, seq))
    book.stand((0, seq) for seq in seen)
    return book


def suspicion(absent: Intervals, *, seen: tuple[int, ...] = ()) -> Suspicion:
    (made,) = suspect(book_with_seen(*seen), {0: absent}, read_at(100), [])
    return made


def test_nothing_missing_is_nothing_to_suspect() -> None:
    assert suspect(book_with_seen(), {}, read_at(1), []) == []


def test_what_is_suspected_already_is_not_suspected_again() -> None:
    book = book_with_seen()
    (first,) = suspect(book, {0: seqs(2, 3)}, read_at(1), [])
    assert suspect(book, {0: seqs(2, 3)}, read_at(2), [first]) == []
    (second,) = suspect(book, {0: seqs(2, 3, 7)}, read_at(2), [first])
    assert second.absent == {0: [7, 7]}


def test_absence_is_not_believed_before_it_is_final() -> None:
    open_one = suspicion(seqs(2, 3))
    resolution = resolve(open_one, {0: seqs(2, 3)}, {}, is_final=False)
    assert not any(resolution)
    assert not open_one.is_over


def test_final_absence_is_lost_or_rolled_back_if_it_had_been_seen() -> None:
    open_one = suspicion(seqs(2, 3, 4), seen=(3,))
    resolution = resolve(open_one, {0: seqs(2, 3, 4)}, {}, is_final=True)
    assert resolution.lost == {0: seqs(2, 4)}
    assert resolution.rolled_back == {0: seqs(3)}
    assert not resolution.stale
    assert not resolution.non_monotonic
    assert open_one.is_over


def test_presence_is_believed_at_once_and_is_stale_or_non_monotonic() -> None:
    open_one = suspicion(seqs(2, 3, 4), seen=(3,))
    resolution = resolve(open_one, {0: seqs(4)}, {0: seqs(2, 3)}, is_final=False)
    assert resolution.stale == {0: seqs(2)}
    assert resolution.non_monotonic == {0: seqs(3)}
    assert not resolution.lost
    assert open_one.absent == {0: [4, 4]}
    assert resolve(open_one, {0: seqs(4)}, {}, is_final=True).lost == {0: seqs(4)}


def test_what_is_no_longer_expected_is_neither_lost_nor_stale() -> None:
    open_one = suspicion(seqs(2, 3))
    assert not any(resolve(open_one, {}, {}, is_final=True))
    assert open_one.is_over
