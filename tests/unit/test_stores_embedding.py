"""The vectors of texts: what soak asks of a search rests on these properties."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from soak.checker.text import MessageGenerator
from soak.stores.embedding import DIMENSIONS, embed


def _distance(one: str, other: str) -> float:
    return math.dist(embed(one), embed(other))


@given(st.text())
def test_every_text_has_a_vector_of_length_one_that_is_always_the_same(text: str) -> None:
    vector = embed(text)
    assert len(vector) == DIMENSIONS
    assert math.isclose(math.hypot(*vector), 1.0, rel_tol=1e-9)
    assert vector == embed(text)


def test_texts_that_share_words_are_nearer_than_texts_that_share_none() -> None:
    told = "my name is Ada and I am allergic to peanuts"
    assert _distance(told, "what is my name, and what am I allergic to?") < _distance(told, "deploy the Kubernetes job")


def test_no_two_different_texts_of_a_long_conversation_coincide() -> None:
    author = MessageGenerator("run", 7)
    texts = {author.write("session-hard", 0, seq).content for seq in range(1, 1_500)}
    nearest = {tuple(round(value, 6) for value in embed(text)) for text in texts}
    assert len(nearest) == len(texts)


def test_texts_that_differ_in_one_character_or_in_case_only_are_told_apart() -> None:
    assert _distance("continue", "Continue") > 1e-3
    assert _distance("x" * 32_768, "x" * 32_767 + "y") > 1e-3
    assert _distance("", " ") > 1e-3
