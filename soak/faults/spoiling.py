"""Changing the files of a server that is stopped: pure on bytes, and on one file at a time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PAYLOAD_BYTES_MIN = 16
"""Shorter values are counters and marks rather than messages."""
READ_BYTES_MAX = 4 * 2**20
"""Only the end of a file is looked at."""
_COMMAND = re.compile(rb"\*([1-9]\d{0,5})\r\n")
_LENGTH = re.compile(rb"\$(\d{1,9})\r\n")
_TEXT = re.compile(rb"[\x20-\x7e]{32,}")


class ByteRange(NamedTuple):
    """Some bytes of a file."""

    start: int
    end: int

    @property
    def middle(self) -> int:
        return (self.start + self.end) // 2


def payloads_in_log(data: bytes) -> list[ByteRange]:
    """Return where the values are that the commands in an append-only file write: the last argument of each."""
    return [last for last in _last_arguments(data) if last.end - last.start >= PAYLOAD_BYTES_MIN]


def text_in_pages(data: bytes) -> list[ByteRange]:
    """Return where readable text stands in a table's file."""
    return [ByteRange(*found.span()) for found in _TEXT.finditer(data)]


def append_only_file(folder: Path) -> Path | None:
    """Return the file that the server was appending to last, in a data folder of any version; None: there is none."""
    # Since 7.0 a folder of numbered files; before, one file.
    numbered = sorted((folder / "appendonlydir").glob("*.incr.aof"), key=lambda path: path.stat().st_mtime_ns)
    single = folder / "appendonly.aof"
    return numbered[-1] if numbered else single if single.exists() else None


def flip_bits(path: Path, spans: list[ByteRange], offset: int) -> None:
    """Flip one bit in the middle of each span; spans count from the offset."""
    with path.open("r+b") as file:
        for span in spans:
            file.seek(offset + span.middle)
            (byte,) = file.read(1)
            file.seek(offset + span.middle)
            file.write(bytes([byte ^ 1]))


def end_of(path: Path) -> tuple[int, bytes]:
    """Return the last part of a file, and where it begins."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        offset = max(0, size - READ_BYTES_MAX)
        file.seek(offset)
        return offset, file.read()


def cut_off(path: Path, bytes_max: int) -> int:
    """Cut so many bytes off the end of a file, at most half of it; returns how many."""
    with path.open("r+b") as file:
        size = file.seek(0, 2)
        cut = min(bytes_max, (size + 1) // 2)
        file.truncate(size - cut)
    return cut


def _last_arguments(data: bytes) -> Iterator[ByteRange]:
    position = 0
    while found := _COMMAND.search(data, position):
        arguments = _arguments(data, found.end(), int(found[1]))
        if arguments:
            yield arguments[-1]
        # What only looks like a command, inside a snapshot that begins the file, is passed by.
        position = arguments[-1].end if arguments else found.start() + 1


def _arguments(data: bytes, position: int, count: int) -> list[ByteRange]:
    """Read so many arguments; none if they are not whole."""
    spans: list[ByteRange] = []
    for _ in range(count):
        length = _LENGTH.match(data, position)
        if length is None:
            return []
        span = ByteRange(length.end(), length.end() + int(length[1]))
        if data[span.end : span.end + 2] != b"\r\n":
            return []
        spans.append(span)
        position = span.end + 2
    return spans
