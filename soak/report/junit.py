"""A run as JUnit XML, for machines that show tests: a case for each way a memory can be wrong, on each store.

Each finding fails one case, with the story of its clearest example. A run that has shown too little, or has not ended,
is an error in a case of its own: no machine may take it for green.
"""

from __future__ import annotations

import time
from xml.etree import ElementTree as ET

from soak.checker.kinds import Kind
from soak.report.run_report import FindingStory, Report
from soak.report.summary import (
    listing_command,
    self_check_line,
    stayed_lines,
    store_error_lines,
    totals_lines,
    tried_lines,
)
from soak.report.text import one_line, visible
from soak.verifier.result import Result, StoreResult, ThresholdResult, ThresholdState

MESSAGE_CHARACTERS_MAX = 500
CONCLUSIVE = "the run is conclusive"


def render(report: Report) -> str:
    """Return the document."""
    root = ET.Element("testsuites", name=f"soak {report.outcome.run}")
    suites = [_run_suite(report)]
    if report.result is not None:
        suites += [_store_suite(report, report.result, store) for store in report.result.by_store]
    for number, suite in enumerate(suites):
        suite.set("id", str(number))
        root.append(suite)
    for count in ("tests", "failures", "errors", "skipped"):
        root.set(count, str(sum(int(suite.get(count, "0")) for suite in suites)))
    root.set("time", f"{report.lasted_seconds:.3f}")
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _run_suite(report: Report) -> ET.Element:
    outcome, result, setup = report.outcome, report.result, report.outcome.setup
    suite = _suite(report, "soak")
    _properties(
        suite,
        {
            "run": outcome.run,
            "verdict": outcome.verdict,
            "headline": report.headline,
            "state": report.state,
            "seed": setup.seed if setup is not None else result.seed if result is not None else "",
            "version": setup.version if setup is not None else "",
            "stores": ", ".join(report.stores),
            **({} if result is None else _totals(result)),
            "tried": "; ".join(tried_lines(outcome)),
            "reproduce": setup.reproduce if setup is not None else "",
        },
    )
    case = ET.SubElement(suite, "testcase", classname="soak", name=CONCLUSIVE, time=f"{report.lasted_seconds:.3f}")
    if outcome.verdict not in {"pass", "violation", "threshold"} or report.state != "finished":
        reasons = outcome.reasons or [f"the run has given no verdict: it is {report.state}"]
        kind = outcome.verdict if report.state == "finished" else report.state
        error = ET.SubElement(case, "error", message=_message("; ".join(reasons)), type=kind)
        error.text = visible("\n".join(reasons))
    if result is not None:
        lines = [*tried_lines(outcome), *totals_lines(result.totals), self_check_line(result)]
        lines += [*stayed_lines(result), *store_error_lines(result), *result.notes]
        ET.SubElement(suite, "system-out").text = visible("\n".join(lines))
        for one in result.thresholds:
            _threshold(suite, one)
    return _counted(suite)


def _threshold(suite: ET.Element, one: ThresholdResult) -> None:
    """Add a case for a threshold; one without samples is an error, so that no machine takes it for green."""
    name = f"{visible(one.store)} {one.name}".strip()
    case = ET.Element("testcase", classname="soak.thresholds", name=name, time="0")
    suite.insert(len(suite) - 1, case)  # what a suite says to standard output comes last
    if one.state is not ThresholdState.MET:
        tag = "failure" if one.state is ThresholdState.MISSED else "error"
        ET.SubElement(case, tag, message=_message(one.line), type="threshold").text = visible(one.line)


def _store_suite(report: Report, result: Result, store: StoreResult) -> ET.Element:
    suite = _suite(report, store.store)
    numbers = {
        "acknowledged": store.acknowledged,
        "verified": store.verified,
        "forgotten": store.released,
        "violations": store.violations,
        "tolerated": store.tolerated,
    }
    _properties(suite, {name: str(number) for name, number in numbers.items()} | result.promises.get(store.store, {}))
    for kind in Kind:
        fitting = [one for one in report.findings if (one.finding.store, one.finding.kind) == (store.store, kind.value)]
        # A case for each kind is there in every run, so that its history shows; further findings have their own.
        case = _case(suite, store.store, kind.value)
        for number, story in enumerate(fitting):
            name = f"{kind.value} ({visible(story.finding.cause)})"
            command = listing_command(story.finding, report.outcome.data_dir)
            _fail(case if number == 0 else _case(suite, store.store, name), kind, story, command)
        count = sum(one.count for one in result.violations_by if (one.store, one.kind) == (store.store, kind.value))
        if count and not fitting:
            message = f"{count:,} times {kind.value}: {kind.sentence}"
            ET.SubElement(case, "failure", message=_message(message), type=kind.value)
    return _counted(suite)


def _case(suite: ET.Element, store: str, name: str) -> ET.Element:
    return ET.SubElement(suite, "testcase", classname=f"soak.{visible(store)}", name=name, time="0")


def _fail(case: ET.Element, kind: Kind, story: FindingStory, command: str) -> None:
    finding = story.finding
    failure = ET.SubElement(case, "failure", message=_message(finding.dated_headline), type=kind.value)
    texts = [f"{kind.sentence}; {finding.open:,} open, {finding.healed:,} healed"]
    if story.text:
        texts.append(f"The clearest example:\n{story.text}")
    texts.append(f"Every violation: {command}")
    failure.text = "\n" + visible("\n\n".join(texts)) + "\n"


def _suite(report: Report, name: str) -> ET.Element:
    started = report.result.started_wall_seconds if report.result is not None else report.written_wall_seconds
    return ET.Element(
        "testsuite",
        name=visible(name),
        timestamp=time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(started)),
        hostname="localhost",
        time=f"{report.lasted_seconds:.3f}",
    )


def _totals(result: Result) -> dict[str, str]:
    totals = result.totals
    numbers = {
        "acknowledged": totals.acknowledged,
        "verified": totals.verified,
        "violations": totals.violations,
        "tolerated": totals.tolerated,
    }
    return {name: str(number) for name, number in numbers.items()}


def _properties(suite: ET.Element, values: dict[str, str]) -> None:
    properties = ET.SubElement(suite, "properties")
    for name, value in values.items():
        ET.SubElement(properties, "property", name=visible(name), value=_message(value))


def _counted(suite: ET.Element) -> ET.Element:
    for count, tag in (("tests", "testcase"), ("failures", "testcase/failure"), ("errors", "testcase/error")):
        suite.set(count, str(len(suite.findall(tag))))
    suite.set("skipped", "0")
    return suite


def _message(text: str) -> str:
    return one_line(text, MESSAGE_CHARACTERS_MAX)
