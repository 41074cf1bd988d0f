"""One evidence file: the story of a violation for people, and the case that it can be derived from again."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import msgspec

from soak.checker.case import Case
from soak.json_input import decode_json

FORMAT = 6
CASE_BYTES_MAX = 4 * 1024 * 1024
FILE_BYTES_MAX = 64 * 1024 * 1024
SEAL_CHARACTERS = 32


class EvidenceFile(msgspec.Struct, frozen=True):
    """What an evidence file says."""

    path: Path
    story: dict[str, Any]
    case: Case | None
    """None: it could not be kept, and the story says why."""
    is_sealed: bool
    """It is, to the last byte, what was written."""


class UnreadableEvidenceError(ValueError):
    """A file is no evidence, is damaged, or is of another format; the text says which."""


def encode(story: dict[str, Any], case: Case) -> bytes:
    """Return the contents of an evidence file: the story well set for people, the case on a line of its own."""
    try:
        packed = msgspec.json.encode(case)
        problem = "" if len(packed) <= CASE_BYTES_MAX else f"the case is larger than {CASE_BYTES_MAX} bytes"
    except (ValueError, TypeError, OverflowError) as error:
        packed, problem = b"", f"the case cannot be written down ({error})"
    head = {"format": FORMAT, **story, "case_missing": problem}
    head["seal"] = _seal(head, None if problem else case)
    text = msgspec.json.format(msgspec.json.encode(head), indent=2)
    return text.rstrip()[:-1].rstrip() + b',\n  "case": ' + (b"null" if problem else packed) + b"\n}\n"


def _seal(story: dict[str, Any], case: Case | None) -> str:
    """Return a mark that fits only this story and this case, to the last byte."""
    text = {key: value for key, value in story.items() if key != "seal"}
    return hashlib.sha256(msgspec.json.encode([text, case])).hexdigest()[:SEAL_CHARACTERS]


def read(path: Path) -> EvidenceFile:
    """Read an evidence file back."""
    try:
        if path.stat().st_size > FILE_BYTES_MAX:
            raise UnreadableEvidenceError(f"{path} is too large to be evidence")
        content = path.read_bytes()
    except OSError as error:
        raise UnreadableEvidenceError(f"{path} cannot be read ({error.strerror})") from error
    try:
        parts = decode_json(content, type=dict[str, msgspec.Raw])
        story = {key: decode_json(part) for key, part in parts.items() if key != "case"}
    except (ValueError, RecursionError) as error:
        raise UnreadableEvidenceError(f"{path} is damaged, or no evidence ({error})") from error
    if not isinstance(story.get("kind"), str):
        raise UnreadableEvidenceError(f"{path} is no evidence of a violation")
    if story.get("format") != FORMAT:
        found = story.get("format", "an older soak")
        raise UnreadableEvidenceError(f"{path} is of format {found}; this soak reads format {FORMAT}")
    try:
        case: Case | None = decode_json(parts.get("case", b"null"), type=Case | None)
    except (ValueError, RecursionError) as error:
        raise UnreadableEvidenceError(f"{path} is damaged: its case makes no sense ({error})") from error
    return EvidenceFile(path, story, case, story.get("seal") == _seal(story, case))
