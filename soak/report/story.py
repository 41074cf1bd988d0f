"""The story of one violation as chapters of rows: the terminal, the page and reports all show this one value."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from soak.checker.case import Case
from soak.checker.read import names_of, restore
from soak.checker.telemetry import ServerSample
from soak.checker.text import MessageGenerator
from soak.report.diagnosis import elsewhere, in_common, sentences_of
from soak.report.text import plain
from soak.report.timeline import Moment, timeline
from soak.report.violation_records import ViolationRecord
from soak.verifier.evidence_file import EvidenceFile
from soak.verifier.story import shown_in

HEX_BYTES_MAX = 96
HEX_BYTES_PER_LINE = 16
HEX_LINE_CHARACTERS = 74
"""Width of such a line, with its margin."""
CONTENT_CHARACTERS_MAX = 400
NEIGHBOUR_CHARACTERS_MAX = 80
ALSO_SHOWN_MAX = 5
TELEMETRY_SHOWN_MAX = 10
_ALWAYS_CHANGE = frozenset({"server_time_usec"})
"""Clocks: that they went on says nothing."""
DEFAULT_FOLDER = Path(".soak")
"""Where a command looks by default."""
NO_EVIDENCE = "It has no evidence file: the limit was reached, or the disk was full."
NO_FACTS = "nothing in the ledger, the reads or the telemetry points to one"


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


def story_of(
    record: ViolationRecord,
    file: EvidenceFile | None,
    others: Sequence[ViolationRecord] = (),
    *,
    hex_per_line: int = HEX_BYTES_PER_LINE,
) -> Story:
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
        chapters=_chapters(record, file, others, hex_per_line),
    )


def _chapters(
    record: ViolationRecord, file: EvidenceFile | None, others: Sequence[ViolationRecord], hex_per_line: int
) -> list[Chapter]:
    common = _listed("What violations like it have in common", in_common(record, others))
    if file is None:
        head = Chapter(title="Evidence", rows=[Row(text=NO_EVIDENCE)])
        known = _listed("What is known of it", elsewhere(record, others))
        chapters = [head, known, common, _next(record)]
    else:
        story = about(record, file)
        moments = timeline(file.case, message_id_of(record)) if file.case is not None else []
        chapters = [
            _cause(record, story),
            common,
            _listed("What is known of it", known_of(record, story, others)),
            Chapter(title="What happened", rows=_moments(moments, story.get("clock_offset_us", 0))),
            *_written(story, hex_per_line),
            Chapter(title="What is around it", rows=_neighbours(story)),
            Chapter(title="What changed on the servers", rows=_telemetry(story, file.case)),
            _contract(story),
            *_also(record, file),
            _next(record),
        ]
    return [chapter for chapter in chapters if chapter.rows]


def about(record: ViolationRecord, file: EvidenceFile) -> dict[str, Any]:
    """Return the story of this violation; the file holds that of the first of several found by one read."""
    case, place = file.case, message_id_of(record)
    if record.violation.id == file.story.get("id") or case is None or place is None:
        return file.story
    author = MessageGenerator(case.run, int(case.seed))
    items = restore(case.basis.read, case.session, author).items
    at = -1 if case.suspicion is not None else (names_of(items).index(place) if place in names_of(items) else -1)
    return {**file.story, **shown_in(items, at, place, case.book, author)}


def message_id_of(record: ViolationRecord) -> tuple[int, int] | None:
    """Return writer and sequence number of the message, if its writer is known."""
    writer, seq = record.violation.writer, record.violation.seq
    return None if writer is None or seq is None else (writer, seq)


def known_of(record: ViolationRecord, story: dict[str, Any], others: Sequence[ViolationRecord]) -> list[str]:
    """Return what is known of the message itself, whatever the cause."""
    own = sentences_of(story).known if record.violation.id == story.get("id") else []
    return list(dict.fromkeys([*own, *elsewhere(record, others)]))


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


def _written(story: dict[str, Any], hex_per_line: int) -> list[Chapter]:
    chapters = []
    if expected := story.get("expected"):
        row = Row(label=plain(expected["role"]), text=shown(expected["content"]))
        chapters.append(Chapter(title="What was written", rows=[row]))
    if stored := story.get("stored"):
        rows = [Row(label=shown(stored["role"]), text=shown(stored["content"]))] if "content" in stored else []
        rows += [Row(text=plain(f"{stored.get('raw_is', 'bytes')}:"))] if stored.get("raw_hex") else []
        raw = bytes.fromhex(stored.get("raw_hex", ""))
        rows += [Row(text=line, is_code=True) for line in hex_lines(raw[:HEX_BYTES_MAX], hex_per_line)]
        if len(raw) > HEX_BYTES_MAX:
            rows.append(Row(text=f"… and {len(raw) - HEX_BYTES_MAX:,} bytes more, in the evidence file"))
        chapters.append(Chapter(title=f"What is stored at position {stored['position']} of the read", rows=rows))
    return chapters


def hex_lines(raw: bytes, per_line: int) -> list[str]:
    """Return a hex dump: offset, bytes, printable characters."""
    lines = []
    for start in range(0, len(raw), per_line):
        row = raw[start : start + per_line]
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        lines.append(f"{start:04x}  {row.hex(' '):<{per_line * 3 - 1}}  {text}")
    return lines


def shown(text: str) -> str:
    """Return a text on one line, bounded, with invisible characters escaped."""
    cut = text[:CONTENT_CHARACTERS_MAX]
    return plain(cut) + (f" … ({len(text):,} characters)" if len(text) > len(cut) else "")


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


def _telemetry(story: dict[str, Any], case: Case | None) -> list[Row]:
    """Return what changed in the servers' configuration and telemetry around it; configuration first, it is rarer."""
    rows = [
        Row(label=plain(f"{fault['target']}, {fault['kind']}"), text=plain(line))
        for fault in story.get("faults") or []
        for line in _changes(fault.get("telemetry_before") or {}, fault.get("telemetry_after") or {})
    ]
    samples = case.samples if case is not None else []
    by_server: dict[str, list[ServerSample]] = {}
    for sample in samples:
        by_server.setdefault(sample.server, []).append(sample)
    for tone in ("fault", ""):
        for server, (first, *_, last) in ((name, [of[0], *of]) for name, of in by_server.items()):
            before, after = (first.configuration, last.configuration) if tone else (first.telemetry, last.telemetry)
            rows += [Row(label=plain(server), text=plain(line), tone=tone) for line in _changes(before, after)]
    return rows[:TELEMETRY_SHOWN_MAX]


