"""What a participant thinks of a search: silent on every legal answer, suspicious of every planted anomaly."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from soak.checker.contract import Contract, Duplicates, Reads
from soak.checker.message import Garbled, Message
from soak.checker.outcome import Outcome
from soak.load.reading import Expectation, ReadProblem, observation, suspicion_of_search
from tests.support.load_talk import AUTHOR, FOREIGN, OTHER_RUN, STRICT, Talk, altered, talk_of

LIMIT = 5


def search(
    talk: Talk, items: list[object], asked: Message | None = None, expectation: Expectation = STRICT
) -> ReadProblem | None:
    read = talk.read(items, LIMIT)
    return suspicion_of_search(talk.conversation, read, asked or talk.stored[0], AUTHOR, expectation)


@given(st.integers(1, 30), st.data())
def test_the_nearest_of_what_is_stored_are_no_reason_for_suspicion(count: int, data: st.DataObject) -> None:
    talk = talk_of(count)
    asked = data.draw(st.sampled_from(talk.stored))
    nearest = sorted(talk.stored, key=lambda one: (one.content != asked.content, one is not asked))
    assert search(talk, list(nearest[:LIMIT]), asked) is None


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        ([Garbled(b"x", "no message")], ReadProblem.GARBLED),
        ([None], ReadProblem.GARBLED),
        ([FOREIGN], ReadProblem.FOREIGN),
        ([OTHER_RUN], ReadProblem.FOREIGN),
        ([AUTHOR.write("w1-1-chat", 0, 99)], ReadProblem.PHANTOM),
        ([altered(AUTHOR.write("w1-1-chat", 0, 1))], ReadProblem.CONTENT),
        ([AUTHOR.write("w1-1-chat", 0, 1)] * 2, ReadProblem.DUPLICATE),
        ([AUTHOR.write("w1-1-chat", 0, seq) for seq in range(1, LIMIT + 2)], ReadProblem.TOO_MANY),
        ([AUTHOR.write("w1-1-chat", 0, 2)], ReadProblem.ABSENT),
        ([], ReadProblem.ABSENT),
    ],
)
def test_what_does_not_look_right_is_noticed(items: list[object], expected: ReadProblem) -> None:
    talk = talk_of(10)
    assert talk.stored[0].content != talk.stored[1].content
    assert search(talk, items) is expected


def test_what_may_be_late_or_gone_or_stand_twice_is_not_missed() -> None:
    talk = talk_of(10)
    for contract in (
        Contract(eviction_allowed=True),
        Contract(ttl_seconds=5.0),
        Contract(retained_messages=3),
        Contract(reads=Reads.EVENTUAL),
    ):
        assert search(talk, [], expectation=Expectation.of(contract)) is None
    repeats = Expectation.of(Contract(duplicates=Duplicates.AT_LEAST_ONCE))
    assert search(talk, [talk.stored[0]] * 2, expectation=repeats) is None


def test_many_who_say_the_same_hide_one_another() -> None:
    talk = talk_of(400)
    text = max({one.content for one in talk.stored}, key=[one.content for one in talk.stored].count)
    same = [one for one in talk.stored if one.content == text]
    assert len(same) > LIMIT
    assert search(talk, list(same[1 : LIMIT + 1]), same[0]) is None
    other = next(one for one in talk.stored if one.content != text)
    assert search(talk, [*same[1:LIMIT], other], same[0]) is ReadProblem.ABSENT


def test_what_is_found_after_a_forget_is_suspicious_and_what_raced_with_it_is_not() -> None:
    talk = talk_of(3)
    talk.conversation.forget_sent = talk.now
    racing = talk.say(Outcome.UNKNOWN)
    talk.conversation.forget_ended = talk.now
    assert search(talk, []) is None
    assert search(talk, [racing]) is None
    assert search(talk, [talk.stored[0]]) is ReadProblem.FORGOTTEN


def test_an_observation_of_a_search_says_what_was_asked_for() -> None:
    talk = talk_of(3)
    noted = observation(talk.conversation, talk.read([], LIMIT), ReadProblem.ABSENT, AUTHOR, (0, 2))
    assert (noted.asked, noted.last, noted.items) == ((0, 2), LIMIT, [])
