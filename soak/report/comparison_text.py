"""A comparison of two runs for people: on a terminal, as Markdown, as a page of HTML."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from soak.duration import format_latency, format_seconds
from soak.report.comparison import BeforeAfter, ComparedRun, Comparison, FindingChange, FindingFate, ThresholdChange
from soak.report.html import template
from soak.report.markdown import table as markdown_table
from soak.report.text import clock, markdown, table_lines, visible
from soak.thresholds import format_value
from soak.verifier.result import ThresholdState

HEADS = ("", "first", "second", "ratio")
STATISTICS = ("p50", "p95", "p99", "max")
_VERDICT_SIGNS = {0: "✅", 1: "❌"}
_CHANGE_SIGNS = {FindingFate.NEW: "+ new", FindingFate.GONE: "- gone", FindingFate.SAME: "= same"}


class ComparisonRow(NamedTuple):
    """One quantity in both runs, and the second over the first."""

    name: str
    before: str
    after: str
    ratio: str


def as_text(comparison: Comparison) -> str:
    lines = [comparison.summary, *(f"  {line}" for line in run_lines(comparison))]
    lines += finding_lines(comparison)
    for store, rows in tables(comparison).items():
        lines += ["", visible(store), *table_lines(HEADS, rows)]
    return "\n".join(visible(line) for line in lines) + "\n"


def as_markdown(comparison: Comparison) -> str:
    text = f"## {_VERDICT_SIGNS.get(comparison.exit_code, '⚠️')} soak compare: {comparison.summary}\n\n"
    text += "".join(f"- {markdown(line)}\n" for line in (*run_lines(comparison), *finding_lines(comparison))) + "\n"
    for store, rows in tables(comparison).items():
        text += f"### {markdown(store)}\n\n" + markdown_table(HEADS, rows)
    return text


def as_html(comparison: Comparison) -> str:
    return template("compare.html.j2").render(
        comparison=comparison,
        heads=HEADS,
        lines=list(run_lines(comparison)),
        findings=list(finding_lines(comparison)),
        tables=tables(comparison),
    )


def run_lines(comparison: Comparison) -> Iterator[str]:
    """Say which runs these are, and what limits their comparison."""
    yield f"first:  {_run(comparison.before)}"
    yield f"second: {_run(comparison.after)}"
    yield from comparison.notes


def _run(head: ComparedRun) -> str:
    when = f"{format_seconds(head.seconds)} until {clock(head.ended_wall_seconds)}"
    return f"{head.verdict}, run {head.run}, {when}" + (f", soak {head.version}" if head.version else "")


def finding_lines(comparison: Comparison) -> Iterator[str]:
    """Say of each finding whether it is new, gone or the same."""
    for one in comparison.findings:
        yield f"{_CHANGE_SIGNS[one.change]}  {one.kind} on {one.store}, {one.cause}: {_counts(one)}"


def _counts(finding: FindingChange) -> str:
    before, after = (f"{count:,.0f}" for count in (finding.count.before or 0, finding.count.after or 0))
    shares = [f"{share:.2%}" for share in (finding.share.before, finding.share.after) if share is not None]
    return f"{before} → {after}" + (f" ({' → '.join(shares)})" if shares else "")


def tables(comparison: Comparison) -> dict[str, Sequence[ComparisonRow]]:
    """Return for each store what was measured in both runs."""
    return {one.store: list(_rows(comparison, one.store)) for one in comparison.stores}


def _rows(comparison: Comparison, store: str) -> Iterator[ComparisonRow]:
    for counted in (one for one in comparison.stores if one.store == store):
        yield _row("acknowledged", counted.acknowledged, _number)
        yield _row("violations", counted.violations, _number)
        yield _row("share lost", counted.lost_share, _share)
    for threshold in (one for one in comparison.thresholds if one.store in {store, ""}):
        yield _threshold(threshold)
    for latency in (one for one in comparison.latencies if one.store == store):
        for name in STATISTICS:
            title = f"{latency.operation} {name}{', in fault' if latency.in_fault else ''}"
            yield _row(title, getattr(latency, f"{name}_seconds"), format_latency)
    for recovery in (one for one in comparison.recoveries if one.store == store):
        yield _row(f"{recovery.fault}: faults", recovery.count, _number)
        yield _row(f"{recovery.fault}: reads back after", recovery.read_seconds, format_latency)
        yield _row(f"{recovery.fault}: writes back after", recovery.write_seconds, format_latency)


def _threshold(threshold: ThresholdChange) -> ComparisonRow:
    row = _row(f"threshold {threshold.name}", threshold.value, partial(format_value, threshold.name))
    return row._replace(before=_with_state(threshold.before, row.before), after=_with_state(threshold.after, row.after))


def _with_state(state: ThresholdState | None, value: str) -> str:
    return value if state is None else f"{state.value} {value.strip('-')}".rstrip()


def _row(name: str, pair: BeforeAfter, show: Callable[[float], str]) -> ComparisonRow:
    before, after = ("-" if value is None else show(value) for value in (pair.before, pair.after))
    return ComparisonRow(name, before, after, "" if pair.ratio is None else f"{pair.ratio:.3g}x")


def _number(number: float) -> str:
    return f"{int(number):,}"


def _share(share: float) -> str:
    return f"{share:.2%}"
