"""What is said follows from the name and the seed alone, and it is hard text."""

from __future__ import annotations

import subprocess
import sys
import unicodedata

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from soak.checker.message import Garbled
from soak.checker.text import LONG_CHARACTERS, MIXES, ROLES, MessageGenerator

AUTHOR = MessageGenerator("r1", 7)
MANY = range(1, 6_001)


def contents(mix: str) -> list[str]:
    return [AUTHOR.write(f"w1-1-{mix}", 0, seq).content for seq in MANY]


@given(st.text(min_size=1, max_size=20), st.integers(0, 63), st.integers(1, 10_000), st.integers(0, 2**63 - 1))
def test_it_is_the_same_every_time_and_for_everyone(session: str, writer: int, seq: int, seed: int) -> None:
    one, other = MessageGenerator("r1", seed), MessageGenerator("r1", seed)
    for number in range(5):
        other.write("another-hard", number, number + 1)
    assert one.write(session, writer, seq) == other.write(session, writer, seq)
    assert one.is_mine(other.write(session, writer, seq))


def test_it_is_the_same_in_another_process() -> None:
    script = (
        "from soak.checker.text import MessageGenerator\n"
        "import zlib\n"
        "print([MessageGenerator('r1', 7).write('w1-1-chat', 2, seq).checksum for seq in range(1, 50)])"
    )
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert told == f"{[AUTHOR.write('w1-1-chat', 2, seq).checksum for seq in range(1, 50)]}\n"


def test_another_seed_run_session_writer_or_seq_is_another_message() -> None:
    message = AUTHOR.write("w1-1-long", 0, 1)
    assert not MessageGenerator("r1", 8).is_mine(message)
    assert not MessageGenerator("r2", 7).is_mine(message)
    names = {
        AUTHOR.write(session, writer, seq)
        for session in ("a-long", "b-long")
        for writer in (0, 1)
        for seq in range(1, 50)
    }
    assert len(names) == 2 * 2 * 49


def test_people_and_assistants_take_turns() -> None:
    assert [AUTHOR.write("w1-1-chat", 0, seq).role for seq in range(1, 5)] == [*ROLES, *ROLES]


def test_the_mix_is_told_by_the_end_of_the_sessions_name() -> None:
    mean = {mix: sum(map(len, contents(mix))) / len(MANY) for mix in MIXES}
    assert mean["short"] < mean["chat"] < mean["long"]
    assert AUTHOR.write("plain", 0, 1).content == AUTHOR.write("plain", 0, 1).content
    chat = {len(AUTHOR.write("without", 0, seq).content) for seq in MANY}
    assert max(chat) > LONG_CHARACTERS, "a name without a mix is a chat"


def test_a_chat_has_hard_text_identical_turns_and_now_and_then_32_kib() -> None:
    said = contents("chat")
    joined = "".join(said)
    assert any(len(content) >= LONG_CHARACTERS for content in said)
    assert sum(content == "continue" for content in said) > 10
    assert any("\N{CJK UNIFIED IDEOGRAPH-4F60}" in content for content in said)
    assert any(unicodedata.combining(character) for character in joined)
    assert any(ord(character) > 0xFFFF for character in joined)
    assert any(unicodedata.bidirectional(character) in {"R", "AL"} for character in joined)
    for hard in ('{"role": "user"', "```python", "DROP TABLE", "\r\n", "\t", "\u200d", "\u2028", '\\"', "'"):
        assert hard in joined, hard
    assert "" in contents("hard")
    assert not any("\x00" in content for content in said), "PostgreSQL's text cannot hold it"


def test_a_megabyte_of_names_is_not_needed_to_write_any_message() -> None:
    assert AUTHOR.write("w1-1-chat", 0, 10**9).is_intact


def test_many_messages_are_told_from_others_as_each_is() -> None:
    author = AUTHOR
    right = [author.write("w1-1-hard", writer, seq) for seq in range(1, 60) for writer in range(3)]
    assert author.matches(right, "w1-1-hard")
    assert author.matches([], "w1-1-hard")
    other = author.write("w1-1-hard", 0, 60)
    wrong = {
        "content": "something else", "role": "tool", "checksum": other.checksum ^ 1, "seq": 61, "writer": 1,
        "session": "w1-2-hard", "run": "r2",
    }  # fmt: skip
    for field, value in wrong.items():
        changed = msgspec.structs.replace(other, **{field: value})
        assert not author.matches([*right, changed], "w1-1-hard"), field
        assert not author.is_mine(changed), field
    assert not author.matches([*right, Garbled(b"?", "no message")], "w1-1-hard")
