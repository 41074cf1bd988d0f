"""Two runs are compared by findings, shares, latencies, recoveries and thresholds; new findings decide."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from soak import cli
from soak.errors import ExitCode, UsageError
from soak.report import outcome as outcomes
from soak.report.comparison import Comparison, FindingFate, compare
from soak.report.comparison_text import as_html, as_markdown, as_text
from soak.report.outcome import RunOutcome
from soak.verifier.findings import FindingResult
from soak.verifier.result import KindCount, LatencyResult, ThresholdResult, ThresholdState
from tests.unit.test_report_formats import HOSTILE, report, result, story, violation


def finding(cause: str, count: int = 1, kind: str = "lost", store: str = "redis-list") -> FindingResult:
    return story(*(violation(seq, cause=cause, kind=kind, store=store) for seq in range(count))).finding


def latency(p99: float, *, store: str = "redis-list", in_fault: bool = False) -> LatencyResult:
    return LatencyResult(
        store=store,
        operation="append",
        in_fault=in_fault,
        count=100,
        errors=0,
        p50_seconds=p99 / 4,
        p95_seconds=p99 / 2,
        p99_seconds=p99,
        max_seconds=p99 * 2,
    )


def threshold(state: ThresholdState) -> ThresholdResult:
    return ThresholdResult(name="append_p99", store="redis-list", limit=0.05, value=0.06, state=state, line="")


def run(*findings: FindingResult, verdict: str | None = None, **values: Any) -> RunOutcome:
    count = sum(one.count for one in findings)
    found = result(violations=count, findings=list(findings), **values)
    return msgspec.structs.replace(report(found).outcome, verdict=verdict or found.verdict)


def changes(comparison: Comparison) -> list[tuple[FindingFate, str]]:
    return [(one.change, one.cause) for one in comparison.findings]


def test_findings_are_new_gone_or_the_same_by_store_kind_and_cause() -> None:
    found = compare(run(finding("retry", 2), finding("unknown")), run(finding("retry", 3), finding("client clock")))
    assert changes(found) == [
        (FindingFate.NEW, "client clock"),
        (FindingFate.GONE, "unknown"),
        (FindingFate.SAME, "retry"),
    ]
    assert (found.findings[2].count.before, found.findings[2].count.after, found.findings[2].count.ratio) == (2, 3, 1.5)
    assert (found.exit_code, found.summary) == (ExitCode.VIOLATION, "1 new finding")


@pytest.mark.parametrize(
    ("before", "after", "code"),
    [
        (run(), run(), 0),
        (run(finding("retry", 5)), run(finding("retry", 2)), 0),
        (run(finding("retry")), run(), 0),
        (run(), run(finding("retry")), 1),
        (run(), run(verdict="inconclusive"), 4),
        (run(), run(verdict="undecided"), 4),
        (run(verdict="inconclusive"), run(finding("retry"), verdict="inconclusive"), 1),
        (run(), run(thresholds=[threshold(ThresholdState.MISSED)], verdict="threshold"), 6),
        (run(thresholds=[threshold(ThresholdState.MISSED)]), run(thresholds=[threshold(ThresholdState.MISSED)]), 0),
    ],
)
def test_the_exit_code_is_0_only_for_a_run_that_is_the_same_or_better(
    before: RunOutcome, after: RunOutcome, code: int
) -> None:
    assert compare(before, after).exit_code == code


def test_violations_that_no_finding_lists_are_compared_by_their_kind() -> None:
    older = run(violations_by=[KindCount(store="redis-list", kind="stale", count=4)])
    assert changes(compare(run(), older)) == [(FindingFate.NEW, "unknown")]


def test_latencies_and_recoveries_stand_side_by_side_with_their_ratio() -> None:
    found = compare(run(latencies=[latency(0.02)]), run(latencies=[latency(0.03), latency(1.0, in_fault=True)]))
    first, second = found.latencies
    assert (first.p99_seconds.before, first.p99_seconds.after, first.p99_seconds.ratio) == (0.02, 0.03, 1.5)
    assert (second.in_fault, second.p99_seconds.before, second.p99_seconds.ratio) == (True, None, None)
    assert found.recoveries[0].read_seconds.ratio == 1.0
    assert re.search(r"^append p99 +20ms +30ms +1\.5x$", as_text(found), re.MULTILINE)


def test_the_share_lost_is_that_of_acknowledged_messages() -> None:
    kinds = [
        KindCount(store="redis-list", kind="lost", count=432),
        KindCount(store="redis-list", kind="stale", count=9),
    ]
    found = compare(run(), run(violations_by=kinds))
    assert found.stores[0].lost_share.after == pytest.approx(432 / 4321)


def test_only_stores_that_both_runs_have_are_compared_and_that_is_said() -> None:
    (own,) = result(store="postgres", violations=1).by_store
    both = run(violations_by=[KindCount(store="postgres", kind="lost", count=1)])
    assert both.result is not None
    both = msgspec.structs.replace(
        both, result=msgspec.structs.replace(both.result, by_store=[*both.result.by_store, own])
    )
    found = compare(run(), both)
    assert (found.exit_code, [one.store for one in found.stores]) == (ExitCode.PASS, ["redis-list"])
    assert "only the second run has postgres, with 1 violations: left out" in found.notes
    with pytest.raises(UsageError, match="no store in common: the first has redis-list, the second postgres"):
        compare(run(), run(store="postgres"))


def test_runs_of_different_versions_are_compared_and_that_is_said() -> None:
    after = run()
    assert after.setup is not None
    after = msgspec.structs.replace(after, setup=msgspec.structs.replace(after.setup, version="10.0.0"))
    assert compare(run(), after).notes == ["the runs are of different versions of soak: 9.9.9 and 10.0.0"]


def test_hostile_words_stay_words() -> None:
    words = HOSTILE.replace("\ud800", "")  # no result can hold it
    found = compare(run(store=words), run(finding(words, store=words), store=words))
    assert "<script" not in as_html(found)
    assert "<script" not in as_markdown(found)
    assert "\x1b" not in as_text(found)


def test_the_terminal_needs_80_columns_also_for_the_name_of_a_class() -> None:
    store = "my_company.assistants.memory:ConversationMemory"
    runs = [run(store=store, latencies=[latency(p99, store=store, in_fault=True)]) for p99 in (0.0234, 1.234)]
    assert max(map(len, as_text(compare(*runs)).splitlines())) <= 80


def written(path: Path, outcome: RunOutcome) -> str:
    path.write_bytes(msgspec.json.encode(outcome))
    return str(path)


def test_the_command_reads_folders_and_files_and_writes_every_format(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    outcomes.write(folder, run())
    reports = tmp_path / "reports"
    reports.mkdir()
    written(reports / "report.json", run(finding("retry")))
    html, markdown = tmp_path / "c.html", tmp_path / "c.md"
    words = [str(folder / "result.json"), str(reports), "--json", "--html", str(html), "--markdown", str(markdown)]
    assert cli.main(["compare", *words]) == ExitCode.VIOLATION
    assert json.loads(capsys.readouterr().out)["findings"][0]["change"] == "new"
    assert "1 new finding" in html.read_text()
    assert markdown.read_text().startswith("## ❌ soak compare: 1 new finding\n")
    assert cli.main(["compare", str(folder), str(folder)]) == ExitCode.PASS
    assert capsys.readouterr().out.startswith("no new findings\n")


def test_what_cannot_be_compared_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = written(tmp_path / "good.json", run())
    newer = written(tmp_path / "newer.json", msgspec.structs.replace(run(), schema=99))
    (tmp_path / "odd.json").write_text("{}")
    empty = written(tmp_path / "empty.json", report(None).outcome)
    for other, line in {
        newer: "was written by a newer soak (schema 99, this one reads up to 2); read it with that one",
        str(tmp_path / "odd.json"): "is no result of a soak; name a data folder, its result.json or a report.json",
        str(tmp_path / "none"): "is neither a folder nor a run in .soak; 'soak runs' lists the runs of a folder",
        str(tmp_path / "none.json"): f"there is no file {tmp_path / 'none.json'}",
        str(tmp_path): f"there is no run on record in {tmp_path}; name the data folder of one, .soak or",
        empty: "run r1 measured nothing: left before it began",
    }.items():
        assert cli.main(["compare", good, other]) == ExitCode.USAGE
        said = capsys.readouterr().err
        assert line in said
        assert said.count("\n") == 1


def test_a_result_of_an_older_soak_whose_seed_is_a_number_is_still_read(tmp_path: Path) -> None:
    document = json.loads(msgspec.json.encode(run()))
    document["schema"], document["setup"]["seed"], document["result"]["seed"] = 1, 2**62 + 1, 2**62 + 1
    (tmp_path / "result.json").write_text(json.dumps(document))
    found = outcomes.read(tmp_path)
    assert found is not None
    assert found.setup is not None
    assert found.setup.seed == str(2**62 + 1)
    assert compare(found, run()).before.seed == str(2**62 + 1)
