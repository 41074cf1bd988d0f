"""A verdict is never reached by doing nothing, and the tables say what was found and how to see it again."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest

from soak.contract_suite.conversation import PlainTexts
from soak.errors import ExitCode, UsageError
from soak.scenarios.analyses import page, table, trials
from soak.scenarios.analyses.judgement import (
    TrialResult,
    TrialTally,
    TrialVerdict,
    empty_cell,
    exit_code_of,
    judged,
)
from soak.scenarios.analyses.scenario import plan_stages, trials_for
from soak.subjects import catalogue
from soak.subjects.description import ByDesign

GOOD = TrialTally(
    found={},
    example="",
    tolerated=0,
    acknowledged=100,
    failed=0,
    unknown=0,
    verified=100,
    reads=3,
    reads_without_answer=0,
    unsettled=0,
)
DESIGN = ByDesign(kinds=["lost"], reason="the last one wins")


def tried(**changes: object) -> TrialTally:
    return msgspec.structs.replace(GOOD, **changes)


@pytest.mark.parametrize(
    ("seen", "design", "verdict"),
    [
        (GOOD, None, TrialVerdict.PASS),
        (tried(found={"lost": 3}), None, TrialVerdict.FINDING),
        (tried(found={"lost": 3}), DESIGN, TrialVerdict.BY_DESIGN),
        (tried(found={"lost": 3, "leaked": 1}), DESIGN, TrialVerdict.FINDING),
        (tried(tolerated=3), None, TrialVerdict.BY_DESIGN),
        (tried(found={"lost": 3}, tolerated=3), None, TrialVerdict.FINDING),
        (tried(acknowledged=9), None, TrialVerdict.INCONCLUSIVE),
        (tried(verified=0), None, TrialVerdict.INCONCLUSIVE),
        (tried(unsettled=1), None, TrialVerdict.INCONCLUSIVE),
        (tried(doubts=["no reply was dropped"]), None, TrialVerdict.INCONCLUSIVE),
        (tried(acknowledged=9, found={"lost": 1}), None, TrialVerdict.FINDING),
    ],
)
def test_the_verdict_follows_from_what_was_seen(
    seen: TrialTally, design: ByDesign | None, verdict: TrialVerdict
) -> None:
    reached, reason = judged(seen, design, acknowledged_min=10)
    assert reached is verdict
    assert bool(reason) is (verdict not in {TrialVerdict.PASS, TrialVerdict.FINDING})


def test_what_is_known_of_a_release_and_not_found_again_is_no_pass() -> None:
    assert judged(tried(found={"rolled_back": 1}), None, 10, ["lost", "rolled_back"])[0] is TrialVerdict.FINDING
    verdict, reason = judged(GOOD, None, 10, ["rolled_back", "lost"])
    assert verdict is TrialVerdict.INCONCLUSIVE
    assert reason == "lost, rolled_back: so much is known of this release, and was not found this time"


def test_earlier_releases_are_put_through_what_is_known_of_them() -> None:
    both = catalogue.find(["agno-redis"], all_releases=True)
    assert [subject.name for subject in both] == ["agno-redis", "agno-redis@2.6.4"]
    newest, older = both
    every = trials.find([])
    assert trials_for(newest, every, known_only=True) == every
    assert trials_for(older, every, known_only=False) == every
    assert [one.name for one in trials_for(older, every, known_only=True)] == ["concurrent-writers", "growing-prefix"]
    everything = catalogue.find([], all_releases=True)
    # Those that need to be given a factory are left out: there is nothing to analyse without one.
    assert [subject.name for subject in everything] == [
        name for name, subject in catalogue.all_subjects().items() if not subject.takes_factory
    ]
    for subject in everything:
        assert subject.is_newest or trials_for(subject, every, known_only=True), subject.name


def cell(trial: str = "hard-text", verdict: TrialVerdict = TrialVerdict.PASS, **more: object) -> TrialResult:
    plain = empty_cell(catalogue.find(["agno-redis"])[0], trial, 7, verdict, "")
    return msgspec.structs.replace(plain, **more)


CELLS = [
    cell("concurrent-writers", TrialVerdict.FINDING, found={"lost": 1_329}, example="lost <crowd>/0/1: gone | away"),
    cell("hard-text"),
    cell("identical-turns", TrialVerdict.NOT_APPLICABLE, reason="no place for an id"),
    cell("server-crash", TrialVerdict.BY_DESIGN, tolerated=40, reason="no more was lost than may be"),
    cell("clock-skew", TrialVerdict.INCONCLUSIVE, reason="libfaketime is not installed"),
]


def test_findings_are_a_success_and_a_cell_that_was_not_made_is_not() -> None:
    assert exit_code_of(CELLS[:4]) is ExitCode.PASS
    assert exit_code_of(CELLS) is ExitCode.INCONCLUSIVE
    assert exit_code_of([]) is ExitCode.INCONCLUSIVE


def test_the_terminal_shows_verdicts_reasons_and_commands() -> None:
    text = "\n".join(table.report_lines(CELLS, 12.0))
    for part in (
        "1,329 lost",
        "libfaketime is not installed",
        "no place for an id",
        "40 lost as the server is set (by design)",
        "soak analyse agno-redis --trial concurrent-writers --seed 7",
        "5 cells of 1 libraries: 1 pass, 1 finding, 1 by design, 1 not applicable, 1 inconclusive; 12 s",
    ):
        assert part in text


def test_markdown_is_one_table_that_no_text_of_a_library_can_break() -> None:
    lines = table.markdown_lines(CELLS, 12.0)
    assert lines[0].count("|") == lines[1].count("|") == lines[2].count("|") == 8
    assert [cell.strip() for cell in lines[2].split("|")][3:8] == ["✗", "✓", "", "◌", "?"]
    assert any(line.startswith("- **hard-text**: Does every text come back") for line in lines)
    finding = next(line for line in lines if "crowd" in line)
    assert "1,329 lost" in finding
    assert "&lt;crowd>" in finding
    assert "gone \\| away" in finding
    assert not any("no place for an id" in line for line in lines), "not applicable is not listed"


def test_a_file_of_words_gets_the_table_between_its_marks_and_keeps_its_words(tmp_path: Path) -> None:
    words = tmp_path / "words.md"
    words.write_text(f"# Before\n\n{table.BEGIN}\nof last year\n{table.END}\n\nAfter.\n")
    for _ in range(2):
        table.write_into(words, CELLS, 12.0, "soak analyse --into words.md")
        text = words.read_text()
        assert text.startswith(f"# Before\n\n{table.BEGIN}\nMeasured on ")
        assert text.endswith(f"; 12 s\n{table.END}\n\nAfter.\n")
        assert "of last year" not in text
        assert "\n```\nsoak analyse --into words.md\n```\n" in text
        assert text.count("1,329 lost") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["words.md"]
    words.write_text("no marks\n")
    with pytest.raises(UsageError, match="put them where the table belongs"):
        table.check_marks(words)
    with pytest.raises(UsageError, match="name a Markdown file that is there"):
        table.check_marks(tmp_path / "nowhere.md")


def test_json_has_every_cell_with_its_command() -> None:
    said = json.loads(msgspec.json.encode(table.as_json(CELLS, 12.0)))
    assert [one["verdict"] for one in said["cells"]] == [one.verdict.value for one in CELLS]
    assert said["cells"][0]["command"].startswith("soak analyse agno-redis --trial concurrent-writers")
    assert said["verdicts"]["inconclusive"] == 1


def test_the_page_is_whole_html_and_escapes_what_it_shows() -> None:
    class Cells(HTMLParser):
        def __init__(self) -> None:
            super().__init__()
            self.classes: list[str] = []
            self.text = ""

        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            if tag == "td" and dict(attrs).get("class"):
                self.classes.append(str(dict(attrs)["class"]))
            assert tag != "crowd"

        def handle_data(self, data: str) -> None:
            self.text += data

    read = Cells()
    read.feed(page.document(CELLS, 12.0))
    assert read.classes == ["finding", "pass", "not-applicable", "by-design", "inconclusive"]
    assert "lost <crowd>/0/1" in read.text


def test_trials_are_grouped_by_what_they_need_and_those_that_do_not_fit_say_why() -> None:
    every = trials.find([])
    plans, cells = plan_stages(catalogue.find(["chromadb-persistent"])[0], every, 7)
    named = [name for plan in plans for name in plan.load] + [one.trial for one in cells]
    assert sorted(named) == sorted(trials.ALL)
    assert {one.trial for one in cells} >= {"dropped-replies", "server-crash", "power-cut", "active-ttl", "clock-skew"}
    assert all(one.verdict is TrialVerdict.NOT_APPLICABLE and one.reason for one in cells)
    assert [trial.name for trial in trials.find(["hard-text", "growing-prefix"])] == ["growing-prefix", "hard-text"]
    with pytest.raises(UsageError, match="did you mean hard-text"):
        trials.find(["hard-texts"])


def test_what_is_said_follows_from_name_and_seed() -> None:
    one, other = PlainTexts("run", 1), PlainTexts("run", 2)
    said = one.write("talk", 0, 1)
    assert said == PlainTexts("run", 1).write("talk", 0, 1)
    assert said.is_intact
    assert said != other.write("talk", 0, 1)
    assert one.is_mine(said)
    assert not other.is_mine(said)
    reciter = PlainTexts("run", 1, ["continue"])
    twice = [reciter.write("talk", 0, seq) for seq in (1, 2)]
    assert twice[0].content == twice[1].content
    assert reciter.matches(twice, "talk")
    assert not reciter.matches(twice, "another")
