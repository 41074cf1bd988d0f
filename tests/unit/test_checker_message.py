"""A message and its form in storage: it comes back as it was, and any change of it is noticed."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from soak.checker.message import Garbled, Message, checksum, decode_history
from soak.checker.text import MIXES, MessageGenerator

AUTHOR = MessageGenerator("r1", 7)
SEQS = st.integers(1, 2_000)
SESSIONS = st.sampled_from([f"w1-1-{mix}" for mix in MIXES])


def messages(session: str, count: int) -> list[Message]:
    return [AUTHOR.write(session, 0, seq) for seq in range(1, count + 1)]


@given(SESSIONS, st.integers(0, 63), SEQS)
def test_it_comes_back_as_it_was_from_bytes_and_from_json(session: str, writer: int, seq: int) -> None:
    message = AUTHOR.write(session, writer, seq)
    assert Message.from_bytes(message.to_bytes()) == message
    assert Message.from_json(message.to_json()) == message
    assert message.name == ("r1", session, writer, seq)
    assert message.is_intact


@pytest.mark.parametrize("raw", [b"", b"\xc1", b"text", b"\x97\x01", b"\x90", b'{"role":"user"}'])
def test_what_is_no_message_is_a_value_error(raw: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        Message.from_bytes(raw)


def test_a_cut_message_is_a_value_error_wherever_it_is_cut() -> None:
    raw = AUTHOR.write("w1-1-chat", 0, 1).to_bytes()
    for length in range(len(raw)):
        with pytest.raises(ValueError, match=r"."):
            Message.from_bytes(raw[:length])


@pytest.mark.parametrize(
    "change",
    [
        {"run": "r2"},
        {"session": "w1-2-chat"},
        {"writer": 1},
        {"seq": 2},
        {"role": "assistant"},
        {"content": "something else"},
        {"checksum": 0},
    ],
)
def test_a_change_of_any_part_does_not_fit_the_checksum(change: dict[str, object]) -> None:
    message = AUTHOR.write("w1-1-chat", 0, 1)
    assert not msgspec.structs.replace(message, **change).is_intact


@given(SESSIONS, SEQS, st.data())
def test_a_change_of_any_single_character_does_not_fit_the_checksum(
    session: str, seq: int, data: st.DataObject
) -> None:
    message = AUTHOR.write(session, 0, seq)
    content = message.content or " "
    at = data.draw(st.integers(0, len(content) - 1))
    other = data.draw(st.characters(exclude_categories=["Cs"]).filter(lambda one: one != content[at]))
    changed = msgspec.structs.replace(message, content=content[:at] + other + content[at + 1 :])
    assert not changed.is_intact


def test_a_cut_pair_of_surrogates_can_be_held_against_its_checksum() -> None:
    message = msgspec.structs.replace(AUTHOR.write("w1-1-chat", 0, 1), content="half a smile \ud83d")
    assert not message.is_intact
    assert checksum(message) == checksum(message)


@given(st.integers(0, 40), st.data())
def test_one_bad_row_hides_no_other(count: int, data: st.DataObject) -> None:
    said = messages("w1-1-hard", count)
    rows = [message.to_bytes() for message in said]
    bad = data.draw(
        st.one_of(st.binary(max_size=40), st.sampled_from([b"", rows[0][:-1] if rows else b"x", b"\x90"])).filter(
            lambda raw: not is_message(raw)
        )
    )
    at = data.draw(st.integers(0, count))
    decoded = decode_history([*rows[:at], bad, *rows[at:]])
    assert [item for item in decoded if isinstance(item, Message)] == said
    (garbled,) = [item for item in decoded if isinstance(item, Garbled)]
    assert garbled.raw == bad
    assert decoded.index(garbled) == at


def is_message(raw: bytes) -> bool:
    try:
        Message.from_bytes(raw)
    except ValueError:
        return False
    return True


def test_a_row_that_is_not_even_bytes_is_shown_as_what_it_is() -> None:
    said = messages("w1-1-chat", 2)
    decoded = decode_history([said[0].to_bytes(), None, said[1].to_bytes()])  # type: ignore[list-item]
    assert decoded[0] == said[0]
    assert decoded[2] == said[1]
    assert isinstance(decoded[1], Garbled)
    assert decoded[1].raw == b"None"
