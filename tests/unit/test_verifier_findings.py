"""One bug is one finding, however its violations were counted: one by one, all at once, by several, or after a kill."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from soak.checker.contract import Contract
from soak.checker.kinds import Kind
from soak.verifier import checkpoint, findings
from soak.verifier.findings import (
    OTHER_CAUSES,
    FindingResult,
    ViolationGroup,
    ViolationGroups,
    describe,
    finding_id,
    rank_example,
)
from soak.verifier.journal import Line, Violation
from soak.verifier.resuming import recount
from soak.verifier.state import State
from tests.support.run_headers import header_of
from tests.support.violations import a_change, a_violation

STORES = ("postgres", "redis-list")
violation = partial(a_violation, store="postgres", cause="concurrent overwrite")


def grouped(*members: Violation) -> ViolationGroups:
    groups = ViolationGroups()
    groups.add(members)
    return groups


def only(groups: ViolationGroups, **acknowledged: int) -> FindingResult:
    (finding,) = groups.listed(acknowledged)
    return finding


# -- counting --


def test_many_violations_of_one_bug_are_one_finding_with_its_numbers() -> None:
    many = [violation(seq, session=f"s{seq % 12}-chat") for seq in range(161)]
    finding = only(grouped(*many), postgres=4142)
    assert (finding.count, finding.sessions, finding.open, finding.healed) == (161, 12, 161, 0)
    assert finding.share == pytest.approx(161 / 4142, abs=1e-6)
    assert (finding.first_wall_seconds, finding.last_wall_seconds) == (1_800_000_000.0, 1_800_000_160.0)
    assert finding.headline == (
        "161 of 4,142 messages (3.9 %) lost on postgres in 12 sessions, probably a concurrent overwrite"
    )


@pytest.mark.parametrize(
    "other", [violation(2, store="redis-list"), violation(2, kind="stale"), violation(2, cause="retry")]
)
def test_another_store_kind_or_cause_is_another_finding(other: Violation) -> None:
    assert len(grouped(violation(1), other).groups) == 2


def test_what_heals_and_comes_back_is_counted_in_its_own_finding() -> None:
    overwritten = [violation(seq) for seq in range(3)]
    swallowed = [violation(seq, cause="swallowed error") for seq in range(10, 15)]
    groups = grouped(*overwritten, *swallowed)
    groups.change([a_change("healed", overwritten[0]), a_change("healed", overwritten[1])])
    groups.change([a_change("reopened", overwritten[0])])
    by_cause = {one.cause: (one.open, one.healed) for one in groups.listed({})}
    assert by_cause == {"concurrent overwrite": (2, 1), "swallowed error": (5, 0)}


def test_one_that_was_over_when_it_was_found_is_healed_from_the_start() -> None:
    finding = only(grouped(violation(1, kind="stale", healed=True)))
    assert (finding.open, finding.healed) == (0, 1)


_LINES = st.lists(
    st.tuples(
        st.integers(0, 12), st.sampled_from(STORES), st.sampled_from(["lost", "stale"]), st.sampled_from(["a", "b"])
    ),
    unique_by=lambda one: one[:3],
    max_size=30,
)


def members_of(drawn: list[tuple[int, str, str, str]]) -> list[Violation]:
    return [
        violation(seq, session=f"s{seq % 4}", store=store, kind=kind, cause=cause, example_rank=seq * 7 % 5)
        for seq, store, kind, cause in drawn
    ]


@given(drawn=_LINES, cut=st.integers(0, 30), healed=st.sets(st.integers(0, 30)))
def test_counted_one_by_one_merged_or_all_at_once_it_is_the_same(
    drawn: list[tuple[int, str, str, str]], cut: int, healed: set[int]
) -> None:
    every = members_of(drawn)
    over = [one for at, one in enumerate(every) if at in healed]
    one_by_one = grouped(*every)
    one_by_one.change(a_change("healed", one) for one in over)
    at_once = ViolationGroups.of((one, one not in over) for one in reversed(every))
    first, second = grouped(*every[:cut]), grouped(*every[cut:])
    first.change(a_change("healed", one) for one in over if one in every[:cut])
    second.change(a_change("healed", one) for one in over if one in every[cut:])
    first.merge(second)
    acknowledged = dict.fromkeys(STORES, 1_000)
    assert one_by_one.listed(acknowledged) == at_once.listed(acknowledged) == first.listed(acknowledged)


def test_a_merge_leaves_the_other_as_it_was() -> None:
    mine, theirs = ViolationGroups(), grouped(violation(1))
    mine.merge(theirs)
    mine.add([violation(2, session="s2-chat")])
    assert (only(mine).count, only(theirs).count, only(theirs).sessions) == (2, 1, 1)


# -- bounds --


def test_sessions_beyond_the_bound_make_the_number_a_lower_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findings, "SESSIONS_COUNTED_MAX", 10)
    groups = grouped(*(violation(seq, session=f"s{seq}-chat") for seq in range(10)))
    assert (only(groups).sessions, only(groups).sessions_at_least) == (10, False)
    groups.add([violation(11, session="s3-chat")])
    assert not only(groups).sessions_at_least
    groups.add([violation(12, session="s12-chat")])
    assert (only(groups).sessions, only(groups).sessions_at_least) == (10, True)
    assert "in at least 10 sessions" in only(groups).headline


def test_causes_beyond_the_bound_share_a_group_and_nothing_is_uncounted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findings, "GROUPS_MAX", 3)
    groups = grouped(*(violation(seq, cause=f"cause {seq}") for seq in range(9)))
    assert {one.cause: one.count for one in groups.listed({})} == {
        **{f"cause {seq}": 1 for seq in range(3)},
        OTHER_CAUSES: 6,
    }


def test_healing_beyond_what_is_tracked_keeps_the_numbers_of_a_kind_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findings, "TRACKED_MAX", 2)
    many = [violation(seq, cause="a" if seq < 5 else "b") for seq in range(20)]
    groups = grouped(*many, violation(30, store="redis-list"))
    groups.change(a_change("healed", one) for one in many)
    assert sum(one.open for one in groups.listed({}) if one.store == "postgres") == 0
    assert sum(one.open for one in groups.listed({}) if one.store == "redis-list") == 1
    assert len(groups.tracked) == 2


# -- the example --


def with_file(seq: int, rank: int) -> Violation:
    one = violation(seq)
    return msgspec.structs.replace(one, evidence=one.id, example_rank=rank)


def test_the_clearest_example_has_evidence_and_the_lowest_rank() -> None:
    without, told_elsewhere = violation(1), violation(2, evidence="0123456789ab", example_rank=0)
    hard, clear, later = with_file(3, 900), with_file(4, 20), with_file(5, 20)
    groups = grouped(without)
    assert (only(groups).example.id, only(groups).example.has_evidence) == (without.id, False)
    for one, expected in ((told_elsewhere, told_elsewhere), (hard, hard), (later, later), (clear, clear)):
        groups.add([one])
        assert only(groups).example.id == expected.id


def test_unknown_times_other_oddities_faults_and_long_texts_make_a_story_harder() -> None:
    story: dict[str, Any] = {
        "life": {"sent_us": 1, "acknowledged_us": 2},
        "count": 1,
        "faults": [],
        "expected": {"content": "short"},
        "reads": [{"items": 4}],
    }
    clear = rank_example(story)
    harder: dict[str, Any]
    for harder in (
        {"life": {"sent_us": None, "acknowledged_us": None}},
        {"life": {}},
        {"count": 9},
        {"faults": [{}]},
        {"expected": {"content": "x" * 4_000}},
        {"expected": {"content": "sh\u0336ort"}},
        {"expected": {"content": "a\nb"}},
        {"reads": [{"items": 400}]},
    ):
        assert rank_example(story | harder) > clear
    everything_else = {"count": 500, "faults": [{}] * 99, "expected": {"content": "x" * 99_999}}
    assert rank_example(story | {"life": {}}) > rank_example(story | everything_else) - 1_000
    assert rank_example({}) >= 0


# -- the sentence --


def group_of(kind: str, count: int = 1, cause: str = "unknown") -> ViolationGroup:
    (group,) = grouped(*(violation(seq, kind=kind, cause=cause) for seq in range(count))).groups.values()
    return group


@pytest.mark.parametrize("kind", [kind.value for kind in Kind])
def test_every_kind_has_a_sentence(kind: str) -> None:
    for count, acknowledged in ((1, 10), (2, 10), (2, None), (2, 0), (2, 1)):
        said = describe(group_of(kind, count), acknowledged)
        assert "on postgres" in said
        assert "in 1 session" in said
        assert said.endswith("cause unknown")


@pytest.mark.parametrize(
    ("kind", "count", "acknowledged", "cause", "said"),
    [
        ("lost", 1, 250_000, "eviction", "1 of 250,000 messages (< 0.01 %) lost on postgres in 1 session, probably ev"),
        ("lost", 40, 100, "client clock", "40 of 100 messages (40 %) lost on postgres in 1 session, probably the clie"),
        ("leaked", 1, 1_000, "", "1 leaked message on postgres in 1 session (0.1 % of 1,000 acknowledged), cause unkn"),
        ("leaked", 2, None, "new cause", "2 leaked messages on postgres in 1 session, probably new cause"),
    ],
)
def test_the_sentence_names_count_share_place_and_cause(
    kind: str, count: int, acknowledged: int | None, cause: str, said: str
) -> None:
    assert describe(group_of(kind, count, cause), acknowledged).startswith(said)


def test_the_dated_sentence_says_first_and_last() -> None:
    day = time.mktime((2026, 11, 17, 8, 16, 12, 0, 0, -1))
    groups = grouped(violation(1, at_wall_seconds=day))
    assert only(groups).dated_headline.endswith("(at 08:16:12)")
    groups.add([violation(2, at_wall_seconds=day + 208)])
    assert only(groups).dated_headline.endswith("(first 08:16:12, last 08:19:40)")
    groups.add([violation(3, at_wall_seconds=day + 86_400)])
    assert only(groups).dated_headline.endswith("(first 2026-11-17 08:16:12, last 2026-11-18 08:16:12)")


def test_the_same_bug_has_the_same_id_in_a_run_and_no_violation_has_it() -> None:
    assert only(grouped(violation(1))).id == finding_id("r1", "postgres", "lost", "concurrent overwrite")
    assert only(grouped(violation(1, run="r2"))).id != only(grouped(violation(1))).id


# -- a restart --


def new_state() -> State:
    header = header_of({store: Contract() for store in STORES})
    return State(header, dict.fromkeys(STORES, ("redis",)), 1_000_000)


@pytest.mark.parametrize("cut", range(8))
def test_after_a_kill_findings_are_counted_from_checkpoint_and_journal(cut: int, tmp_path: Path) -> None:
    one, two, other = violation(1), violation(2), violation(3, cause="retry", store="redis-list")
    lines: list[Line] = [
        one,
        two,
        a_change("healed", one),
        other,
        a_change("reopened", one),
        a_change("healed", two),
        violation(4, session="s2-chat", kind="corrupted", healed=True),
    ]
    whole = new_state()
    recount(whole, lines)
    before = new_state()
    recount(before, lines[:cut])
    checkpoint.write(tmp_path, checkpoint.encode(before, 0))
    after = new_state()
    checkpoint.load(tmp_path, after)
    recount(after, lines[cut:])
    assert after.tally.findings == whole.tally.findings
    assert sum(one.count for one in after.tally.findings.groups.values()) == after.tally.violations == 4
    recount(after, lines)
    assert after.tally.violations == 4, "what is counted is not counted again"
    assert sum(one.count for one in after.tally.findings.groups.values()) == 4