def _changes(before: dict[str, str], after: dict[str, str]) -> list[str]:
    return [
        f"{key} {before.get(key, '-')} → {after.get(key, '-')}"
        for key in sorted({*before, *after} - _ALWAYS_CHANGE)
        if before.get(key) != after.get(key)
    ]


def _contract(story: dict[str, Any]) -> Chapter:
    clause = story.get("clause") or {}
    broken, promises = clause.get("broken", ""), dict(clause.get("contract") or {})
    # The words of durability are about faults; none of them excuses this loss.
    is_loss = story.get("kind") in {"lost", "rolled_back"}
    mark = "   ← broken: no fault excuses this loss" if is_loss and broken in promises else "   ← broken"
    promises.setdefault(broken, "always")
    rows = [
        Row(
            label=plain(name),
            text=plain(text + mark if name == broken else text),
            tone="bad" if name == broken else "",
        )
        for name, text in promises.items()
    ]
    return Chapter(title="What was promised", rows=rows)


def _listed(title: str, lines: Sequence[str]) -> Chapter:
    return Chapter(title=title, rows=[Row(text=plain(line)) for line in lines])


def _cause(record: ViolationRecord, story: dict[str, Any]) -> Chapter:
    cause, facts = story.get("probable_cause") or {}, sentences_of(story)
    rows = [Row(label="for", text=plain(fact), tone="good") for fact in facts.facts]
    rows += [Row(label="against", text=plain(fact), tone="bad") for fact in facts.against]
    about_another = story.get("message") if record.violation.id != story.get("id") else None
    if about_another:
        rows.insert(0, Row(text=plain(f"these facts are about {about_another}, which was found by the same read")))
    if not (facts.facts or facts.against):
        rows.append(Row(text=NO_FACTS))
    return Chapter(title=plain(f"Probable cause: {cause.get('cause', 'unknown')}"), rows=rows)


def _also(record: ViolationRecord, file: EvidenceFile) -> list[Chapter]:
    count = file.story.get("count", 1)
    if count <= 1:
        return []
    also = [name for name in [file.story["message"], *file.story.get("also", [])] if name != record.violation.message]
    more = [Row(text=f"and {count - 1 - ALSO_SHOWN_MAX:,} more")] * (count - 1 > ALSO_SHOWN_MAX)
    rows = [Row(text=plain(name)) for name in also[:ALSO_SHOWN_MAX]] + more
    return [Chapter(title=f"{count:,} of this kind were found by the same read", rows=rows)]


def _next(record: ViolationRecord) -> Chapter:
    rows = [Row(label=why, text=plain(command), is_code=True) for command, why in next_steps(record)]
    return Chapter(title="What to do next", rows=rows)


def next_steps(record: ViolationRecord) -> list[tuple[str, str]]:
    """Return commands that lead further, with what each is good for."""
    violation = record.violation
    folder = record.folder.parent if record.folder.parent.parent.name != "runs" else record.folder.parents[2]
    where = "" if folder == DEFAULT_FOLDER else f" --data-dir {shlex.quote(str(folder))}"
    store, session = shlex.quote(violation.store), shlex.quote(violation.session)
    steps = [(f"soak violations --store {store} --kind {violation.kind}{where}", "how often it happens")]
    if record.evidence is not None:
        steps = [
            (f"soak replay {violation.id}{where}", "derive the verdict again, with no server"),
            (
                f"soak export --jepsen history.edn --session {session}{where}",
                "ask Elle, an independent checker",
            ),
            *steps,
        ]
    return steps


def as_dict(
    record: ViolationRecord, file: EvidenceFile | None, others: Sequence[ViolationRecord] = ()
) -> dict[str, object]:
    """Return the same for machines."""
    answer = {**record.as_dict(), "in_common": in_common(record, others)}
    if file is None:
        return {**answer, "known": elsewhere(record, others)}
    story = {key: value for key, value in about(record, file).items() if key not in {"id", "seal", "case_missing"}}
    offset = story.get("clock_offset_us", 0)
    story["known"] = known_of(record, file.story, others)
    moments = timeline(file.case, message_id_of(record)) if file.case is not None else []
    return {
        **story,
        **answer,
        "timeline": [
            {
                "at_us": moment.at_us,
                "at_wall_seconds": None if moment.at_us is None else (moment.at_us + offset) / 1e6,
                "what": moment.what,
            }
            for moment in moments
        ],
        "next": [command for command, _ in next_steps(record)],
    }
