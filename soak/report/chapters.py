"""The story of one violation as chapters of rows, for a page: what `soak explain` tells, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from soak.report.diagnosed import in_common, said, told_elsewhere
from soak.report.recorded import Recorded
from soak.report.table import plain
from soak.report.telling import (
    ALSO_SHOWN_MAX,
    HEX_BYTES_MAX,
    HEX_BYTES_PER_LINE,
    IN_COMMON,
    KNOWN,
    NO_FACTS,
    about,
    broken_mark,
    facts_are_about,
    hex_lines,
    known_of,
    next_steps,
    place_of,
    shown,
    telemetry_rows,
)
from soak.report.timeline import Moment, timeline
from soak.verifier.evidence_file import EvidenceFile

NEIGHBOUR_CHARACTERS_MAX = 80


class Row(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A line of a chapter."""

    text: str
    label: str = ""
    tone: str = ""
    """`good`, `bad`, `fault`, `here` or nothing."""
    at_wall_seconds: float | None = None
    after_seconds: float | None = None
    """Since the first moment of the story."""
    is_code: bool = False


class Chapter(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the story."""

    title: str
    rows: list[Row]


class Story(msgspec.Struct, frozen=True, kw_only=True):
    """All that is known of one violation."""

    id: str
    run: str
    store: str
    kind: str
    state: str
    session: str
    message: str
    summary: str
    cause: str
    found_at_wall_seconds: float
    changed_at_wall_seconds: float | None
    has_evidence: bool
    chapters: list[Chapter]


def story_of(record: Recorded, file: EvidenceFile | None, others: Sequence[Recorded] = ()) -> Story:
    """Put the story together; of a violation without evidence, what the journal knows."""
    violation = record.violation
    meaning = file.story.get("meaning", "") if file is not None else ""
    summary = f"{meaning}: {violation.detail}" if meaning and meaning != violation.detail else violation.detail
    return Story(
        id=violation.id,
        run=violation.run,
        store=plain(violation.store),
        kind=violation.kind,
        state=record.state,
        session=plain(violation.session),
        message=plain(violation.message),
        summary=plain(summary),
        cause=violation.cause,
        found_at_wall_seconds=violation.at_wall_seconds,
        changed_at_wall_seconds=record.changed_wall_seconds,
        has_evidence=file is not None,
        chapters=_chapters(record, file, others),
    )


def _chapters(record: Recorded, file: EvidenceFile | None, others: Sequence[Recorded]) -> list[Chapter]:
    common = _listed(IN_COMMON, in_common(record, others))
    if file is None:
        why = "There were as many evidence files as allowed already, or the disk would not take it."
        head = Chapter(title="It has no evidence file", rows=[Row(text=why)])
        elsewhere = _listed(KNOWN, told_elsewhere(record, others))
        return [chapter for chapter in (head, elsewhere, common, _next(record)) if chapter.rows]
    story = about(record, file)
    moments = timeline(file.case, place_of(record)) if file.case is not None else []
    chapters = [
        _cause(record, story),
        common,
        _listed(KNOWN, known_of(record, story, others)),
        Chapter(title="What happened", rows=_moments(moments, story.get("clock_offset_us", 0))),
        *_written(story),
        Chapter(title="What stands around it", rows=_neighbours(story)),
        Chapter(
            title="What changed in what the servers say of themselves",
            rows=[Row(label=plain(name), text=plain(text.plain)) for name, text in telemetry_rows(story, file.case)],
        ),
        _contract(story),
        *_also(record, file),
        _next(record),
    ]
    return [chapter for chapter in chapters if chapter.rows]


def _moments(moments: list[Moment], offset_us: int) -> list[Row]:
    first = next((moment.at_us for moment in moments if moment.at_us is not None), 0)
    return [
        Row(text=plain(moment.what), tone=moment.tone)
        if moment.at_us is None
        else Row(
            text=plain(moment.what),
            tone=moment.tone,
            at_wall_seconds=(moment.at_us + offset_us) / 1e6,
            after_seconds=(moment.at_us - first) / 1e6,
        )
        for moment in moments
    ]


def _written(story: dict[str, Any]) -> list[Chapter]:
    chapters = []
    if expected := story.get("expected"):
        row = Row(label=plain(expected["role"]), text=shown(expected["content"]))
        chapters.append(Chapter(title="What was written", rows=[row]))
    if stored := story.get("stored"):
        rows = [Row(label=shown(stored["role"]), text=shown(stored["content"]))] if "content" in stored else []
        rows += [Row(text=plain(f"{stored.get('raw_is', 'bytes')}:"))] if stored.get("raw_hex") else []
        raw = bytes.fromhex(stored.get("raw_hex", ""))
        rows += [Row(text=line, is_code=True) for line in hex_lines(raw[:HEX_BYTES_MAX], HEX_BYTES_PER_LINE)]
        if len(raw) > HEX_BYTES_MAX:
            rows.append(Row(text=f"… and {len(raw) - HEX_BYTES_MAX:,} bytes more, in the evidence file"))
        chapters.append(Chapter(title=f"What stands at position {stored['position']} of the read", rows=rows))
    return chapters


def _neighbours(story: dict[str, Any]) -> list[Row]:
    here = (story.get("stored") or {}).get("position")
    return [
        Row(
            label=str(one["position"]),
            text=f"{plain(one['name'] or 'no message')}  {shown(one['content'] or '')[:NEIGHBOUR_CHARACTERS_MAX]}",
            tone="here" if one["position"] == here else "",
        )
        for one in story.get("neighbours") or []
    ]


def _contract(story: dict[str, Any]) -> Chapter:
    clause = story.get("clause") or {}
    broken, promises = clause.get("broken", ""), dict(clause.get("contract") or {})
    promises.setdefault(broken, "always")
    rows = [
        Row(
            label=plain(name),
            text=plain(f"{text} ({broken_mark(story)})" if name == broken else text),
            tone="bad" if name == broken else "",
        )
        for name, text in promises.items()
    ]
    return Chapter(title="What was promised", rows=rows)


def _listed(title: str, lines: Sequence[str]) -> Chapter:
    return Chapter(title=title, rows=[Row(text=plain(line)) for line in lines])


def _cause(record: Recorded, story: dict[str, Any]) -> Chapter:
    cause, facts = story.get("probable_cause") or {}, said(story)
    rows = [Row(label="for", text=plain(fact), tone="good") for fact in facts.facts]
    rows += [Row(label="against", text=plain(fact), tone="bad") for fact in facts.against]
    another = [Row(text=plain(text))] if (text := facts_are_about(record, story)) else []
    nothing = [Row(text=NO_FACTS)]
    return Chapter(title=plain(f"Probable cause: {cause.get('cause', 'unknown')}"), rows=[*another, *(rows or nothing)])


def _also(record: Recorded, file: EvidenceFile) -> list[Chapter]:
    count = file.story.get("count", 1)
    if count <= 1:
        return []
    also = [name for name in [file.story["message"], *file.story.get("also", [])] if name != record.violation.message]
    more = [Row(text=f"and {count - 1 - ALSO_SHOWN_MAX:,} more")] * (count - 1 > ALSO_SHOWN_MAX)
    rows = [Row(text=plain(name)) for name in also[:ALSO_SHOWN_MAX]] + more
    return [Chapter(title=f"{count:,} of this kind were found by the same read", rows=rows)]


def _next(record: Recorded) -> Chapter:
    rows = [Row(label=why, text=plain(command), is_code=True) for command, why in next_steps(record)]
    return Chapter(title="What to do next", rows=rows)
