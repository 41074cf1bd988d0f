"""A report says the same in every format, whatever the words it has to repeat."""

from __future__ import annotations

import html
import io
import json
import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import jsonschema
import msgspec
import pytest
from rich.console import Console

from soak import cli
from soak.checker.faults import Replaced
from soak.checker.kinds import Kind
from soak.errors import ExitCode
from soak.report import markdown, outcome, run_report, schema
from soak.report.chart import Band, ChartLine, Frame, Mark, draw, nice_step
from soak.report.formats import FORMATS
from soak.report.headline import headline_of
from soak.report.outcome import RunOutcome, RunSetup, Setting
from soak.report.run_report import FindingStory, Report, gather
from soak.report.series import Point, series_of
from soak.report.summary import print_summary, totals_lines
from soak.report.text import markdown as escaped
from soak.store_errors import ErrorNature
from soak.verifier import result as results
from soak.verifier.account import stayed_clients
from soak.verifier.findings import Example, FindingResult, ViolationGroups
from soak.verifier.journal import Violation, encode_lines, violation_id
from soak.verifier.result import (
    CanaryResult,
    FaultResult,
    KindCount,
    LatencyResult,
    RecoveryResult,
    Result,
    StoreErrorResult,
    StoreResult,
    ThresholdResult,
    ThresholdState,
    Totals,
)

if TYPE_CHECKING:
    from pathlib import Path

HOSTILE = (
    "</pre></details><script>alert(1)</script> | `x` ]]> **b** [l](http://e.example) @all #1 &amp; \x00\x08\x1b[2J"
    " \u202egnp.exe \ud800 'q\" <!-- \n## h\r\n| a | b |\n\ufffe"
)


def violation(
    seq: int, *, store: str = "redis-list", kind: str = "lost", text: str = "it is gone", cause: str = "unknown"
) -> Violation:
    return Violation(
        id=violation_id("r1", store.encode("ascii", "backslashreplace").decode(), "s1", kind, f"s1/0/{seq}"),
        run="r1",
        kind=kind,
        store=store,
        session="s1",
        message=f"s1/0/{seq}",
        writer=0,
        seq=seq,
        detail=text,
        at_wall_seconds=1_800_000_000.0 + seq,
        cause=cause,
    )


def result(*, violations: int = 0, finished: bool = True, store: str = "redis-list", **values: Any) -> Result:
    verdict = "violation" if violations else "pass" if finished else "undecided"
    return msgspec.structs.replace(
        Result(
            run="r1",
            finished=finished,
            verdict=verdict,
            reasons=[f"{violations} violations of the contract"] if violations else [],
            started_wall_seconds=1_800_000_000.0,
            ended_wall_seconds=1_800_000_090.0,
            totals=Totals(
                attempts={"ok": 4321, "failed": 5, "unknown": 6},
                acknowledged=4321,
                verified=3987,
                released=334 - violations,
                violations=violations,
                tolerated=7,
                unverifiable=0,
                indeterminate=6,
                reads=1000,
                messages_read=9000,
                sessions=44,
            ),
            violations_by=[KindCount(store=store, kind="lost", count=violations)] if violations else [],
            by_store=[
                StoreResult(
                    store=store,
                    acknowledged=4321,
                    verified=3987,
                    released=334 - violations,
                    violations=violations,
                    tolerated=7,
                )
            ],
            oldest_unverified_seconds=0.0,
            evidence=[],
            canaries=[CanaryResult(store=store, detected=2, missed=0, early=0, last_detected_wall_seconds=1.0)],
            contracts={store: "derived from redis"},
            promises={store: {"durability": "nothing lost"}},
            servers={store: ["redis"]},
            configurations={"redis": {"appendonly": "yes"}},
            faults=[
                FaultResult(
                    fault="f1",
                    kind="crash",
                    server="redis",
                    planned=True,
                    at_wall_seconds=1_800_000_030.0,
                    ended_wall_seconds=1_800_000_034.0,
                )
            ],
            recoveries=[
                RecoveryResult(
                    fault="f1",
                    kind="crash",
                    server="redis",
                    store=store,
                    planned=True,
                    at_wall_seconds=1_800_000_030.0,
                    promised_seconds=2.0,
                    point_seconds=1.5,
                    is_at_least=False,
                    tolerated=7,
                    lost=0,
                    kept=True,
                    read_seconds=4.25,
                )
            ],
        ),
        **values,
    )


