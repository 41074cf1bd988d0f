"""Small files that must survive a flipped byte, a cut and a deletion."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from soak.json_input import decode_json
from soak.proc.files import DamagedFileError, copy_of, read_sealed, remove_sealed, set_aside, write_sealed


class Kept(msgspec.Struct, frozen=True):
    port: int
    name: str


VALUE = Kept(7, "wört")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "kept.json"
    write_sealed(path, VALUE)
    return path


def test_what_was_written_is_read_and_is_json_for_people(path: Path) -> None:
    assert read_sealed(path, Kept) == VALUE
    assert decode_json(path.read_bytes())["port"] == 7


def test_each_flipped_bit_and_each_cut_is_noticed(path: Path) -> None:
    whole = path.read_bytes()
    damaged = [
        whole[:at] + bytes([whole[at] ^ 1 << bit]) + whole[at + 1 :] for at in range(len(whole)) for bit in range(8)
    ]
    damaged += [whole[:size] for size in range(len(whole))]
    for content in damaged:
        path.write_bytes(content)
        with pytest.raises(DamagedFileError):
            read_sealed(path, Kept)


@pytest.mark.parametrize("content", [None, b"", b"{", b'{"port":8,"name":"w"}'])
def test_a_copy_is_read_where_the_file_is_damaged_or_gone(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "kept.json"
    write_sealed(path, VALUE, has_copy=True)
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    assert read_sealed(path, Kept) == VALUE


def test_there_is_nothing_after_it_was_removed_or_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "kept.json"
    write_sealed(path, VALUE, has_copy=True)
    remove_sealed(path)
    assert read_sealed(path, Kept) is None
    assert not copy_of(path).exists()
    write_sealed(path, VALUE)
    assert set_aside(path).name == "kept.json.damaged"
    assert read_sealed(path, Kept) is None


@pytest.mark.parametrize("content", [b"\xff", b'{"name":"\xff"}', b"[" * 100_000, b"", b"1e", b"9" * 6_000])
def test_whatever_is_no_json_is_one_kind_of_error(content: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_json(content, Kept)
