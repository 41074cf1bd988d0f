"""`soak init` writes a file that changes nothing, and in which every line can be used as it is."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from soak import cli
from soak.commands.init import commented_settings
from soak.configuration import read
from soak.errors import ExitCode

SETTING = re.compile(r"# (\w+ = \S.*?)\s+# [A-Z]")


def as_file(folder: Path, text: str) -> Path:
    path = folder / "soak.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_file_as_written_changes_nothing_and_claims_no_setting(tmp_path: Path) -> None:
    configuration = read(config=as_file(tmp_path, commented_settings()), environ={})
    assert {leaf.origin for leaf in configuration.leaves()} == {"default"}


def test_every_default_in_it_is_valid_and_is_the_default(tmp_path: Path) -> None:
    lines = [SETTING.sub(r"\1 # A", line) for line in commented_settings().splitlines()]
    uncommented = sum(not line.startswith(("#", "[")) and bool(line) for line in lines)
    assert uncommented > 60
    configuration = read(config=as_file(tmp_path, "\n".join(lines)), environ={})
    assert configuration.settings == read(environ={}, config=Path("/dev/null")).settings


def test_the_example_of_a_rule_can_be_used(tmp_path: Path) -> None:
    lines = commented_settings().splitlines()
    begin = next(number for number, line in enumerate(lines) if "[[faults.rules]]" in line)
    text = "\n".join(line.removeprefix("# ") for line in lines[begin : begin + 5])
    assert read(config=as_file(tmp_path, text), environ={}).settings.faults.rules[0].target == "redis"
    assert tomllib.loads(text)["faults"]["rules"][0]["every"] == "2m"


def test_a_file_that_exists_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["init"]) == ExitCode.PASS
    assert (tmp_path / "soak.toml").read_text(encoding="utf-8") == commented_settings()
    (tmp_path / "soak.toml").write_text("seed = 7\n")
    assert cli.main(["init"]) == ExitCode.USAGE
    assert "exists; name another file, or replace it with --force" in capsys.readouterr().err
    assert (tmp_path / "soak.toml").read_text() == "seed = 7\n"
    assert cli.main(["init", "--force"]) == ExitCode.PASS
    assert cli.main(["init", str(tmp_path / "no" / "where.toml")]) == ExitCode.USAGE
    assert "cannot be written" in capsys.readouterr().err