def report(
    found: Result | None, *, state: str = "finished", findings: list[FindingStory] | None = None, **values: Any
) -> Report:
    told = RunOutcome(
        run="r1",
        verdict=found.verdict if found is not None else "inconclusive",
        exit_code=0,
        reasons=found.reasons if found is not None else ["left before it began"],
        data_dir="/data",
        finished=found is not None and found.finished,
        result=found,
        setup=RunSetup(
            version="9.9.9",
            python="3.11",
            platform="Linux",
            seed="77",
            namespace="soak_r1",
            stores=["redis-list"],
            settings=[Setting(key="load.users", value="5", origin="--users")],
            reproduce="soak run --seed 77",
        ),
    )
    points = [
        Point(
            at_wall_seconds=1_800_000_000.0 + second,
            acknowledged_rate=10.0 + second % 7,
            read_rate=5.0,
            error_rate=0.0,
            append_p50_seconds=0.001,
            append_p99_seconds=0.02,
            read_p50_seconds=None,
            read_p99_seconds=None,
            verified_rate=9.0,
            violations=0,
            unverified_seconds=0.5,
        )
        for second in (*range(20), *range(60, 90))
    ]
    return Report(
        outcome=msgspec.structs.replace(told, **values),
        state=state,
        findings=findings or [],
        series={one.store: series_of(points) for one in found.by_store} if found is not None else {},
        written_wall_seconds=1_800_000_100.0,
    )


def story(*members: Violation, text: str = "the story", acknowledged: int = 4321) -> FindingStory:
    """Return violations of one bug as a report tells them."""
    groups = ViolationGroups.of((one, True) for one in members)
    (finding,) = groups.listed({members[0].store: acknowledged})
    return FindingStory(finding=finding, text=text)


def hostile_story(cause: str) -> FindingStory:
    example = Example(
        id="0" * 12,
        session=HOSTILE,
        message=HOSTILE,
        detail=HOSTILE,
        at_wall_seconds=1_800_000_000.0,
        rank=0,
        has_evidence=True,
    )
    finding = FindingResult(
        id="1" * 12,
        run="r1",
        store=HOSTILE,
        kind="lost",
        cause=cause,
        headline=HOSTILE,
        count=3,
        acknowledged=4321,
        share=0.001,
        open=3,
        healed=0,
        sessions=1,
        sessions_at_least=False,
        first_wall_seconds=1_800_000_000.0,
        last_wall_seconds=1_800_000_001.0,
        example=example,
    )
    return FindingStory(finding=finding, text=f"{HOSTILE}\n{HOSTILE}")


def latencies(store: str = "redis-list") -> list[LatencyResult]:
    return [
        LatencyResult(
            store=store,
            operation="append",
            in_fault=in_fault,
            count=1234,
            errors=56,
            p50_seconds=0.000123,
            p95_seconds=0.0456,
            p99_seconds=7.89,
            max_seconds=125.0,
        )
        for in_fault in (False, True)
    ]


THRESHOLDS = [
    ThresholdResult(name=name, store=HOSTILE, limit=1.0, value=value, state=state, line=f"{state.value} {HOSTILE}")
    for name, state, value in (
        ("append_p50", ThresholdState.MET, 0.5),
        ("append_p95", ThresholdState.MISSED, 2.0),
        ("append_p99", ThresholdState.NO_SAMPLES, None),
    )
]


def hostile() -> Report:
    found = result(
        violations=3,
        store=HOSTILE,
        reasons=[HOSTILE],
        notes=[HOSTILE],
        configurations={HOSTILE: {HOSTILE: HOSTILE}},
        promises={HOSTILE: {HOSTILE: HOSTILE}},
    )
    errors = [
        StoreErrorResult(
            store=HOSTILE,
            operation="append",
            type="TypeError",
            text=HOSTILE,
            place=HOSTILE,
            nature=ErrorNature.DEFECT,
            count=1,
            first_wall_seconds=1.0,
            last_wall_seconds=1.0,
            line=HOSTILE,
        )
    ]
    found = msgspec.structs.replace(found, store_errors=errors, latencies=latencies(HOSTILE), thresholds=THRESHOLDS)
    return report(found, findings=[hostile_story("retry"), hostile_story(HOSTILE)], notes=[HOSTILE])


