"""A run as Markdown, for the summary of a pull request: the verdict first, the stories folded away."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from soak.checker.kinds import Kind
from soak.duration import format_seconds
from soak.report.headline import further_reasons
from soak.report.run_report import FindingStory, Report
from soak.report.summary import (
    LATENCY_COLUMNS,
    RECOVERY_COLUMNS,
    STORE_COLUMNS,
    latency_cells,
    latency_name,
    listing_command,
    recovery_cells,
    replacement_lines,
    self_check_line,
    stayed_lines,
    store_error_lines,
    store_numbers,
    totals_lines,
    tried_lines,
    worst_recoveries,
)
from soak.report.text import clock, markdown, one_line, preformatted
from soak.verifier.result import LatencyResult, RecoveryResult, Result, ThresholdResult, ThresholdState

BYTES_MAX = 1_000_000
"""GitHub takes a summary of 1 MiB, and drops a larger one altogether."""
LINE_CHARACTERS_MAX = 300
REASONS_MAX = 20
RECOVERIES_MAX = 50
_KINDS = frozenset(kind.value for kind in Kind)
_SIGNS = {"pass": "✅", "violation": "❌", "inconclusive": "⚠️", "threshold": "⚠️", "undecided": "⏳"}

_THRESHOLD_SIGNS = {ThresholdState.MET: "✅", ThresholdState.MISSED: "❌", ThresholdState.NO_SAMPLES: "❔"}


def render(report: Report) -> str:
    """Return the document; what there is no room for is left out, and that is said."""
    text = ""
    for section in _sections(report):
        if len((text + section).encode()) > BYTES_MAX - 200:
            return text + "\n_There is more than fits here; `soak report --format html` has it._\n"
        text += section
    return text


def _sections(report: Report) -> Iterable[str]:
    outcome, result = report.outcome, report.result
    yield f"## {_SIGNS.get(outcome.verdict, '')} soak: {outcome.verdict}\n\n"
    yield f"**{markdown(report.headline)}**\n\n"
    yield _identity(report) + "\n\n"
    yield _bullets(further_reasons(outcome)[:REASONS_MAX])
    if result is None:
        return
    yield "".join(f"{line[:1].upper()}{line[1:]}.\n\n" for line in tried_lines(outcome))
    if report.findings:
        yield "### Findings\n\n"
        for story in report.findings:
            yield _finding(story, outcome.data_dir)
    elif result.violations_by:
        yield _violations(result)
    yield _stayed(result)
    if errors := store_error_lines(result, outcome.reasons):
        yield "### Store errors\n\n" + _bullets(errors)
    yield "### Stores\n\n" + _stores(result)
    # All of it is our own words and numbers.
    yield "".join(f"- {line}\n" for line in (*totals_lines(result.totals), self_check_line(result))) + "\n"
    if result.latencies:
        yield "### Latency\n\n" + _latencies(result.latencies)
    if result.thresholds:
        yield "### Thresholds\n\n" + _thresholds(result.thresholds)
    if result.recoveries:
        yield _recoveries(result.recoveries)
    yield _bullets([*result.notes, *outcome.notes])
    if outcome.setup is not None:
        yield f"To do it again:\n\n<pre>\n{preformatted(outcome.setup.reproduce)}\n</pre>\n"


def _identity(report: Report) -> str:
    parts = [f"Run {markdown(report.outcome.run)}"]
    if report.result is not None:
        parts.append(f"{format_seconds(report.lasted_seconds)} until {clock(report.ended_wall_seconds)}")
    if report.state != "finished":
        parts.append(f"**{report.state}**: status so far")
    if report.outcome.setup is not None:
        parts += [f"seed {report.outcome.setup.seed}", f"soak {report.outcome.setup.version}"]
    return ", ".join(parts) + "."


def _stores(result: Result) -> str:
    return table(("store", *STORE_COLUMNS), [(markdown(row.store), *store_numbers(row)) for row in result.by_store])


def _latencies(latencies: list[LatencyResult]) -> str:
    rows = [(markdown(row.store), latency_name(row), *latency_cells(row)) for row in latencies]
    return table(("store", "operation", *LATENCY_COLUMNS), rows, numbers=range(2, 8))


def _thresholds(thresholds: list[ThresholdResult]) -> str:
    return (
        "".join(f"- {_THRESHOLD_SIGNS[one.state]} {one.state.value}: {markdown(one.line)}\n" for one in thresholds)
        + "\n"
    )


def _violations(result: Result) -> str:
    rows = [
        (
            markdown(row.store),
            f"**{row.kind.replace('_', ' ')}**" if row.kind in _KINDS else markdown(row.kind),
            _number(row.count),
            _sentence(row.kind),
        )
        for row in result.violations_by
    ]
    return "### Violations\n\n" + table(("store", "kind", "count", "what it means"), rows, numbers=(2,))


def _finding(story: FindingStory, data_dir: str) -> str:
    finding = story.finding
    headline = markdown(one_line(finding.dated_headline, LINE_CHARACTERS_MAX))
    facts = f"{_sentence(finding.kind)}; {finding.open:,} open, {finding.healed:,} healed"
    head = f"#### {headline}\n\n**{finding.kind.replace('_', ' ')}**: {facts}.\n\n"
    head += f"<pre>\n{preformatted(listing_command(finding, data_dir))}\n</pre>\n\n"
    if not story.text:
        return head
    example = markdown(one_line(finding.example.message, LINE_CHARACTERS_MAX))
    summary = f"<details><summary>The clearest example: {example}</summary>"
    return f"{head}{summary}\n\n<pre>\n{preformatted(story.text)}\n</pre>\n\n</details>\n\n"


def _recoveries(recoveries: list[RecoveryResult]) -> str:
    shown = worst_recoveries(recoveries, RECOVERIES_MAX)
    rows = []
    for row in shown:
        point, *others = recovery_cells(row)
        sign = "❌" if not row.kept else ("❔" if row.is_unread else "✅")
        rows.append((markdown(f"{row.kind} of {row.server}"), markdown(row.store), f"{sign} {point}", *others))
    left = f"The worst {len(rows)} of {len(recoveries)}.\n\n" if len(rows) < len(recoveries) else ""
    cells = table(("fault", "store", *RECOVERY_COLUMNS), rows, numbers=range(2, 9))
    return "### Recoveries\n\n" + left + cells + _bullets(replacement_lines(recoveries))


def _stayed(result: Result) -> str:
    lines = stayed_lines(result)
    return "### Clients that stayed with a replaced primary\n\n" + _bullets(lines) if lines else ""


def _sentence(kind: str) -> str:
    return Kind(kind).sentence if kind in _KINDS else ""


def _number(number: int) -> str:
    return f"{number:,}"


def _bullets(lines: Sequence[str]) -> str:
    return "".join(f"- {markdown(one_line(line, LINE_CHARACTERS_MAX))}\n" for line in lines) + ("\n" if lines else "")


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: Sequence[int] | None = None) -> str:
    """Return a table; columns of numbers, by default all but the first, are set right."""
    right = set(range(1, len(heads))) if numbers is None else set(numbers)
    marks = ["---:" if column in right else "---" for column in range(len(heads))]
    lines = [heads, marks, *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines) + "\n"
