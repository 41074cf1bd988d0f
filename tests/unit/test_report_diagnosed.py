"""What a story shows of a diagnosis: facts that hold, joined with what other violations say of the same message."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console

from soak.checker import facts
from soak.checker.causes import Diagnosis
from soak.checker.clues import Clues
from soak.checker.kinds import Kind
from soak.checker.patterns import Traits
from soak.report.chapters import story_of
from soak.report.diagnosed import in_common, said, told_elsewhere
from soak.report.recorded import Recorded
from soak.report.telling import as_dict, tell
from soak.verifier.evidence_file import EvidenceFile
from soak.verifier.journal import Violation, decode_line, encode_lines, violation_id
from tests.support.recorded_run import recorded, violation

CLUES = Clues(
    kind=Kind.LOST,
    place=(0, 1),
    present=[(0, 2, 3)],
    items=2,
    first_missed=5_000_000,
    read_invoked=6_000_000,
    elsewhere=["other-chat"],
)


def told(**facts_of: list[Any]) -> dict[str, Any]:
    """Return a story with these facts, as it is read back from its file."""
    groups: dict[str, Any] = {"facts": [], "against": [], "observed": [], **facts_of}
    diagnosis = msgspec.json.decode(msgspec.json.encode(Diagnosis(**groups, clues=CLUES)))
    cause = {"cause": "unknown", "facts": ["an old text"], "against": []}
    found = violation()
    return {
        "id": found.id,
        "message": found.message,
        "diagnosis": diagnosis,
        "probable_cause": cause,
        "clock_offset_us": 1_800_000_000_000_000,
    }


def leak(record: Recorded, into: str) -> Recorded:
    """Return that the same message stands in another session."""
    lost = record.violation
    message = f"{lost.run}:{lost.message}"
    identity = violation_id(lost.run, lost.store, into, "leaked", message)
    found = msgspec.structs.replace(
        lost, id=identity, kind="leaked", session=into, message=message, writer=None, seq=None
    )
    return msgspec.structs.replace(record, violation=found)


def terminal(record: Recorded, story: dict[str, Any], others: list[Recorded]) -> str:
    page = io.StringIO()
    tell(record, EvidenceFile(Path(), story, None, is_sealed=True), Console(file=page, width=200), others)
    return page.getvalue()


def test_a_fact_that_does_not_hold_by_its_own_evidence_is_not_shown() -> None:
    story = told(
        facts=[facts.StandsElsewhere(session="other-chat"), facts.StandsElsewhere(session="no-chat")],
        against=[facts.SeenBefore(first_missed=5_000_000)],
        observed=[facts.NeverSeen()],
    )
    assert said(story) == (
        ["it stands in session other-chat"],
        [],
        ["no read of its session by the verifier showed it"],
    )


def test_a_story_without_typed_facts_shows_its_texts() -> None:
    story = {**told(), "diagnosis": {"facts": [{"fact": "unheard_of"}]}}
    assert said(story).facts == ["an old text"]
    assert said({}) == ([], [], [])


def test_what_is_lost_here_and_leaked_there_is_told_as_one(tmp_path: Path) -> None:
    lost = recorded(tmp_path, violation())
    leaked = leak(lost, "S1-chat")
    others = [lost, leaked, recorded(tmp_path, violation(2))]
    assert told_elsewhere(lost, others) == [f"it stands in session S1-chat (violation {leaked.violation.id})"]
    assert told_elsewhere(leaked, others) == [
        f"it is missing from its own session s1-chat (violation {lost.violation.id})"
    ]
    assert told_elsewhere(others[2], others) == []
    assert "it stands in session S1-chat" in terminal(lost, told(), others)
    assert "it stands in session S1-chat" in str(msgspec.to_builtins(story_of(lost, None, others)))
    assert "it stands in session S1-chat" in str(as_dict(lost, None, others)["known"])


def test_what_a_finding_has_in_common_is_shown_with_each_of_its_violations(tmp_path: Path) -> None:
    finding = [
        recorded(tmp_path, msgspec.structs.replace(violation(4, session=f"s{n}-chat"), traits=Traits(items=100)))
        for n in range(3)
    ]
    assert in_common(finding[0], finding) == ["exactly 100 messages remain, in each of 3 reads"]
    assert "exactly 100 messages remain, in each of 3 reads" in terminal(finding[0], told(), finding)
    other_cause = msgspec.structs.replace(
        finding[0], violation=msgspec.structs.replace(finding[0].violation, cause="eviction")
    )
    assert in_common(other_cause, [other_cause, *finding[1:]]) == []


def test_facts_about_another_message_of_the_same_read_are_said_to_be(tmp_path: Path) -> None:
    first, other = recorded(tmp_path, violation()), recorded(tmp_path, violation(2))
    story = told(observed=[facts.NeverSeen()])
    about = f"these facts are about {first.violation.message}"
    assert about not in terminal(first, story, [])
    assert about in terminal(other, story, [])
    assert "no read of its session" in terminal(first, story, [])
    assert "no read of its session" not in terminal(other, story, [])


def test_what_a_violation_is_compared_by_survives_in_the_journal() -> None:
    found = msgspec.structs.replace(violation(), traits=Traits(items=7, is_first=True, other_session="x"))
    (line,) = encode_lines([found]).splitlines()
    assert decode_line(line) == found
    old = msgspec.json.decode(line)
    del old["traits"]
    read_back = decode_line(msgspec.json.encode(old))
    assert isinstance(read_back, Violation)
    assert read_back.traits == Traits()