class Elements(HTMLParser):
    """Every element of a page, and what stands in it."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in {"meta", "br", "line", "circle", "polyline", "polygon"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data + " "


def page(text: str) -> Elements:
    elements = Elements()
    elements.feed(text)
    elements.close()
    assert not elements.open
    return elements


# -- hostile words --


def test_hostile_words_stay_words_in_html() -> None:
    text = FORMATS["html"](hostile())
    found = page(text)
    assert set(found.tags).isdisjoint({"script", "a", "img", "iframe", "link"})
    assert not any(name.startswith("on") or name in {"href", "src"} for name, _ in found.attributes)
    assert "<script>alert(1)</script>" in found.text, "it is there to be read"
    assert text.encode()


@pytest.mark.parametrize("name", list(FORMATS))
def test_nothing_that_cannot_be_seen_or_moves_a_cursor_is_in_any_format(name: str) -> None:
    text = FORMATS[name](hostile()) if name != "json" else ""
    assert not [char for char in text if not char.isprintable() and char != "\n"]


def test_hostile_words_stay_words_in_junit() -> None:
    root = ET.fromstring(FORMATS["junit"](hostile()))  # noqa: S314  our own
    failure = root.find("testsuite/testcase/failure")
    assert failure is not None
    assert failure.text is not None
    assert "</pre></details><script>alert(1)</script>" in failure.text
    assert "\\x00\\x08\\x1b[2J" in failure.text
    assert check_junit(FORMATS["junit"](hostile()))


def test_hostile_words_stay_words_in_markdown() -> None:
    text = FORMATS["markdown"](hostile())
    assert "<script" not in text
    assert text.count("<details>") == text.count("</details>") == 2
    assert text.count("<pre>") == text.count("</pre>") == 5
    outside = re.sub(r"<pre>.*?</pre>", "", text, flags=re.DOTALL)
    rows = [line for line in outside.splitlines() if line.startswith("|")]
    assert {row.count("|") for row in rows} <= {7, 5, 9, 10}, "no cell has become two"
    assert not any(line.startswith("## h") for line in outside.splitlines())
    assert "http://" not in outside
    assert "@all" not in outside


def test_hostile_words_survive_json() -> None:
    clean = msgspec.structs.replace(hostile().outcome, reasons=[HOSTILE.replace("\ud800", "")])
    encoded = json.loads(msgspec.json.encode(msgspec.structs.replace(clean, result=None, notes=[])))
    assert encoded["reasons"] == [HOSTILE.replace("\ud800", "")]


def test_markdown_of_plain_words_reads_as_they_do() -> None:
    assert escaped("redis-list") == "<code>redis-list</code>"
    assert html.unescape(escaped(r"a|b`c*d_e[f]<g>&h\i@j #k :l: &#65; &#x27;")) == (
        r"<code>a|b`c*d_e[f]<g>&h\i@j #k :l: &#65; &#x27;</code>"
    )


# -- the same in all formats --


def numbers_in(text: str) -> set[int]:
    return {int(number.replace(",", "")) for number in re.findall(r"\b\d[\d,]*\b", text)}


def test_all_formats_tell_the_same_numbers() -> None:
    made = report(result(violations=160), findings=[story(*(violation(seq) for seq in range(160)))])
    told = {name: render(made) for name, render in FORMATS.items()}
    assert json.loads(told["json"])["result"]["totals"]["acknowledged"] == 4321
    for name, text in told.items():
        assert {4321, 3987, 174, 160, 7} <= numbers_in(page(text).text if name == "html" else text), name
        assert "violation" in text


def test_every_format_says_what_the_page_says_first() -> None:
    bug = story(*(violation(seq, cause="concurrent overwrite") for seq in range(161)), acknowledged=4142)
    made = report(result(violations=161, findings=[bug.finding]), findings=[bug])
    headline = "Memory forgets: 161 of 4,142 messages (3.9 %) lost on redis-list, probably a concurrent overwrite"
    printed = io.StringIO()
    print_summary(made.outcome, Console(file=printed, width=120))
    told = {
        "page": headline_of(made.outcome.result.findings, 161) if made.outcome.result else "",
        "text": printed.getvalue(),
        "html": page(FORMATS["html"](made)).text,
        "markdown": FORMATS["markdown"](made).replace("&#58;", ":"),
        "junit": FORMATS["junit"](made),
    }
    for name, text in told.items():
        assert text.count(headline) == 1, name
        assert "161 violations of the contract" not in text, name


@pytest.mark.parametrize(
    ("verdict", "headline"),
    [
        ("pass", "Pass: no violation found"),
        ("threshold", "Threshold missed, contract kept"),
        ("inconclusive", "Inconclusive: too little was shown for a pass"),
    ],
)
def test_a_run_without_violations_has_a_headline_of_its_own(verdict: str, headline: str) -> None:
    made = report(result(verdict=verdict))
    assert made.headline == headline
    assert headline in page(FORMATS["html"](made)).text


@pytest.mark.parametrize("name", list(FORMATS))
def test_a_run_of_which_nothing_is_known_can_be_reported(name: str) -> None:
    text = FORMATS[name](report(None))
    assert "left before it began" in text


@pytest.mark.parametrize("state", ["running", "cut off"])
def test_a_run_that_has_not_ended_is_never_shown_as_a_pass(state: str) -> None:
    made = report(result(finished=False), state=state)
    for name, render in FORMATS.items():
        text = render(made)
        assert "undecided" in text, name
        assert not re.search(r"[>:\"] ?pass\b", text), name
    assert check_junit(FORMATS["junit"](made)).get("errors") == "1"


# -- JUnit --


def check_junit(text: str) -> ET.Element:
    """Check what the usual schema of JUnit files asks for, and return the root."""
    root = ET.fromstring(text)  # noqa: S314  our own
    assert root.tag == "testsuites"
    order = ["properties", "testcase", "system-out", "system-err"]
    for suite in root:
        assert suite.tag == "testsuite"
        assert {"name", "tests", "failures", "errors", "skipped", "time", "timestamp", "hostname"} <= set(suite.attrib)
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", suite.attrib["timestamp"])
        float(suite.attrib["time"])
        tags = [order.index(child.tag) for child in suite]
        assert tags == sorted(tags)
        assert suite.attrib["tests"] == str(len(suite.findall("testcase")))
        assert suite.attrib["failures"] == str(len(suite.findall("testcase/failure")))
        assert suite.attrib["errors"] == str(len(suite.findall("testcase/error")))
        names = [(case.attrib["classname"], case.attrib["name"]) for case in suite.findall("testcase")]
        assert len(names) == len(set(names))
        for case in suite.findall("testcase"):
            assert all(child.tag in {"failure", "error", "skipped"} for child in case)
            assert all({"message", "type"} <= set(child.attrib) for child in case)
    for count in ("tests", "failures", "errors"):
        assert root.attrib[count] == str(sum(int(suite.attrib[count]) for suite in root))
    return root


def test_junit_has_a_case_for_each_kind_on_each_store_and_one_failure_for_each_finding() -> None:
    many = story(*(violation(seq) for seq in range(150)), text="a story of its own")
    few = story(*(violation(seq, cause="concurrent overwrite") for seq in range(150, 160)))
    root = check_junit(FORMATS["junit"](report(result(violations=160), findings=[many, few])))
    cases = root.findall("testsuite[@name='redis-list']/testcase")
    assert [case.get("name") for case in cases if "(" not in str(case.get("name"))] == [kind.value for kind in Kind]
    failing = {str(case.get("name")): case.find("failure") for case in cases if case.find("failure") is not None}
    assert list(failing) == ["lost", "lost (concurrent overwrite)"]
    failure = failing["lost"]
    assert failure is not None
    assert failure.attrib["message"].startswith("150 of 4,321 messages (3.5 %) lost on redis-list in 1 session")
    assert "a story of its own" in (failure.text or "")
    assert root.find(".//property[@name='seed']").attrib["value"] == "77"  # type: ignore[union-attr]
    assert root.attrib["errors"] == "0"


def test_junit_of_a_result_without_findings_still_fails() -> None:
    root = check_junit(FORMATS["junit"](report(result(violations=160))))
    assert root.find(".//failure").attrib["message"].startswith("160 times lost")  # type: ignore[union-attr]


def test_junit_of_a_pass_is_green_and_of_an_inconclusive_run_is_not() -> None:
    green = check_junit(FORMATS["junit"](report(result())))
    assert (green.attrib["failures"], green.attrib["errors"]) == ("0", "0")
    doubtful = check_junit(FORMATS["junit"](report(result(verdict="inconclusive", reasons=["too few"]))))
    assert (doubtful.attrib["failures"], doubtful.attrib["errors"]) == ("0", "1")
    assert doubtful.find(".//error").attrib["message"] == "too few"  # type: ignore[union-attr]


# -- bounds --


def test_markdown_stays_within_what_github_takes() -> None:
    findings = [story(violation(seq, cause=f"cause {seq}"), text="x" * 100_000) for seq in range(40)]
    text = markdown.render(report(result(violations=40), findings=findings))
    assert len(text.encode()) < 1024 * 1024
    assert text.count("<details>") == text.count("</details>") > 3
    assert "There is more than fits here" in text


def test_many_losses_of_one_bug_are_told_once_in_every_format() -> None:
    """The longest story that is kept, and still a summary that people read."""
    bug = story(*(violation(seq) for seq in range(161)), text="x" * run_report.STORY_CHARACTERS_MAX, acknowledged=4142)
    made = report(result(violations=161), findings=[bug])
    for name in ("junit", "markdown", "html"):
        text = FORMATS[name](made)
        assert text.count("161 of 4,142 messages (3.9 %) lost on redis-list in 1 session, cause unknown") >= 1, name
        assert text.count("x" * run_report.STORY_CHARACTERS_MAX) == 1, name
    assert len(FORMATS["markdown"](made).encode()) < 12_000


@pytest.mark.parametrize("found", [None, result()])
def test_faults_of_the_schedule_that_did_not_fit_are_in_every_format(found: Result | None) -> None:
    made = report(found, faults_scheduled=20, faults_skipped=12)
    printed = io.StringIO()
    print_summary(made.outcome, Console(file=printed, width=120))
    forms = ("html", "markdown", "junit") if found is not None else ("html", "junit")
    for text in (printed.getvalue() if found is not None else "12 of 20", *(FORMATS[name](made) for name in forms)):
        assert "12 of 20" in text
    assert "scheduled faults" not in FORMATS["markdown"](report(found, faults_scheduled=20))


def test_latencies_are_in_every_format_and_fit_a_terminal() -> None:
    store = "my_company.assistants.memory:ConversationMemoryWithAnUnusuallyLongName"
    made = report(result(store=store, latencies=latencies(store)))
    page = io.StringIO()
    print_summary(made.outcome, Console(file=page, width=80))
    shown = [line.split() for line in page.getvalue().splitlines()]
    numbers = ["1,234", "56", "123µs", "45.6ms", "7.89s", "2m5s"]
    assert ["append", *numbers] in shown
    assert ["append,", "in", "fault", *numbers] in shown
    rows = [line for line in page.getvalue().splitlines() if "2m5s" in line or "latency of" in line]
    assert max(map(len, rows)) <= 80
    assert "latency of ConversationMemoryWithAnUnusuallyLongName" in page.getvalue()
    assert f"| append, in fault | {' | '.join(numbers)} |" in FORMATS["markdown"](made)
    cells = "".join(f'<td class="n">{number}</td>' for number in numbers)
    assert f"<td>append, in fault</td>{cells}" in FORMATS["html"](made)


def test_what_faults_took_is_named_in_full_on_80_columns() -> None:
    (crash,) = result().recoveries
    rows = [
        msgspec.structs.replace(crash, kind=kind, store=store, fault=f"{kind}-{store}")
        for kind in ("crash", "restart_from_aof")
        for store in ("redis-list", "my_company.memory:ConversationMemory")
    ]
    page = io.StringIO()
    print_summary(report(result(recoveries=rows)).outcome, Console(file=page, width=80))
    lines = page.getvalue().splitlines()
    assert max(len(line) for line in lines if "of redis" in line or "recovery of" in line) <= 80
    for title in ("recovery of redis-list", "recovery of ConversationMemory"):
        own = [line.strip() for line in lines[[line.strip() for line in lines].index(title) + 4 :]]
        assert own[0].startswith("crash of redis ")
        assert own[1].startswith("restart_from_aof of ")
    assert "…" not in page.getvalue()


def own_store(store: str, *, acknowledged: int, verified: int, lost: int) -> Result:
    row = StoreResult(
        store=store, acknowledged=acknowledged, verified=verified, released=0, violations=lost, tolerated=0
    )
    return result(
        violations=lost, store=store, by_store=[row], violations_by=[KindCount(store=store, kind="lost", count=lost)]
    )


def test_a_memory_that_only_its_own_process_sees_is_named_as_the_likely_reason() -> None:
    made = report(own_store("mine:InMemory", acknowledged=642, verified=0, lost=642))
    printed = io.StringIO()
    print_summary(made.outcome, Console(file=printed, width=120))
    told = "a Python dict is not a memory that both can see"
    for text in (printed.getvalue(), FORMATS["html"](made), FORMATS["markdown"](made), FORMATS["junit"](made)):
        assert text.count(told) >= 1


def test_a_history_that_returns_no_messages_is_told_what_to_return() -> None:
    found = own_store("mine:Rows", acknowledged=642, verified=0, lost=600)
    kinds = [*found.violations_by, KindCount(store="mine:Rows", kind="undecodable", count=42)]
    made = report(msgspec.structs.replace(found, violations_by=kinds))
    printed = io.StringIO()
    print_summary(made.outcome, Console(file=printed, width=120))
    told = "'history' has to return a list of soak.stores.Message"
    for text in (printed.getvalue(), FORMATS["html"](made), FORMATS["markdown"](made), FORMATS["junit"](made)):
        assert html.unescape(text).count(told) >= 1
        assert "Python dict" not in text


@pytest.mark.parametrize(
    ("store", "numbers"),
    [
        ("mine:InMemory", {"acknowledged": 642, "verified": 1, "lost": 641}),
        ("mine:InMemory", {"acknowledged": 642, "verified": 0, "lost": 600}),
        ("mine:InMemory", {"acknowledged": 0, "verified": 0, "lost": 0}),
        ("redis-list", {"acknowledged": 642, "verified": 0, "lost": 642}),
    ],
    ids=["one was seen", "some may be unread", "nothing was acknowledged", "it has a server"],
)
def test_no_such_reason_is_given_where_it_cannot_be_it(store: str, numbers: dict[str, int]) -> None:
    printed = io.StringIO()
    print_summary(report(own_store(store, **numbers)).outcome, Console(file=printed, width=120))
    assert "Python dict" not in printed.getvalue()


def test_each_threshold_is_a_case_of_junit_and_a_line_elsewhere() -> None:
    rows = [msgspec.structs.replace(one, store="redis-list", line=f"line {at}") for at, one in enumerate(THRESHOLDS)]
    made = report(result(thresholds=rows, verdict="threshold", reasons=["threshold missed: line 1"]))
    (suite,) = [one for one in ET.fromstring(FORMATS["junit"](made)) if one.get("name") == "soak"]  # noqa: S314
    cases = [case for case in suite.iter("testcase") if case.get("classname") == "soak.thresholds"]
    assert [[child.tag for child in case] for case in cases] == [[], ["failure"], ["error"]]
    assert [case.get("name") for case in cases] == [f"redis-list append_{name}" for name in ("p50", "p95", "p99")]
    assert (suite.get("failures"), suite.get("errors")) == ("1", "1"), "the run itself was conclusive"
    page = io.StringIO()
    print_summary(made.outcome, Console(file=page, width=80))
    for name, text in {"text": page.getvalue(), **{name: FORMATS[name](made) for name in ("markdown", "html")}}.items():
        plain = re.sub(r"<[^>]*>", "", text)
        for state, line in (("met", "line 0"), ("missed", "line 1"), ("no samples", "line 2")):
            assert re.search(rf"{state}\W+(threshold )?{line}", plain), name


def test_a_class_that_cannot_work_is_one_reason_and_not_also_what_follows_from_it() -> None:
    (error,) = hostile().result.store_errors  # type: ignore[union-attr]
    line = "mine: append raised TypeError: no (mine.py:4)"
    follows = ["only 0 messages were verified, at least 1 are needed", "nothing was verified on mine"]
    found = result(
        verdict="inconclusive",
        reasons=follows,
        store_errors=[msgspec.structs.replace(error, store="mine", text="no", place="", line=line, count=17)],
    )
    made = report(found, reasons=[line, *follows], exit_code=2)
    page = io.StringIO()
    print_summary(made.outcome, Console(file=page, width=120))
    texts = {"text": page.getvalue(), **{name: html.unescape(FORMATS[name](made)) for name in ("markdown", "html")}}
    for name, text in texts.items():
        assert text.count("append raised TypeError") == 1, name
        assert "nothing was verified" not in text, name
    assert follows[1] in FORMATS["json"](made), "nothing is kept from machines"


@pytest.mark.parametrize(
    ("verified", "released", "line"),
    [
        (4321, 0, None),
        (4320, 1, "1 never verified (0.02%): forgotten or expired before it was read"),
        (4311, 10, "10 never verified (0.23%): forgotten or expired before they were read"),
        (4311, 4, "10 never verified (0.23%): 4 of them forgotten or expired before they were read"),
        (4311, 0, "10 never verified (0.23%)"),
    ],
)
def test_what_was_never_verified_is_told_only_where_there_is_some(
    verified: int, released: int, line: str | None
) -> None:
    found = result()
    never = 4321 - verified
    totals = msgspec.structs.replace(
        found.totals, released=released, never_verified=never, never_verified_share=never / 4321
    )
    lines = totals_lines(totals)
    assert [one for one in lines if "never verified" in one] == ([] if line is None else [line])
    assert lines[-1].endswith("0 unverifiable, 6 unknown writes never seen")


def test_an_exception_of_a_store_is_in_every_format() -> None:
    (error,) = hostile().result.store_errors  # type: ignore[union-attr]
    told = msgspec.structs.replace(error, store="mine", line="mine: append raised TypeError: no (mine.py:4)", count=17)
    away = msgspec.structs.replace(told, line="mine: append raised OSError: away", nature=ErrorNature.UNAVAILABLE)
    made = report(result(store_errors=[told, away]))
    for name in ("junit", "markdown", "html"):
        text = html.unescape(FORMATS[name](made))
        assert "mine: append raised TypeError: no (mine.py:4), 17x" in text, name
        assert "away" not in text, f"{name}: a server that was away is no news in a run that passed"
    doubtful = report(result(verdict="inconclusive", store_errors=[told, away]))
    assert "mine: append raised OSError: away" in html.unescape(FORMATS["markdown"](doubtful))


def test_clients_that_stayed_with_a_replaced_primary_are_in_every_format_and_are_no_violation(
    capsys: pytest.CaptureFixture[str],
) -> None:
    (recovery,) = result().recoveries
    replaced = Replaced(
        before="redis-1", after="redis-2", seconds=1.1, stayed=3, stayed_seconds=9.6, clients=["127.0.0.1:4711 9.6s"]
    )
    failover = msgspec.structs.replace(recovery, kind="sentinel_failover", replaced=replaced)
    other_store = msgspec.structs.replace(failover, store="redis-stream", tolerated=5, unacknowledged=2)
    nobody = msgspec.structs.replace(failover, fault="f2", replaced=msgspec.structs.replace(replaced, stayed=0))
    alone = msgspec.structs.replace(recovery, fault="f3")
    stayed = stayed_clients([failover, other_store, alone, nobody])
    (found,) = stayed
    assert (found.connections, found.seconds_max, found.gone, found.primary) == (3, 9.6, 10, "redis-1")
    made = report(result(recoveries=[failover, other_store], stayed_clients=stayed))
    for name in ("junit", "markdown"):
        assert "3 client connections stayed with the old one for up to 9.6 s" in FORMATS[name](made), name
    shown = FORMATS["html"](made)
    assert "Clients that stayed with a replaced primary" in shown
    assert "127.0.0.1:4711 9.6s" in shown
    print_summary(made.outcome, Console(width=200))
    assert "sentinel_failover of redis: 3 client connections stayed" in capsys.readouterr().out
    check_junit(FORMATS["junit"](made))
    assert made.outcome.verdict == "pass"


# -- charts --


def test_a_chart_says_in_words_what_it_shows_and_draws_nothing_across_a_gap() -> None:
    line = ChartLine("appends", "a", [[(0.0, 1.0), (1.0, 2.0)], [(8.0, 3.0), (9.0, 40.0)]])
    svg = str(
        draw(Frame("per second", 0, 10, lambda value: f"{value:g}/s"), [line], [Band(2, 4, "crash")], [Mark(5, "m")])
    )
    root = ET.fromstring(svg)  # noqa: S314  our own
    assert len(root.findall("polyline")) == 2
    assert len(root.findall("rect")) == 1
    assert root.attrib["role"] == "img"
    assert "appends: mostly 3/s, at most 40/s; 1 faults" in root.attrib["aria-label"]
    assert [text.text for text in root.findall("text[@class='up']")] == ["0/s", "10/s", "20/s", "30/s", "40/s"]


@pytest.mark.parametrize("value", [0.0, 1e-9, 1e9])
@pytest.mark.parametrize("is_log", [False, True])
def test_a_chart_of_extremes_stays_within_its_frame(value: float, is_log: bool) -> None:
    line = ChartLine("a", "a", [[(0.0, value), (1e9, value)]])
    svg = str(draw(Frame("t", 0.0, 1e9, str, is_log), [line], [Band(-5, 2e9, "f")], [Mark(5e9, "m")]))
    dots = re.findall(r'polyline class="a" points="([^"]+)"', svg)[0]
    assert all(0 <= float(x) <= 960 and 0 <= float(y) <= 230 for x, y in (dot.split(",") for dot in dots.split()))


@pytest.mark.parametrize(("rough", "step"), [(0, 1), (0.3, 0.5), (1, 1), (1.1, 2), (6, 10), (2200, 5000)])
def test_steps_of_an_axis_are_round(rough: float, step: float) -> None:
    assert nice_step(rough) == pytest.approx(step)


# -- on disk --


def test_the_schema_that_is_committed_is_the_one_of_this_version() -> None:
    for path, (title, kind) in schema.DOCUMENTS.items():
        assert path.read_bytes() == schema.encode_schema(title, kind), "python -m soak.report.schema writes it anew"


def test_the_schema_is_one() -> None:
    for path in schema.DOCUMENTS:
        jsonschema.Draft202012Validator.check_schema(json.loads(path.read_bytes()))


@pytest.mark.parametrize("found", [None, result(), result(violations=3), result(finished=False)])
def test_what_is_written_is_valid_by_the_schema(found: Result | None) -> None:
    document = json.loads(FORMATS["json"](report(found)))
    validator = jsonschema.Draft202012Validator(json.loads(schema.RESULT_FILE.read_bytes()))
    validator.validate(document)
    with pytest.raises(jsonschema.ValidationError):
        validator.validate({**document, "verdict": 5})


def test_a_result_of_a_newer_soak_is_refused_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "result.json").write_text(json.dumps({"schema": outcome.SCHEMA + 1, "whatever": True}))
    assert cli.main(["report", str(tmp_path)]) == ExitCode.USAGE
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert "newer soak" in told


def test_a_folder_without_a_run_is_one_clear_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["report", str(tmp_path)]) == ExitCode.USAGE
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert "no run on record" in told
    assert cli.main(["report", "--data-dir", str(tmp_path), "r404"]) == ExitCode.USAGE
    assert "neither a folder nor a run" in capsys.readouterr().err


def folder_of(path: Path, found: Result, told: RunOutcome | None = None) -> Path:
    (path / "verifier").mkdir(parents=True)
    results.write(path / "verifier", found)
    if told is not None:
        outcome.write(path, told)
    return path


def test_what_the_verifier_said_last_counts_where_the_daemon_was_killed_before_it_could_repeat_it(
    tmp_path: Path,
) -> None:
    before, after = result(finished=False), result(violations=2, finished=False, ended_wall_seconds=1_800_000_095.0)
    found = gather(folder_of(tmp_path / "a", after, report(before).outcome))
    assert (found.outcome.verdict, found.outcome.exit_code, found.state) == ("violation", 1, "cut off")
    ended = gather(folder_of(tmp_path / "b", result(), report(before).outcome))
    assert (ended.outcome.verdict, ended.state) == ("pass", "finished")
    troubled = report(before, reasons=["the load died too often"]).outcome
    doubtful = gather(folder_of(tmp_path / "c", result(), troubled))
    assert (doubtful.outcome.verdict, doubtful.outcome.exit_code) == ("inconclusive", ExitCode.INCONCLUSIVE)


def test_a_verifier_alone_can_be_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = folder_of(tmp_path / "run", result(violations=1))
    (folder / "verifier" / "journal.jsonl").write_bytes(encode_lines([violation(1)]))
    assert cli.main(["report", str(folder), "--exit-code"]) == ExitCode.VIOLATION
    assert "violation  run r1" in capsys.readouterr().out
    (found,) = gather(folder).findings
    assert (found.finding.count, found.finding.example.id) == (1, violation(1).id)


def test_a_run_that_was_put_aside_is_found_by_its_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder_of(tmp_path / run_report.RUNS_NAME / "r1", result())
    assert cli.main(["report", "r1", "--data-dir", str(tmp_path), "--format", "json"]) == ExitCode.PASS
    assert json.loads(capsys.readouterr().out)["verdict"] == "pass"


def test_an_unfinished_result_is_no_result_to_those_who_wait_for_the_last_word(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "run", result(finished=False))
    assert results.read(folder / "verifier") is None
    assert results.read_so_far(folder / "verifier") is not None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--format", "pdf"], "--format pdf: choose from"),
        (["--format", "json", "--format", "html"], "name one with --output-dir"),
    ],
)
def test_wrong_formats_are_one_clear_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    assert cli.main(["report", str(tmp_path), *words]) == ExitCode.USAGE
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--report", "html"], ["--report", "pdf=x"], ["--report", "html=/proc/none/x.html"]])
def test_a_report_that_cannot_be_written_is_said_before_anything_runs(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["check", "--store", "redis-list", *words]) == ExitCode.USAGE
    assert capsys.readouterr().err.count("\n") == 1
