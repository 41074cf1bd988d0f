"""The journal of violations stays short, loses no count by it, and says what it lists no longer."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

import msgspec
import pytest

from soak.commands import violations as command
from soak.report.violation_records import read_violations
from soak.verifier import evidence
from soak.verifier.evidence import EvidenceFolder
from soak.verifier.journal import Change, Violation, decode_line, encode_lines, thin_out
from tests.support.violations import a_change, a_violation

if TYPE_CHECKING:
    from pathlib import Path

BYTES_MAX = 8_000
KEPT_BYTES_MAX = 4_000


def violation(seq: int, *, has_file: bool = False) -> Violation:
    found = a_violation(seq, run="r", session="s", at_wall_seconds=float(seq))
    return msgspec.structs.replace(found, evidence=found.id if has_file else "")


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence, "JOURNAL_BYTES_MAX", BYTES_MAX)
    monkeypatch.setattr(evidence, "JOURNAL_KEPT_BYTES_MAX", KEPT_BYTES_MAX)


def seqs(lines: list[bytes]) -> list[int | None]:
    return [line.seq for line in map(decode_line, lines) if isinstance(line, Violation)]


def test_the_first_are_kept_those_with_evidence_too_and_each_with_what_became_of_it_last() -> None:
    found = [violation(seq, has_file=seq == 40) for seq in range(1, 51)]
    lines = encode_lines(
        [*found, a_change("healed", found[0]), a_change("reopened", found[0]), a_change("healed", found[30])]
    )
    kept, dropped = thin_out(lines.splitlines(keepends=True), KEPT_BYTES_MAX)
    assert seqs(kept) == [*range(1, len(kept) - 1), 40]
    assert dropped == 50 - len(seqs(kept))
    changes = [line for line in map(decode_line, kept) if isinstance(line, Change)]
    assert [(line.seq, line.event) for line in changes] == [(1, "reopened")]
    assert thin_out(lines.splitlines(keepends=True), 10**6)[1] == 0


def test_a_journal_that_is_thinned_out_again_and_again_stays_short_and_loses_no_count(tmp_path: Path) -> None:
    folder = EvidenceFolder(tmp_path / "verifier", files_max_per_kind=10)
    journal = tmp_path / "verifier" / evidence.JOURNAL_NAME
    total = 0
    for _ in range(30):
        counted = folder.journal_size()
        total += 10
        assert folder.write([violation(seq) for seq in range(total - 9, total + 1)], None)
        # The checkpoint was made before the last ten: these are to be counted again after a kill, and no others.
        folder.thin_out(counted)
        assert journal.stat().st_size < BYTES_MAX + KEPT_BYTES_MAX
        after_a_kill = EvidenceFolder(tmp_path / "verifier", files_max_per_kind=10)
        assert [line.seq for line in after_a_kill.since(counted)] == [*range(total - 9, total + 1)]
        assert after_a_kill.lines_damaged == 0
    assert folder.violations_unlisted > 0
    records = read_violations(tmp_path)
    assert len(records.found) + records.unlisted == total
    assert records.unreadable == {}
    assert records.found[0].violation.seq == 1


def test_a_journal_that_is_short_enough_is_left_as_it_is(tmp_path: Path) -> None:
    folder = EvidenceFolder(tmp_path / "verifier", files_max_per_kind=10)
    folder.write([violation(1)], None)
    before = (tmp_path / "verifier" / evidence.JOURNAL_NAME).read_bytes()
    folder.thin_out(folder.journal_size())
    assert (tmp_path / "verifier" / evidence.JOURNAL_NAME).read_bytes() == before
    assert folder.violations_unlisted == 0


def test_what_is_gone_from_a_thinned_journal_is_damage_where_its_checkpoint_is_gone_too(tmp_path: Path) -> None:
    folder = EvidenceFolder(tmp_path / "verifier", files_max_per_kind=10)
    folder.write([violation(seq) for seq in range(1, 101)], None)
    counted = folder.journal_size()
    folder.thin_out(counted)
    assert folder.journal_size() == counted
    without = EvidenceFolder(tmp_path / "verifier", files_max_per_kind=10)
    lines = without.since(0)
    assert without.lines_damaged == folder.violations_unlisted == 100 - len(lines) > 0
    os.truncate(tmp_path / "verifier" / evidence.JOURNAL_NAME, 500)
    cut = EvidenceFolder(tmp_path / "verifier", files_max_per_kind=10)
    assert cut.since(counted) == []
    assert cut.lines_damaged == 1, "what a checkpoint had counted is not there"


def test_evidence_files_outlive_the_thinning_of_the_journal(tmp_path: Path) -> None:
    folder = EvidenceFolder(tmp_path / "verifier", files_max_per_kind=10)
    folder.write([violation(seq) for seq in range(1, 101)], None)
    last = violation(101, has_file=True)
    folder.write([last], b"{}")
    folder.thin_out(folder.journal_size())
    folder.repair()
    assert [path.name for path in (tmp_path / "verifier" / evidence.FILES_NAME).iterdir()] == [f"lost.{last.id}.json"]


def test_the_list_says_how_many_are_not_in_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = EvidenceFolder(tmp_path / "verifier", files_max_per_kind=10)
    folder.write([violation(seq) for seq in range(1, 101)], None)
    folder.thin_out(folder.journal_size())
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    command.execute(parser.parse_args(["--data-dir", str(tmp_path), "--json"]))
    assert f"soak: {folder.violations_unlisted} further violations were counted and are not" in capsys.readouterr().err
