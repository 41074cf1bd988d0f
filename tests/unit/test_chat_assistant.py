from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from soak.chat.assistant import STRANGER, Turn, chunks, known, reply


def told(*said: str) -> list[Turn]:
    return [Turn("user", one) for one in said]


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("my name is Ada", "Ada"),
        ("Hello! My name is Ada Lovelace. How are you?", "Ada Lovelace"),
        ("please call me 小明, and be brief", "小明"),
        ("My name's <b>Bob</b>", "<b>Bob</b>"),
        ("what is my name?", None),
        ("do you know if my name is Ada?", None),
    ],
)
def test_a_name_is_what_somebody_says_it_is(said: str, name: str | None) -> None:
    assert known(told(said)).name == name


def test_the_last_name_counts_and_what_the_assistant_says_tells_nothing() -> None:
    turns = [*told("My name is Ada"), Turn("assistant", "My name is soak. I am a program."), *told("call me Grace")]
    assert known(turns).name == "Grace"
    assert known(turns).facts == ()


def test_facts_are_kept_once_in_the_order_they_were_last_told() -> None:
    turns = told("I am allergic to peanuts.", "I live in Zürich", "I am allergic to peanuts")
    assert known(turns).facts == ("I live in Zürich", "I am allergic to peanuts")


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What is my name?", "Your name is Ada."),
        ("who am I?", "Your name is Ada."),
        ("What am I allergic to?", "You told me that you are allergic to peanuts."),
        ("where do I live?", "You told me that you live in Zürich."),
        ("hello", "Hello, Ada."),
        (
            "What do you know about me?",
            "Your name is Ada. You told me that you are allergic to peanuts. You told me that you live in Zürich.",
        ),
        ("when is the meeting?", "You said: when is the meeting?"),
        ("continue", "You said: continue"),
    ],
)
def test_it_answers_from_what_it_was_told(question: str, answer: str) -> None:
    turns = told("My name is Ada. I am allergic to peanuts", "I live in Zürich.")
    assert reply(turns, question) == answer


def test_what_it_is_asked_to_remember_it_finds_by_its_words() -> None:
    turns = told("Remember that the meeting is at nine", "please remember: the code is 4711", "I like tea")
    assert reply(turns, "when is the meeting?") == "You told me that the meeting is at nine."
    assert reply(turns, "What is the code?") == "You told me that the code is 4711."


def test_without_a_memory_it_knows_nobody() -> None:
    assert reply([], "What is my name?") == "I do not know your name. What is it?"
    assert reply([], "What do you know about me?") == STRANGER
    assert reply(told("continue"), "where do I live?") == "You said: where do I live?"


def test_it_says_what_it_has_taken_in() -> None:
    answer = "Nice to meet you, Ada. I will remember your name, and that you are allergic to peanuts."
    for said in ("My name is Ada. I am allergic to peanuts.", "My name is Ada, and I am allergic to peanuts"):
        assert reply([], said) == answer


def test_long_things_are_told_again_in_short() -> None:
    assert len(reply([], "x" * 32_768)) < 200
    turns = told(*(f"remember that number {number} is {'9' * 500}" for number in range(50)))
    assert len(reply(turns, "what do you know about me?")) < 10_000
    assert "And 30 things before that." in reply(turns, "what do you know about me?")


@given(st.lists(st.tuples(st.sampled_from(["user", "assistant"]), st.text())), st.text())
def test_it_has_an_answer_to_everything_and_always_the_same(turns: list[tuple[str, str]], said: str) -> None:
    history = [Turn(*turn) for turn in turns]
    assert reply(history, said) == reply(history, said)
    assert reply(history, said)


@given(st.text(), st.integers(1, 60))
def test_the_pieces_of_a_text_are_the_text(text: str, pieces_max: int) -> None:
    pieces = list(chunks(text, pieces_max))
    assert "".join(pieces) == text
    assert len(pieces) <= pieces_max
