"""The story of a violation on the page: what `soak explain` tells, all of it, and nothing that is not text."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console

from soak.report.story import Story, story_of
from soak.report.story_text import print_story
from soak.verifier.evidence_file import EvidenceFile
from tests.support.recorded_run import recorded
from tests.support.violations import a_violation

STORY: dict[str, Any] = {
    "id": "another",
    "message": "s1-chat/0/9",
    "also": ["s1-chat/0/8"],
    "count": 8,
    "meaning": "the meaning",
    "expected": {"role": "user", "content": "what was said"},
    "stored": {"position": 3, "role": "tool", "content": "what stands there", "raw_hex": "00ff41" * 40},
    "neighbours": [{"position": 3, "name": "s1-chat/0/2", "content": "next to it"}],
    "faults": [
        {"kind": "crash", "target": "redis", "telemetry_before": {"keys": "7"}, "telemetry_after": {"keys": "0"}}
    ],
    "clause": {"broken": "isolation", "contract": {"durability": "nothing may be lost"}},
    "probable_cause": {"cause": "eviction", "facts": ["a fact"], "against": ["a doubt"]},
}


def texts(story: Story) -> list[str]:
    """Return all strings of a story."""
    found: list[str] = []

    def collect(value: object) -> None:
        if isinstance(value, str):
            found.append(value)
        elif isinstance(value, dict):
            for inner in value.values():
                collect(inner)
        elif isinstance(value, list):
            for inner in value:
                collect(inner)

    collect(msgspec.to_builtins(story))
    return found


def words(text: str) -> set[str]:
    return set(re.findall(r"[\w./'-]+", text))


def test_that_a_clock_went_on_is_no_change_of_a_server(tmp_path: Path) -> None:
    fault = {
        "kind": "crash",
        "target": "redis",
        "telemetry_before": {"keys": "7", "server_time_usec": "1"},
        "telemetry_after": {"keys": "0", "server_time_usec": "2"},
    }
    file = EvidenceFile(tmp_path, {**STORY, "faults": [fault]}, None, is_sealed=True)
    chapters = story_of(recorded(tmp_path, a_violation()), file).chapters
    (changed,) = [one for one in chapters if one.title == "What changed on the servers"]
    assert [row.text for row in changed.rows] == ["keys 7 → 0"]


def test_every_word_that_the_terminal_shows_is_on_the_page(tmp_path: Path) -> None:
    record, file = recorded(tmp_path, a_violation()), EvidenceFile(tmp_path, STORY, None, is_sealed=True)
    shown = io.StringIO()
    print_story(record, file, Console(file=shown, width=400))
    page = words(" ".join(texts(story_of(record, file))))
    # Names of facts that the page has as fields, the moment, which it writes in the reader's own time, and a sign.
    known = {
        "id",
        "session",
        "store",
        "run",
        "found",
        *words(" ".join(re.findall(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", shown.getvalue()))),
    }
    assert words(shown.getvalue()) - page <= known


def test_one_without_evidence_says_why(tmp_path: Path) -> None:
    story = story_of(recorded(tmp_path, a_violation()), None)
    assert not story.has_evidence
    assert "no evidence file" in story.chapters[0].rows[0].text
    assert story.chapters[-1].title == "What to do next"


def test_what_cannot_be_seen_is_written_out(tmp_path: Path) -> None:
    hidden = "\x1b[2J\u202e"

    def hide(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: inner if key == "raw_hex" else hide(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [hide(inner) for inner in value]
        return value + hidden if isinstance(value, str) else value

    file = EvidenceFile(tmp_path, hide(STORY), None, is_sealed=True)
    told = texts(story_of(recorded(tmp_path, a_violation(session=hidden)), file))
    assert all(text.isprintable() for text in told)
    assert sum("\\x1b" in text for text in told) >= 12
