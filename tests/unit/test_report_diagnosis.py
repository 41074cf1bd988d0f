"""What a story shows of a diagnosis: facts that hold, joined with what other violations say of the same message."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.console import Console

from soak.checker import facts
from soak.checker.causes import Diagnosis
from soak.checker.clues import Clues
from soak.checker.kinds import Kind
from soak.checker.outcome import Attempt, Outcome
from soak.checker.patterns import Traits
from soak.report.diagnosis import elsewhere, in_common, sentences_of
from soak.report.story import as_dict, story_of
from soak.report.story_text import print_story
from soak.report.violation_records import ViolationRecord
from soak.verifier.evidence_file import EvidenceFile
from soak.verifier.journal import Violation, decode_line, encode_lines, violation_id
from tests.support.recorded_run import recorded
from tests.support.violations import a_violation

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
    found = a_violation()
    return {
        "id": found.id,
        "message": found.message,
        "diagnosis": diagnosis,
        "probable_cause": cause,
        "clock_offset_us": 1_800_000_000_000_000,
    }


def leak(record: ViolationRecord, into: str) -> ViolationRecord:
    """Return that the same message stands in another session."""
    lost = record.violation
    message = f"{lost.run}:{lost.message}"
    identity = violation_id(lost.run, lost.store, into, "leaked", message)
    found = msgspec.structs.replace(
        lost, id=identity, kind="leaked", session=into, message=message, writer=None, seq=None
    )
    return msgspec.structs.replace(record, violation=found)


def terminal(record: ViolationRecord, story: dict[str, Any], others: list[ViolationRecord]) -> str:
    page = io.StringIO()
    print_story(record, EvidenceFile(Path(), story, None, is_sealed=True), Console(file=page, width=200), others)
    return page.getvalue()


def test_a_fact_that_does_not_hold_by_its_own_evidence_is_not_shown() -> None:
    story = told(
        facts=[facts.StandsElsewhere(session="other-chat"), facts.StandsElsewhere(session="no-chat")],
        against=[facts.SeenBefore(first_missed=5_000_000)],
        observed=[facts.NeverSeen()],
    )
    assert sentences_of(story) == (
        ["it stands in session other-chat"],
        [],
        ["no read of its session by the verifier showed it"],
    )


def lost(*others: Attempt, **changes: Any) -> dict[str, Any]:
    """Return the story of 0/1, acknowledged at 2 s, with other appends of the session; 0/2 and 0/3 stand."""
    mine = an_attempt(seq=1, sent=1_000_000, ended=2_000_000)
    clues = msgspec.structs.replace(CLUES, attempt=mine, others=[*others], **changes)
    diagnosis = msgspec.json.decode(msgspec.json.encode(Diagnosis(facts=[], against=[], observed=[], clues=clues)))
    return {**told(), "diagnosis": diagnosis}


def an_attempt(seq: int, sent: int, ended: int, outcome: Outcome = Outcome.OK) -> Attempt:
    return Attempt(session=13, writer=0, seq=seq, outcome=outcome, sent=sent, ended=ended)


def test_a_hole_is_called_one_where_something_stands_that_was_sent_after_the_acknowledgement() -> None:
    after, late = an_attempt(2, 2_100_000, 2_200_000), an_attempt(3, 3_000_000, 3_100_000)
    survivor = "0/2, which was sent after its acknowledgement"
    assert sentences_of(lost(late, after)).known == [f"it is a hole: {survivor}, stands in the read that lacks it"]


@pytest.mark.parametrize(
    "story",
    [
        lost(),
        lost(an_attempt(2, 1_900_000, 2_100_000)),
        lost(an_attempt(2, 2_100_000, 2_200_000, Outcome.UNKNOWN)),
        lost(an_attempt(4, 2_100_000, 2_200_000)),
        lost(an_attempt(2, 2_100_000, 2_200_000), kind=Kind.STALE),
        lost(an_attempt(2, 2_100_000, 2_200_000), present=[(0, 1, 3)]),
    ],
    ids=["nothing is known", "at the same time", "perhaps not applied", "gone, too", "shown too late", "it stands"],
)
def test_what_may_be_a_tail_is_not_called_a_hole(story: dict[str, Any]) -> None:
    assert sentences_of(story).known == []


def test_a_hole_is_said_once() -> None:
    attempts = (an_attempt(2, 2_100_000, 2_200_000),)
    clues = msgspec.structs.replace(
        CLUES, attempt=an_attempt(1, 1_000_000, 2_000_000), others=[*attempts], was_seen=True, survivor=(0, 2)
    )
    known: list[Any] = [facts.HoleInLog(writer=0, seq=2)]
    diagnosis = msgspec.json.encode(Diagnosis(facts=[], against=[], observed=known, clues=clues))
    story = {**told(), "diagnosis": msgspec.json.decode(diagnosis)}
    assert len([line for line in sentences_of(story).known if "hole" in line]) == 1


def test_a_story_without_typed_facts_shows_its_texts() -> None:
    story = {**told(), "diagnosis": {"facts": [{"fact": "unheard_of"}]}}
    assert sentences_of(story).facts == ["an old text"]
    assert sentences_of({}) == ([], [], [])


def test_what_is_lost_here_and_leaked_there_is_told_as_one(tmp_path: Path) -> None:
    lost = recorded(tmp_path, a_violation())
    leaked = leak(lost, "S1-chat")
    others = [lost, leaked, recorded(tmp_path, a_violation(2))]
    assert elsewhere(lost, others) == [f"it stands in session S1-chat (violation {leaked.violation.id})"]
    assert elsewhere(leaked, others) == [f"it is missing from its own session s1-chat (violation {lost.violation.id})"]
    assert elsewhere(others[2], others) == []
    assert "it stands in session S1-chat" in terminal(lost, told(), others)
    assert "it stands in session S1-chat" in str(msgspec.to_builtins(story_of(lost, None, others)))
    assert "it stands in session S1-chat" in str(as_dict(lost, None, others)["known"])


def test_what_a_finding_has_in_common_is_shown_with_each_of_its_violations(tmp_path: Path) -> None:
    finding = [
        recorded(tmp_path, msgspec.structs.replace(a_violation(4, session=f"s{n}-chat"), traits=Traits(items=100)))
        for n in range(3)
    ]
    assert in_common(finding[0], finding) == ["exactly 100 messages remain, in each of 3 reads"]
    assert "exactly 100 messages remain, in each of 3 reads" in terminal(finding[0], told(), finding)
    other_cause = msgspec.structs.replace(
        finding[0], violation=msgspec.structs.replace(finding[0].violation, cause="eviction")
    )
    assert in_common(other_cause, [other_cause, *finding[1:]]) == []


def test_facts_about_another_message_of_the_same_read_are_said_to_be(tmp_path: Path) -> None:
    first, other = recorded(tmp_path, a_violation()), recorded(tmp_path, a_violation(2))
    story = told(observed=[facts.NeverSeen()])
    about = f"these facts are about {first.violation.message}"
    assert about not in terminal(first, story, [])
    assert about in terminal(other, story, [])
    assert "no read of its session" in terminal(first, story, [])
    assert "no read of its session" not in terminal(other, story, [])


def test_what_a_violation_is_compared_by_survives_in_the_journal() -> None:
    found = msgspec.structs.replace(a_violation(), traits=Traits(items=7, is_first=True, other_session="x"))
    (line,) = encode_lines([found]).splitlines()
    assert decode_line(line) == found
    old = msgspec.json.decode(line)
    del old["traits"]
    read_back = decode_line(msgspec.json.encode(old))
    assert isinstance(read_back, Violation)
    assert read_back.traits == Traits()
