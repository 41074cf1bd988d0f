"""The violations the page lists: all that is new, the newest first, and none washed away by a flood of another kind."""

from __future__ import annotations

from pathlib import Path

import pytest

from soak.page.violation_index import KEPT_OF_A_FINDING_MAX, LISTED_MAX, ViolationFilter, ViolationIndex
from soak.verifier.evidence import JOURNAL_NAME
from soak.verifier.findings import finding_id
from soak.verifier.journal import Line, Violation, encode_lines
from tests.support.violations import a_change, a_violation


def violation(seq: int, kind: str = "lost", cause: str = "unknown") -> Violation:
    return a_violation(seq, run="r", session="s", kind=kind, cause=cause, detail="gone", at_wall_seconds=float(seq))


def write(folder: Path, *lines: Line, mode: str = "ab") -> None:
    with (folder / JOURNAL_NAME).open(mode) as file:
        file.write(encode_lines(list(lines)))


def listed(found: ViolationIndex, **wanted: str) -> list[int | None]:
    return [record.violation.seq for record in found.newest(ViolationFilter(**wanted))]


@pytest.fixture
def found(tmp_path: Path) -> ViolationIndex:
    return ViolationIndex(tmp_path)


def test_what_is_written_is_found_the_newest_first_and_a_half_line_waits(found: ViolationIndex, tmp_path: Path) -> None:
    found.take_in()
    assert (listed(found), found.version) == ([], 0)
    write(tmp_path, violation(1), violation(2))
    whole = encode_lines([violation(3)])
    with (tmp_path / JOURNAL_NAME).open("ab") as file:
        file.write(whole[:50])
    found.take_in()
    assert listed(found) == [2, 1]
    with (tmp_path / JOURNAL_NAME).open("ab") as file:
        file.write(whole[50:])
    version = found.version
    found.take_in()
    assert listed(found) == [3, 2, 1]
    assert found.version > version


def test_one_that_is_over_says_so_and_can_be_filtered_by_it(found: ViolationIndex, tmp_path: Path) -> None:
    write(tmp_path, violation(1), violation(2, "stale"), a_change("healed", violation(1), 99.0))
    found.take_in()
    assert listed(found, state="healed") == [1]
    assert listed(found, state="open") == [2]
    assert listed(found, kind="stale") == [2]
    assert listed(found, store="postgres") == []
    record = found.get(violation(1).id)
    assert record is not None
    assert record.changed_wall_seconds == 99.0


def test_a_flood_of_one_kind_leaves_the_others_and_stays_bounded(found: ViolationIndex, tmp_path: Path) -> None:
    write(tmp_path, violation(0, "leaked"), *(violation(seq) for seq in range(1, KEPT_OF_A_FINDING_MAX + 51)))
    found.take_in()
    assert listed(found, kind="leaked") == [0]
    lost = listed(found, kind="lost")
    assert len(lost) == KEPT_OF_A_FINDING_MAX
    assert lost[0] == KEPT_OF_A_FINDING_MAX + 50
    assert len(listed(found)) == LISTED_MAX


def test_the_violations_of_one_finding_are_listed_alone_and_survive_a_flood_of_another(
    found: ViolationIndex, tmp_path: Path
) -> None:
    flood = [violation(seq, cause="eviction") for seq in range(10, KEPT_OF_A_FINDING_MAX + 20)]
    write(
        tmp_path,
        violation(1, cause="retry"),
        violation(2, cause="retry"),
        *flood,
        a_change("healed", violation(1), 99.0),
    )
    found.take_in()
    wanted = finding_id("r", "redis-list", "lost", "retry")
    assert listed(found, finding=wanted) == [2, 1]
    assert listed(found, finding=wanted, state="healed") == [1]
    assert listed(found, finding="0123456789ab") == []


def test_a_journal_that_is_taken_in_by_pieces_is_whole_in_the_end(
    found: ViolationIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("soak.page.violation_index.READ_BYTES_MAX", 1_000)
    write(tmp_path, *(violation(seq) for seq in range(20)))
    for _ in range(20):
        found.take_in()
    assert listed(found) == list(reversed(range(20)))


def test_a_damaged_line_hides_no_other_and_a_new_journal_is_read_anew(found: ViolationIndex, tmp_path: Path) -> None:
    write(tmp_path, violation(1))
    with (tmp_path / JOURNAL_NAME).open("ab") as file:
        file.write(b'{"nonsense": 1}\n')
    write(tmp_path, violation(2))
    found.take_in()
    assert listed(found) == [2, 1]
    write(tmp_path, violation(7), mode="wb")
    found.take_in()
    assert listed(found) == [7]
