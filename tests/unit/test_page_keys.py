"""The page's scripts read only what the status, the end of a run, a story or a listing have."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from soak.api.status import SoakStatus, VerifierStatus
from soak.page.assets import FOLDER
from soak.page.state import PageEnd, PageState
from soak.report.series import Point
from soak.report.story import Story
from soak.verifier.journal import Violation
from soak.verifier.result import Totals

ROOTS = {"state": PageState, "soak": SoakStatus, "verifier": VerifierStatus, "totals": Totals, "end": PageEnd}
"""What a variable of this name holds, in every script."""
SCRIPTS = sorted(FOLDER.glob("*.js"))
_ELEMENTS = {"value"}
"""What the page reads of its own elements."""


def names_in(schema: Any) -> set[str]:
    """Return every property name in a schema, however deep."""
    if isinstance(schema, list):
        return {name for one in schema for name in names_in(one)}
    if not isinstance(schema, dict):
        return set()
    own = set(schema.get("properties", {}))
    return own | {name for value in schema.values() for name in names_in(value)}


def known_names() -> set[str]:
    listed = {"found_at_wall_seconds", "changed_at_wall_seconds", *Violation.__struct_fields__}
    return (
        names_in([msgspec.json.schema(one) for one in (PageState, PageEnd, Story)])
        | listed
        | {*Point.__struct_fields__}
    )


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_every_key_that_a_script_reads_exists(script: Any) -> None:
    text = script.read_text()
    keys = set(re.findall(r"\.([a-z]+(?:_[a-z]+)+)\b", text))
    assert keys <= known_names(), keys - known_names()
    for root, kind in ROOTS.items():
        if script.name == "story.js":
            continue  # a story has a state, too: open or healed
        read = set(re.findall(rf"(?<![.\w]){root}\??\.([a-z]\w*)", text)) - _ELEMENTS
        assert read <= set(kind.__struct_fields__), (root, read - set(kind.__struct_fields__))


def test_a_key_that_is_gone_would_be_noticed() -> None:
    assert "violations_found" not in known_names()
    assert {"oldest_unverified_seconds", "at_the_beginning", "fault_next"} <= known_names()
