"""The journal of violations: a line for each that was found, and for each time one was over or came back.

It is what keeps counters true after a kill: what it holds beyond the last checkpoint is counted again from it.
It is bounded: once it is too long, what a checkpoint has counted is thinned out. The first violations stay, and those
that have an evidence file of their own, each with what became of it last; of the others it says how many there were.
"""

from __future__ import annotations

import hashlib
from typing import BinaryIO, Literal

import msgspec

from soak.checker.kinds import Kind
from soak.checker.patterns import Traits
from soak.json_input import decode_json

ID_CHARACTERS = 12
EXAMPLE_RANK_MAX = 999_999


class Violation(msgspec.Struct, frozen=True, kw_only=True):
    """One confirmed violation; its identity is (run, store, session, message, kind)."""

    id: str
    run: str = ""
    kind: str
    store: str
    session: str
    message: str
    writer: int | None
    seq: int | None
    detail: str
    at_wall_seconds: float
    healed: bool = False
    """It was over when it was found: a later read shows what one had not shown."""
    cause: str = "unknown"
    evidence: str = ""
    """The violation whose evidence file tells of this one; empty: none does."""
    traits: Traits = Traits()
    """What it is compared by with others of its kind."""
    example_rank: int = EXAMPLE_RANK_MAX
    """How hard its evidence file is to follow: of a finding, the lowest is shown as the example."""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A violation is over, or is there again."""

    event: Literal["healed", "reopened"]
    id: str
    run: str = ""
    kind: str
    store: str
    session: str
    message: str
    writer: int | None
    seq: int | None
    at_wall_seconds: float


class Thinned(msgspec.Struct, frozen=True, kw_only=True):
    """The first line of a journal that was thinned out: what its places mean since, and how many it lists no longer."""

    event: Literal["thinned"] = "thinned"
    counted: int
    """Up to this place, as if nothing had ever been removed, it was counted and thinned out."""
    kept_bytes: int
    """What is left of that: so many bytes behind this line."""
    violations: int
    """Not listed any more."""


Line = Violation | Change


def violation_id(run: str, store: str, session: str, kind: str, message: str) -> str:
    """Return the short name of a violation: the same for the same identity, whoever computes it."""
    identity = msgspec.json.encode([run, store, session, kind, message])
    return hashlib.sha256(identity).hexdigest()[:ID_CHARACTERS]


def read_head(file: BinaryIO) -> Thinned | None:
    """Read the first line if it says that the journal was thinned out, and else leave the file at its beginning."""
    try:
        return decode_json(file.readline(), type=Thinned)
    except ValueError:
        file.seek(0)
        return None


def thin_out(lines: list[bytes], kept_bytes_max: int) -> tuple[list[bytes], int]:
    """Choose what to keep of a journal that is too long; returns it, and how many violations it drops. Pure."""
    decoded = [(text, decode_line(text)) for text in lines]
    last_change = {line.id: text for text, line in decoded if isinstance(line, Change)}
    kept: list[bytes] = []
    size = dropped = 0
    for text, line in decoded:
        if isinstance(line, Change):
            continue
        lines = [text] if line is None else [text, *([last_change[line.id]] if line.id in last_change else [])]
        has_a_file = line is not None and line.evidence == line.id
        if has_a_file or size + sum(map(len, lines)) <= kept_bytes_max:
            kept += lines
            size += sum(map(len, lines))
        else:
            dropped += 1
    return kept, dropped


class _Peek(msgspec.Struct):
    event: str = "found"


def encode_lines(lines: list[Line]) -> bytes:
    return b"".join(msgspec.json.encode(line) + b"\n" for line in lines)


def _decode(text: bytes) -> Line:
    if decode_json(text, type=_Peek).event == "found":
        return decode_json(text, type=Violation)
    return decode_json(text, type=Change)


def decode_line(text: bytes) -> Line | None:
    """Return what a line says; None if it was cut by a full disk, or altered."""
    try:
        line = _decode(text)
        Kind(line.kind)
    except ValueError:
        return None
    # What it is counted by is said twice in it, so that an altered line does not pass for another violation.
    is_whole = line.id == violation_id(line.run, line.store, line.session, line.kind, line.message)
    if line.writer is not None:
        is_whole &= line.message == f"{line.session}/{line.writer}/{line.seq}"
    return line if is_whole else None
