"""The options that soak adds to Locust: in groups, with units."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from soak.load.options import add_options


def test_options_stand_in_groups_and_every_number_says_its_unit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    parser = argparse.ArgumentParser()
    add_options(parser)
    shown = parser.format_help()
    for group in ("the run", "pace and texts", "sessions", "operations"):
        assert f"soak: {group}:" in shown
    for action in parser._actions:
        if action.type in (int, float):
            assert (action.help or "").endswith("]"), action.dest
