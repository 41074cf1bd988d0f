"""The story of one violation in plain English, for a terminal of any width."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from soak.checker.case import Case
from soak.checker.read import names_of, restore
from soak.checker.telemetry import ServerSample
from soak.checker.text import MessageGenerator
from soak.report.diagnosed import in_common, said, told_elsewhere
from soak.report.moment import clock, clock_ms
from soak.report.recorded import Recorded
from soak.report.table import plain
from soak.report.timeline import Moment, timeline
from soak.verifier.evidence_file import EvidenceFile
from soak.verifier.story import shown_in

HEX_BYTES_MAX = 96
HEX_BYTES_PER_LINE = 16
HEX_LINE_CHARACTERS = 74
CONTENT_CHARACTERS_MAX = 400
ALSO_SHOWN_MAX = 5
TELEMETRY_SHOWN_MAX = 10
DEFAULT_FOLDER = Path(".soak")
"""Where a command looks that is not told where."""
KNOWN = "What is known of it"
IN_COMMON = "What violations like it have in common"
NO_FACTS = "nothing in the ledger, the reads or the telemetry points to one"
_TONES = {"good": "green", "bad": "red", "fault": "yellow"}
_STATES = {"open": "bold red", "healed": "bold green"}


def tell(record: Recorded, file: EvidenceFile | None, console: Console, others: Sequence[Recorded] = ()) -> None:
    """Tell the whole story; of a violation without a file, what the journal knows. The others are on record, too."""
    violation = record.violation
    head = Text.assemble(
        (violation.kind, "bold red"),
        "  ",
        (plain(violation.message), "bold"),
        "  ",
        (record.state, _STATES[record.state]),
    )
    console.print(head)
    meaning = file.story.get("meaning", "") if file is not None else ""
    _line(console, f"{meaning}: {violation.detail}" if meaning and meaning != violation.detail else violation.detail)
    _facts(console, record)
    if file is None:
        _line(console, "It has no evidence file: there were as many as allowed already, or the disk would not take it.")
        _list(console, KNOWN, told_elsewhere(record, others))
        _list(console, IN_COMMON, in_common(record, others))
        return
    story = about(record, file)
    if file.case is not None:
        _heading(console, "What happened")
        console.print(_moments(timeline(file.case, place_of(record)), story.get("clock_offset_us", 0)))
    _list(console, KNOWN, known_of(record, story, others))
    _bytes(console, story)
    _neighbours(console, story)
    _telemetry(console, story, file.case)
    _contract(console, story)
    _cause(console, record, story)
    _list(console, IN_COMMON, in_common(record, others))
    _next(console, record, file)


def known_of(record: Recorded, story: dict[str, Any], others: Sequence[Recorded]) -> list[str]:
    """Return what is known of the message itself, whatever the cause."""
    own = said(story).known if record.violation.id == story.get("id") else []
    return list(dict.fromkeys([*own, *told_elsewhere(record, others)]))


def _list(console: Console, title: str, lines: Sequence[str]) -> None:
    if lines:
        _heading(console, title)
        for line in lines:
            _line(console, line)


def about(record: Recorded, file: EvidenceFile) -> dict[str, Any]:
    """Return the story of this violation, where the file tells it of the first of several found together."""
    case, place = file.case, place_of(record)
    if record.violation.id == file.story.get("id") or case is None or place is None:
        return file.story
    author = MessageGenerator(case.run, case.seed)
    items = restore(case.basis.read, case.session, author).items
    at = -1 if case.suspicion is not None else (names_of(items).index(place) if place in names_of(items) else -1)
    return {**file.story, **shown_in(items, at, place, case.book, author)}


def place_of(record: Recorded) -> tuple[int, int] | None:
    """Return where the message stands among those of its writer, if it is known whose it is."""
    writer, seq = record.violation.writer, record.violation.seq
    return None if writer is None or seq is None else (writer, seq)


def _heading(console: Console, text: str) -> None:
    console.print()
    console.print(Text(plain(text), style="bold"))


def _line(console: Console, text: str, style: str = "") -> None:
    console.print(Padding(Text(plain(text), style=style), (0, 0, 0, 2)))


def _grid(rows: list[tuple[str, Text]]) -> Padding:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, style="dim")
    table.add_column(overflow="fold")
    for name, value in rows:
        # Whatever a store or a file says, it does not speak to the terminal.
        table.add_row(plain(name), Text(plain(value.plain), style=value.style))
    return Padding(table, (0, 0, 0, 2))


def _facts(console: Console, record: Recorded) -> None:
    violation = record.violation
    rows = [
        ("id", Text(violation.id, style="cyan")),
        ("store", Text(violation.store)),
        ("session", Text(plain(violation.session))),
        ("run", Text(violation.run)),
        ("found", Text(clock(violation.at_wall_seconds))),
    ]
    if record.changed_wall_seconds is not None:
        rows.append((record.state, Text(clock(record.changed_wall_seconds))))
    if record.evidence is not None:
        rows.append(("evidence", Text(str(record.evidence))))
    console.print(_grid(rows))


def _moments(moments: list[Moment], offset_us: int) -> Padding:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, style="dim")
    table.add_column(no_wrap=True, style="dim", justify="right")
    table.add_column(overflow="fold")
    first = next((moment.at_us for moment in moments if moment.at_us is not None), 0)
    for moment in moments:
        what = Text(plain(moment.what), style=_TONES.get(moment.tone, ""))
        if moment.at_us is None:
            table.add_row("", "", what)
        else:
            table.add_row(clock_ms((moment.at_us + offset_us) / 1e6), f"+{(moment.at_us - first) / 1e6:.3f} s", what)
    return Padding(table, (0, 0, 0, 2))


def _bytes(console: Console, story: dict[str, Any]) -> None:
    expected, stored = story.get("expected"), story.get("stored")
    if expected:
        _heading(console, "What was written")
        _line(console, f"{expected['role']}: {shown(expected['content'])}")
    if stored:
        _heading(console, f"What stands at position {stored['position']} of the read")
        if "content" in stored:
            _line(console, f"{shown(stored['role'])}: {shown(stored['content'])}")
        if stored.get("raw_hex"):
            _line(console, f"{stored.get('raw_is', 'bytes')}:", "dim")
        raw = bytes.fromhex(stored.get("raw_hex", ""))
        per_line = HEX_BYTES_PER_LINE if console.width >= HEX_LINE_CHARACTERS else HEX_BYTES_PER_LINE // 2
        for line in hex_lines(raw[:HEX_BYTES_MAX], per_line):
            console.print(Text("  " + line, style="dim"), no_wrap=True, overflow="crop")
        if len(raw) > HEX_BYTES_MAX:
            _line(console, f"… and {len(raw) - HEX_BYTES_MAX:,} bytes more, in the evidence file", "dim")


def hex_lines(raw: bytes, per_line: int) -> list[str]:
    """Write bytes as a dump: where, in hex, and what of it is text."""
    lines = []
    for start in range(0, len(raw), per_line):
        row = raw[start : start + per_line]
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        lines.append(f"{start:04x}  {row.hex(' '):<{per_line * 3 - 1}}  {text}")
    return lines


def shown(text: str) -> str:
    """Show a text on one line, in bounded room, with what cannot be seen written out."""
    cut = text[:CONTENT_CHARACTERS_MAX]
    return plain(cut) + (f" … ({len(text):,} characters)" if len(text) > len(cut) else "")


def _neighbours(console: Console, story: dict[str, Any]) -> None:
    around = story.get("neighbours") or []
    if not around:
        return
    _heading(console, "What stands around it")
    here = (story.get("stored") or {}).get("position")
    rows = [
        (
            str(one["position"]),
            Text(
                f"{one['name'] or 'no message'}  {shown(one['content'] or '')[:80]}",
                style="bold" if one["position"] == here else "",
            ),
        )
        for one in around
    ]
    console.print(_grid(rows))


def _telemetry(console: Console, story: dict[str, Any], case: Case | None) -> None:
    if rows := telemetry_rows(story, case):
        _heading(console, "What changed in what the servers say of themselves")
        console.print(_grid(rows))


def telemetry_rows(story: dict[str, Any], case: Case | None) -> list[tuple[str, Text]]:
    """Return what the servers said of themselves around it, where it changed."""
    rows: list[tuple[str, Text]] = []
    for fault in story.get("faults") or []:
        before, after = fault.get("telemetry_before") or {}, fault.get("telemetry_after") or {}
        for key in sorted(set(before) | set(after)):
            if before.get(key) != after.get(key):
                changed = f"{key} {before.get(key, '-')} → {after.get(key, '-')}"
                rows.append((f"{fault['target']}, {fault['kind']}", Text(changed)))
    rows += _sampled(case.samples if case is not None else [])
    return rows[:TELEMETRY_SHOWN_MAX]


def _sampled(samples: list[ServerSample]) -> list[tuple[str, Text]]:
    rows = []
    for server in dict.fromkeys(sample.server for sample in samples):
        of_server = [sample for sample in samples if sample.server == server]
        first, last = of_server[0], of_server[-1]
        for name, was, is_now in (
            ("configuration", first.configuration, last.configuration),
            ("telemetry", first.telemetry, last.telemetry),
        ):
            for key in sorted(set(was) | set(is_now)):
                if was.get(key) != is_now.get(key):
                    style = "bold yellow" if name == "configuration" else ""
                    rows.append((server, Text(f"{key} {was.get(key, '-')} → {is_now.get(key, '-')}", style=style)))
    # What was configured differently comes first: it is rarer, and says more.
    return sorted(rows, key=lambda row: not row[1].style)


def broken_mark(story: dict[str, Any]) -> str:
    """Say that a clause is broken; of durability, whose words are about faults, that none of them excuses this."""
    is_loss = story.get("kind") in {"lost", "rolled_back"}
    return "broken: no fault excuses this loss" if is_loss else "broken"


def _contract(console: Console, story: dict[str, Any]) -> None:
    clause = story.get("clause") or {}
    _heading(console, "What was promised")
    broken = clause.get("broken", "")
    mark = broken_mark(story)
    rows = [
        (name, Text(text + (f"   ← {mark}" if name == broken else ""), style="red" if name == broken else ""))
        for name, text in (clause.get("contract") or {}).items()
    ]
    if broken not in (clause.get("contract") or {}):
        rows.append((broken, Text("always   ← broken", style="red")))
    console.print(_grid(rows))


def _cause(console: Console, record: Recorded, story: dict[str, Any]) -> None:
    cause, facts = story.get("probable_cause") or {}, said(story)
    _heading(console, f"Probable cause: {cause.get('cause', 'unknown')}")
    if about_another := facts_are_about(record, story):
        _line(console, about_another, "dim")
    rows = [("for", Text(fact, style="green")) for fact in facts.facts]
    rows += [("against", Text(fact, style="red")) for fact in facts.against]
    if rows:
        console.print(_grid(rows))
    else:
        _line(console, NO_FACTS, "dim")


def facts_are_about(record: Recorded, story: dict[str, Any]) -> str:
    """Say which message the facts are about, where they are about another one that was found by the same read."""
    if record.violation.id == story.get("id") or not story.get("message"):
        return ""
    return f"these facts are about {story['message']}, which was found by the same read"


def _next(console: Console, record: Recorded, file: EvidenceFile) -> None:
    count = file.story.get("count", 1)
    if count > 1:
        _heading(console, f"{count:,} of this kind were found by the same read")
        also = [
            name for name in [file.story["message"], *file.story.get("also", [])] if name != record.violation.message
        ]
        more = " …" if count - 1 > ALSO_SHOWN_MAX else ""
        _line(console, ", ".join(also[:ALSO_SHOWN_MAX]) + more)
    _heading(console, "What to do next")
    for command, why in next_steps(record):
        _line(console, f"# {why}", "dim")
        # Never broken over two lines: it is there to be copied.
        console.print(Text(f"  {plain(command)}"), soft_wrap=True)


def next_steps(record: Recorded) -> list[tuple[str, str]]:
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


def as_dict(record: Recorded, file: EvidenceFile | None, others: Sequence[Recorded] = ()) -> dict[str, object]:
    """Return the same for machines."""
    answer = {**record.as_dict(), "in_common": in_common(record, others)}
    if file is None:
        return {**answer, "known": told_elsewhere(record, others)}
    story = {key: value for key, value in about(record, file).items() if key not in {"id", "seal", "case_missing"}}
    offset = story.get("clock_offset_us", 0)
    story["known"] = known_of(record, file.story, others)
    moments = timeline(file.case, place_of(record)) if file.case is not None else []
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
