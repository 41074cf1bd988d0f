"""The command under "to do it again" makes the same run: the same settings, the same seed, the same faults."""

from __future__ import annotations

import shlex
from itertools import islice
from pathlib import Path

import pytest

from soak import cli
from soak.commands import check
from soak.commands.flags import read_configuration
from soak.configuration import Configuration
from soak.daemon.fault_controller import plan_faults
from soak.daemon.reproduce import RUN_DEFAULTS, reproduce
from soak.faults.schedule import Planned, Schedule

SEED = 2**63 - 25
FILE = """
[load]
shared_share = 0.25
[verifier]
recall_ages = ["30s", "1h"]
[contract.redis-list]
preset = "redis-everysec"
[contract."examples.my_memory:MyMemory"]
order = "per_writer"
[thresholds]
errors = "1%"
[thresholds."examples.my_memory:MyMemory"]
append_p99_in_fault = "2s"
[faults]
quiet_hours = ["22:00-06:00"]
"""
COMMANDS = [
    "run",
    "run --faults none --users 7 --think 0.4ms --seed 5",
    "run --faults chaos --fault-every 90.5s --redis 7.0 --store redis-stream --timeout 3s --mix hard",
    "run --fault crash:redis:every=12s,hold=2s --fault 'pause:postgres:cron=*/5 * * * *' --threshold append_p99=50ms",
    "run --redis redis://u@staging:6379/3 --allow-weaker-server --set testbed.proxied=true --ttl 1h30m",
    "check --store redis-list --duration 20s",
    "check --config soak.toml --store examples.my_memory:MyMemory --threshold redis-list.read_max=1m",
]


def configuration_of(command: str, monkeypatch: pytest.MonkeyPatch, folder: Path) -> Configuration:
    monkeypatch.chdir(folder)
    name, *words = shlex.split(command)
    defaults = check.DEFAULTS if name == "check" else RUN_DEFAULTS
    return read_configuration(cli.parser_of(name).parse_args(words), command_defaults=defaults)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_command_gives_the_same_settings(command: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "soak.toml").write_text(FILE)
    first = configuration_of(command, monkeypatch, tmp_path if "--config" in command else tmp_path / "there")
    text = reproduce(first, SEED, first.settings.stores.names)
    again = configuration_of(text.removeprefix("soak "), monkeypatch, tmp_path / "there")
    changes = {"seed": SEED, "http": again.settings.http}
    assert again.settings == first.settings.model_copy(update=changes)
    assert reproduce(again, SEED, again.settings.stores.names) == text


def test_the_command_has_flags_where_there_are_flags_and_nothing_that_is_default(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    command = "check --users 5 --think 10ms --threshold errors=1% --set load.mix=chat --set load.forget_share=0"
    text = reproduce(configuration_of(command, monkeypatch, tmp_path), 7, ["redis-list"])
    assert text == (
        "soak run --seed 7 --store redis-list --duration 1m --users 5 --think 10ms --set load.forget_share=0.0 "
        "--faults none --threshold errors=1%"
    )


def test_a_password_is_not_in_the_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SOAK_SERVERS__REDIS", "redis://:secret@staging:6379/3")
    text = reproduce(configuration_of("run", monkeypatch, tmp_path), 7, ["redis-list"])
    assert "secret" not in text
    assert "--redis 'redis://:***@staging:6379/3'" in text


def test_the_same_seed_and_rules_make_the_same_schedule(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    first = configuration_of("check --faults recovery --fault pause:redis:every=7s,jitter=5s", monkeypatch, tmp_path)
    again = configuration_of(reproduce(first, SEED, ["redis-list"])[5:], monkeypatch, tmp_path)
    assert planned(first, SEED) == planned(again, again.settings.seed or 0)
    assert planned(first, SEED) != planned(again, 1)


def planned(configuration: Configuration, seed: int) -> list[Planned]:
    """Return the first faults of the schedule that a run with this seed follows."""
    possible = {"redis": {"crash": None, "restart": None, "pause": None}}
    plan = plan_faults(configuration.settings.faults, possible)
    return list(islice(Schedule(plan.rules, plan.limits, seed=seed, began_wall_seconds=0.0).actions(), 20))
