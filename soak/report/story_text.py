"""The story of a violation on a terminal of any width."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from soak.report.story import HEX_BYTES_PER_LINE, HEX_LINE_CHARACTERS, Chapter, Row, Story, story_of
from soak.report.text import clock, clock_ms
from soak.report.violation_records import ViolationRecord
from soak.verifier.evidence_file import EvidenceFile

TONES = {"good": "green", "bad": "red", "fault": "yellow", "here": "bold"}
STATE_STYLES = {"open": "bold red", "healed": "bold green"}
_INDENT = (0, 0, 0, 2)


def print_story(
    record: ViolationRecord, file: EvidenceFile | None, console: Console, others: Sequence[ViolationRecord] = ()
) -> None:
    """Print the whole story; of a violation without a file, what the journal knows."""
    is_wide = console.width >= HEX_LINE_CHARACTERS
    story = story_of(record, file, others, hex_per_line=HEX_BYTES_PER_LINE if is_wide else HEX_BYTES_PER_LINE // 2)
    state = (story.state, STATE_STYLES[story.state])
    console.print(Text.assemble((story.kind, "bold red"), "  ", (story.message, "bold"), "  ", state))
    console.print(Padding(Text(story.summary), _INDENT))
    console.print(_grid(_facts(record, story)))
    for chapter in story.chapters:
        _print_chapter(chapter, console)


def _facts(record: ViolationRecord, story: Story) -> list[tuple[str, Text]]:
    facts = {"id": story.id, "store": story.store, "session": story.session, "run": story.run}
    facts["found"] = clock(story.found_at_wall_seconds)
    if story.changed_at_wall_seconds is not None:
        facts[story.state] = clock(story.changed_at_wall_seconds)
    if record.evidence is not None:
        facts["evidence"] = str(record.evidence)
    return [(name, Text(value, style="cyan" if name == "id" else "")) for name, value in facts.items()]


def _print_chapter(chapter: Chapter, console: Console) -> None:
    console.print()
    console.print(Text(chapter.title, style="bold"))
    if any(row.at_wall_seconds is not None for row in chapter.rows):
        console.print(_moments(chapter.rows))
        return
    labelled: list[Row] = []
    for row in chapter.rows:
        if row.label and not row.is_code:
            labelled.append(row)
            continue
        if labelled:
            console.print(_grid((one.label, Text(one.text, style=TONES.get(one.tone, ""))) for one in labelled))
            labelled = []
        if row.is_code and row.label:
            console.print(Padding(Text(f"# {row.label}", style="dim"), _INDENT))
            # Never broken over two lines: it is there to be copied.
            console.print(Text(f"  {row.text}"), soft_wrap=True)
        elif row.is_code:
            console.print(Text(f"  {row.text}", style="dim"), no_wrap=True, overflow="crop")
        else:
            console.print(Padding(Text(row.text, style=TONES.get(row.tone, "")), _INDENT))
    if labelled:
        console.print(_grid((one.label, Text(one.text, style=TONES.get(one.tone, ""))) for one in labelled))


def _grid(rows: Iterable[tuple[str, Text]]) -> Padding:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, style="dim")
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(Text(name), value)
    return Padding(table, _INDENT)


def _moments(rows: list[Row]) -> Padding:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, style="dim")
    table.add_column(no_wrap=True, style="dim", justify="right")
    table.add_column(overflow="fold")
    for row in rows:
        at = "" if row.at_wall_seconds is None else clock_ms(row.at_wall_seconds)
        after = "" if row.after_seconds is None else f"+{row.after_seconds:.3f} s"
        table.add_row(at, after, Text(row.text, style=TONES.get(row.tone, "")))
    return Padding(table, _INDENT)
