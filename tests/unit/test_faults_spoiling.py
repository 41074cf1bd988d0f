"""What is changed in a server's files is the inside of messages, and nothing that holds the file together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from soak.faults.spoiling import (
    PAYLOAD_BYTES_MIN,
    append_only_file,
    cut_off,
    end_of,
    flip_bits,
    payloads_in_log,
    text_in_pages,
)

if TYPE_CHECKING:
    from pathlib import Path

LONG = b"a message that is long enough"


def command(*words: bytes) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


@given(st.lists(st.binary(max_size=60), max_size=12))
def test_the_last_argument_of_every_command_is_found_whatever_it_holds(values: list[bytes]) -> None:
    data = b"".join(command(b"RPUSH", b"a key as long as a message", value) for value in values)
    found = [data[span.start : span.end] for span in payloads_in_log(data)]
    assert found == [value for value in values if len(value) >= PAYLOAD_BYTES_MIN]


def test_a_snapshot_at_the_beginning_and_a_torn_command_at_the_end_are_passed_by() -> None:
    whole = command(b"SELECT", b"0") + command(b"RPUSH", b"key", LONG)
    data = b"REDIS0009 *3\r\n$4\r\nab *2\r\n" + whole + command(b"RPUSH", b"key", LONG)[:-9]
    assert [data[span.start : span.end] for span in payloads_in_log(data)] == [LONG]


def test_text_is_found_in_pages_and_numbers_are_not() -> None:
    data = bytes(100) + LONG * 2 + bytes(range(32)) + b"short"
    assert [data[span.start : span.end] for span in text_in_pages(data)] == [LONG * 2]


def test_one_bit_of_each_message_is_flipped_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file"
    data = command(b"RPUSH", b"key", LONG) + command(b"RPUSH", b"key", LONG)
    path.write_bytes(data)
    offset, read = end_of(path)
    flip_bits(path, payloads_in_log(read), offset)
    changed = [old ^ new for old, new in zip(data, path.read_bytes(), strict=True) if old != new]
    assert changed == [1, 1]
    assert len(payloads_in_log(path.read_bytes())) == 2


def test_never_more_than_half_of_a_file_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for size, cut in ((0, 0), (1, 1), (9, 5), (10_000, 4096)):
        path.write_bytes(bytes(size))
        assert cut_off(path, 4096) == cut
        assert path.stat().st_size == size - cut


def test_the_file_that_is_appended_to_is_found_in_folders_of_all_versions(tmp_path: Path) -> None:
    assert append_only_file(tmp_path) is None
    (tmp_path / "appendonly.aof").touch()
    assert append_only_file(tmp_path) == tmp_path / "appendonly.aof"
    folder = tmp_path / "appendonlydir"
    folder.mkdir()
    (folder / "appendonly.aof.1.base.rdb").touch()
    (folder / "appendonly.aof.1.incr.aof").touch()
    assert append_only_file(tmp_path) == folder / "appendonly.aof.1.incr.aof"
