from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from soak.chat.memory import answer_to, to_item, to_message
from soak.checker.message import Garbled
from soak.checker.text import MessageGenerator
from soak.stores.http_contract import Wire, to_wire


def test_an_id_of_soak_becomes_the_message_it_names() -> None:
    message = MessageGenerator("r1", 7).write("w/1-2-chat", 3, 5)
    assert to_message("anything.w/1-2-chat", to_wire(message)) == message
    assert to_item(message) == {"id": to_wire(message).id, "role": message.role, "content": message.content}


@given(st.text(), st.text(), st.text())
def test_any_other_id_comes_back_as_it_came(name: str, role: str, content: str) -> None:
    try:
        wire = Wire(id=name, role=role, content=content)
        item = to_item(to_message("s", wire))
    except UnicodeEncodeError:
        return  # half a character, which JSON cannot bring here either
    assert item == {"id": name, "role": role, "content": content}


@pytest.mark.parametrize(
    "name",
    [
        *(
            "run/s/1/2",
            "run/s/1/2/zz",
            "run/s/-1/2/00000000",
            "run/s/1/2/0",
            "run/s/01/2/00000000",
            "id:x/s/1/2/00000000",
        ),
        *("run/s/1/99999999999/00000000", "run/s/99999999999/1/00000000", "", "/", "////", "id:x"),
    ],
)
def test_what_only_looks_like_a_name_is_kept_as_it_is(name: str) -> None:
    message = to_message("s", Wire(id=name, role="user", content="x"))
    assert (message.writer, message.seq) == (0, 0)
    assert message.is_intact
    assert to_item(message)["id"] == name


def test_two_ids_are_two_messages() -> None:
    ids = ["a", "b", "run/s/1/1/00000000", "run/s/1/2/00000000", "run/s/2/1/00000000"]
    names = {to_message("s", Wire(id=one, role="user", content="same")).name for one in ids}
    assert len(names) == len(ids)


def test_an_answer_has_a_name_of_its_own_and_is_intact() -> None:
    for name in ("run/s/1/1/00000000", "opaque"):
        said = to_message("s", Wire(id=name, role="user", content="hello"))
        answer = answer_to(said, "Hello.")
        assert answer.name != said.name
        assert answer.role == "assistant"
        assert answer.is_intact
        assert answer_to(said, "something else").name == answer.name


def test_what_is_no_message_has_no_id() -> None:
    assert to_item(Garbled(raw=b"\xff", reason="no message")) == {"unreadable": "no message"}
    assert "id" not in to_item("text")  # type: ignore[arg-type]  # what a store of the user's may return
