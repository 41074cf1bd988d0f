from __future__ import annotations

import argparse
import os
from pathlib import Path

import pytest

from soak.configuration import read
from soak.daemon.children import child_environment, load_command
from soak.duration import parse_seconds
from soak.join import JoinInfo
from soak.load.options import add_options
from soak.settings import SoakSettings
from soak.verifier.process import Verifier
from soak.verifier.status import settings_seconds
from tests.support.run_headers import header_of

SETTINGS = SoakSettings.model_validate(
    {
        "load": {"think": "0.4ms", "spawn_rate": 1234.5678},
        "faults": {"recovery_max": "7s", "preset": "chaos"},
    }
)


def test_every_setting_reaches_a_child_as_it_is(tmp_path: Path) -> None:
    told = read(environ=child_environment(SETTINGS, tmp_path)).settings
    assert told == SETTINGS.model_copy(update={"data_dir": tmp_path})
    assert settings_seconds(told)["faults.recovery_max"] == 7.0


@pytest.mark.parametrize("think", [0.0004, 90.5, 1.0])
def test_the_load_takes_the_pause_that_was_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, think: float) -> None:
    settings = SoakSettings.model_validate({"load": {"think": think}})
    for name in os.environ:
        if name.startswith("SOAK_"):
            monkeypatch.delenv(name)
    for name, value in child_environment(settings, tmp_path).items():
        monkeypatch.setenv(name, value)
    parser = argparse.ArgumentParser()
    add_options(parser)
    assert parse_seconds(parser.parse_args([]).think_time) == think


def test_numbers_on_the_command_line_of_the_load_are_not_rounded(tmp_path: Path) -> None:
    command = load_command(SETTINGS, tmp_path)
    assert command[command.index("--spawn-rate") + 1] == "1234.5678"


@pytest.mark.parametrize(("drain", "told"), [("1500ms", 2), ("10s", 10), ("1234.5678s", 1235)])
def test_locust_which_takes_whole_seconds_only_is_told_no_less_than_the_drain(
    tmp_path: Path, drain: str, told: int
) -> None:
    command = load_command(SoakSettings.model_validate({"load": {"drain": drain}}), tmp_path)
    assert command[command.index("--stop-timeout") + 1] == str(told)


def test_the_verifier_gives_a_replica_the_time_to_catch_up_that_was_set(tmp_path: Path) -> None:
    header = header_of({}, seed=7)
    info = JoinInfo(header=header, ledger_url="", servers={}, timeout_seconds=1.0, connections_max=1, ttl_seconds=None)
    told = read(environ=child_environment(SETTINGS, tmp_path)).settings
    assert Verifier(info, told, tmp_path).state.faults.catch_up_us == 7_000_000
