"""The way of one lost message through the checker is the one that the page tells."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import FrameType

import pytest

from soak.checker import judge
from soak.checker.kinds import Kind
from tests.support.checker.checked_session import CheckedSession

REPOSITORY = Path(__file__).parents[2]
CHECKER = REPOSITORY / "soak" / "checker"
PAGE = REPOSITORY / "docs" / "consistency-model.md"


def test_one_lost_message_passes_the_files_that_the_page_names() -> None:
    session = CheckedSession()
    for seq in (1, 2, 3):
        session.told(seq, float(seq), seq + 0.1)
    passed: set[str] = set()

    def note(frame: FrameType, _event: str, _argument: object) -> None:
        path = Path(frame.f_code.co_filename)
        if path.parent == CHECKER:
            passed.add(path.name)

    traced_by = sys.getprofile()
    sys.setprofile(note)
    try:
        suspected, confirmed = session.shows(4.0, 1, 3), session.shows(6.0, 1, 3)
    finally:
        sys.setprofile(traced_by)
    assert (suspected, confirmed) == (set(), {(Kind.LOST, 2)})
    (told,) = [part for part in PAGE.read_text().split("\n\n") if part.startswith("One lost message is")]
    assert passed == set(re.findall(r"\[(\w+\.py)\]", told))
    assert len(re.findall(r"\w+\.py\]", told.partition("What is expected")[0])) == 6, "as many as the page says"


def test_of_the_files_it_passes_besides_order_says_nothing_about_a_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judge, "order_findings", lambda *_: [])
    session = CheckedSession()
    for seq in (1, 2, 3):
        session.told(seq, float(seq), seq + 0.1)
    assert session.shows(4.0, 1, 3) == set()
    assert session.shows(6.0, 1, 3) == {(Kind.LOST, 2)}
