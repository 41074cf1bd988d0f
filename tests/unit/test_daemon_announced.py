"""Announced faults that are open survive their daemon; where they are not known any more that is said."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from soak.checker.faults import Excuse, Promotion
from soak.daemon.announced_faults import FILE_NAME, AnnouncedWindows, Announcement
from soak.ledger.records import FaultPhase
from soak.ledger.run import RunJournal
from soak.proc.files import copy_of

RUN = "r1"


class Journal:
    """Takes what would go into the ledger."""

    def __init__(self) -> None:
        self.phases: list[FaultPhase] = []

    async def fault(self, phase: FaultPhase) -> None:
        self.phases.append(phase)


def taken_up(folder: Path, said: list[str], *, is_resumed: bool = True, run: str = RUN) -> AnnouncedWindows:
    windows = AnnouncedWindows(folder / FILE_NAME, run, ["redis"], said.append)
    windows.take_up(is_resumed=is_resumed)
    return windows


def begun(folder: Path, excuses: Excuse = Excuse.CRASH) -> FaultPhase:
    windows, journal = taken_up(folder, [], is_resumed=False), Journal()
    windows.journal = cast("RunJournal", journal)
    asyncio.run(windows.begin(Announcement(server="redis", excuses=excuses)))
    (phase,) = journal.phases
    return phase


def flip(path: Path) -> None:
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 2] ^= 0x80
    path.write_bytes(whole)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "flipped": flip,
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-7]),
    "emptied": lambda path: path.write_bytes(b""),
    "deleted": Path.unlink,
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_open_windows_are_taken_up_again_also_from_the_copy_and_else_it_is_said(
    damage: Callable[[Path], object], tmp_path: Path
) -> None:
    name, said = begun(tmp_path).fault, list[str]()
    damage(tmp_path / FILE_NAME)
    assert [one.id for one in taken_up(tmp_path, said).windows] == [name]
    assert said == []
    for path in (tmp_path / FILE_NAME, copy_of(tmp_path / FILE_NAME)):
        damage(path)
    assert taken_up(tmp_path, said).windows == []
    (line,) = said
    assert line.startswith(f"{FILE_NAME} is {'gone' if damage is Path.unlink else 'damaged'}")
    assert taken_up(tmp_path, said).windows == []
    assert said == [line], "once"


def test_a_run_begins_without_windows_and_takes_up_none_of_another(tmp_path: Path) -> None:
    begun(tmp_path)
    said: list[str] = []
    assert taken_up(tmp_path, said, run="r2").windows == taken_up(tmp_path, said, is_resumed=False).windows == []
    assert said == []


@pytest.mark.parametrize("excuses", list(Excuse))
def test_of_an_announced_failover_nobody_knows_whether_the_old_primary_is_down(excuses: Excuse, tmp_path: Path) -> None:
    expected = Promotion.BESIDE_THE_OLD if excuses is Excuse.FAILOVER else Promotion.NONE
    assert begun(tmp_path, excuses).promotes is expected
