from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from soak import cli
from soak.browsing.chromium import find_chromium
from soak.errors import ExitCode, UsageError


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def put(folder: Path, name: str) -> Path:
    program = folder / name
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    return program


@pytest.mark.parametrize("name", ["chromium", "chromium-browser", "google-chrome"])
def test_whatever_it_is_called_it_is_found(programs: Path, name: str) -> None:
    program = put(programs, name)
    assert find_chromium() == program


def test_one_that_is_named_is_taken(programs: Path) -> None:
    put(programs, "chromium")
    assert find_chromium(put(programs, "mine")) == programs / "mine"
    with pytest.raises(UsageError, match=r"load\.browser names .*nowhere, which cannot be run"):
        find_chromium(programs / "nowhere")


@pytest.mark.parametrize("command", ["run", "check"])
def test_without_chromium_browser_users_are_refused_in_one_line(
    programs: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([command, "--browser-users", "1"]) == ExitCode.USAGE
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "install one (Debian: apt install chromium), or name it in load.browser" in said
    assert not (programs / ".soak").exists()


def test_without_playwright_browser_users_are_refused_in_one_line(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(programs, "chromium")
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "playwright" else find_spec(name))
    with pytest.raises(UsageError, match=r"pip install 'soak\[browser\]'"):
        find_chromium()
