"""The cells as one page of HTML that needs nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from soak.report.text import plain
from soak.scenarios.analyses.judgement import TrialResult, TrialVerdict
from soak.scenarios.analyses.table import short, summary

_STYLE = """
:root { color-scheme: light dark; font: 14px/1.4 system-ui, sans-serif }
body { margin: 2rem }
.wide { overflow-x: auto }
table { border-collapse: collapse }
th, td { border: 1px solid #8886; padding: .3rem .6rem; text-align: left; vertical-align: top }
thead th { position: sticky; top: 0; background: Canvas }
td.finding { background: #d3222233; font-weight: 600 }
td.by-design { background: #d9a40033 }
td.pass { background: #2a9d4a22 }
td.not-applicable, td.inconclusive { color: GrayText }
small { display: block; font-weight: 400; color: GrayText }
code { font-size: .9em }
"""


def document(cells: Sequence[TrialResult], seconds: float) -> str:
    """Return the page."""
    trials = list(dict.fromkeys(cell.trial for cell in cells))
    subjects = list(dict.fromkeys(cell.subject for cell in cells))
    by_name = {(cell.subject, cell.trial): cell for cell in cells}
    heads = "".join(f"<th scope=col>{escape(trial)}</th>" for trial in trials)
    rows = []
    for subject in subjects:
        version = next(cell.version for cell in cells if cell.subject == subject)
        shown = "".join(_cell(by_name.get((subject, trial))) for trial in trials)
        rows.append(f"<tr><th scope=row>{escape(subject)}<small>{escape(version)}</small></th>{shown}</tr>")
    return (
        "<!doctype html>\n<html lang=en><head><meta charset=utf-8>"
        "<meta name=viewport content='width=device-width'><title>soak analysis</title>"
        f"<style>{_STYLE}</style></head>\n<body><h1>What memory libraries keep</h1>\n"
        f"<p>{escape(summary(cells, seconds))}</p>\n"
        f"<div class=wide><table><thead><tr><th scope=col>library</th>{heads}</tr></thead>\n"
        f"<tbody>{''.join(rows)}</tbody></table></div>\n{_details(cells)}</body></html>\n"
    )


def _cell(cell: TrialResult | None) -> str:
    if cell is None:
        return "<td></td>"
    kind = cell.verdict.value.replace(" ", "-")
    remark = cell.reason if cell.verdict is not TrialVerdict.FINDING else ""
    note = f"<small>{escape(plain(short(remark)))}</small>" if remark else ""
    return f"<td class={kind} title='{escape(cell.command)}'>{escape(cell.words)}{note}</td>"


def _details(cells: Sequence[TrialResult]) -> str:
    findings = [cell for cell in cells if cell.verdict is TrialVerdict.FINDING]
    if not findings:
        return ""
    rows = "".join(
        f"<tr><td>{escape(cell.subject)}</td><td>{escape(cell.trial)}</td><td>{escape(cell.words)}</td>"
        f"<td>{escape(plain(short(cell.example)))}</td><td><code>{escape(cell.command)}</code></td></tr>"
        for cell in findings
    )
    heads = "".join(f"<th scope=col>{head}</th>" for head in ("library", "trial", "found", "for example", "again with"))
    return f"<h2>Findings</h2><div class=wide><table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>"
