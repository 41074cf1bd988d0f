"""The command under "to do it again" makes the same run: the same settings, the same seed, the same faults."""

from __future__ import annotations

import re
import shlex
from itertools import islice
from pathlib import Path

import pytest

from soak import cli
from soak.commands.flags import read_configuration
from soak.configuration import Configuration, as_saved, saved
from soak.daemon.fault_controller import plan_faults
from soak.daemon.reproduce import COMMAND_DEFAULTS, reproduce
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
    "run --fault latency:redis:every=20s,delay=500ms,jitter=20ms --set servers.redis_version=7.0 --redis sentinel",
    "check --store redis-list --duration 20s --postgres 16 --set servers.postgres_topology=patroni",
    "check --store redis-list --faults recovery",
    "check --config soak.toml --store examples.my_memory:MyMemory --threshold redis-list.read_max=1m",
]


def configuration_of(command: str, monkeypatch: pytest.MonkeyPatch, folder: Path) -> Configuration:
    monkeypatch.chdir(folder)
    name, *words = shlex.split(command)
    arguments = cli.parser_of(name).parse_args(words)
    return read_configuration(arguments, command=name, command_defaults=COMMAND_DEFAULTS[name])


@pytest.mark.parametrize("command", COMMANDS)
def test_the_command_gives_the_same_settings(command: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "soak.toml").write_text(FILE)
    first = configuration_of(command, monkeypatch, tmp_path if "--config" in command else tmp_path / "there")
    text = reproduce(first, SEED, first.settings.stores.names)
    again = configuration_of(text.removeprefix("soak "), monkeypatch, tmp_path / "there")
    changes = {"seed": SEED, "http": again.settings.http}
    assert text.split()[1] == command.split(maxsplit=1)[0]
    assert again.settings == first.settings.model_copy(update=changes)
    assert reproduce(again, SEED, again.settings.stores.names) == text


def test_the_command_has_flags_where_there_are_flags_and_nothing_that_is_default(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    command = "check --users 5 --think 10ms --threshold errors=1% --set load.mix=chat --set load.forget_share=0"
    text = reproduce(configuration_of(command, monkeypatch, tmp_path), 7, ["redis-list"])
    assert text == (
        "soak check --seed 7 --store redis-list --users 5 --think 10ms --set load.forget_share=0.0 "
        "--threshold errors=1%"
    )


def test_a_password_is_not_in_the_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SOAK_SERVERS__REDIS", "redis://:secret@staging:6379/3")
    text = reproduce(configuration_of("run", monkeypatch, tmp_path), 7, ["redis-list"])
    assert "secret" not in text
    assert "--redis 'redis://:***@staging:6379/3'" in text


def test_the_same_seed_and_rules_make_the_same_schedule(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    first = configuration_of("check --faults recovery --fault pause:redis:every=7s,jitter=5s", monkeypatch, tmp_path)
    again = configuration_of(reproduce(first, SEED, ["redis-list"]).removeprefix("soak "), monkeypatch, tmp_path)
    assert planned(first, SEED) == planned(again, again.settings.seed or 0)
    assert planned(first, SEED) != planned(again, 1)


def test_a_run_that_is_resumed_by_another_command_keeps_its_faults_and_is_named_by_what_goes_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    begun = configuration_of("check --users 3", monkeypatch, tmp_path)
    resumed, changed = as_saved(configuration_of("run", monkeypatch, tmp_path), saved(begun.settings))
    assert not changed
    assert resumed.settings.faults.preset == "none"
    text = reproduce(resumed, SEED, ["redis-list"])
    assert text.startswith("soak run ")
    assert {"--users 3", "--faults none", "--duration 1m"} <= set(re.findall(r"--\S+ \S+", text))


def planned(configuration: Configuration, seed: int) -> list[Planned]:
    """Return the first faults of the schedule that a run with this seed follows."""
    possible = {"redis": {"crash": None, "restart": None, "pause": None}}
    plan = plan_faults(configuration.settings.faults, possible)
    return list(islice(Schedule(plan.rules, plan.limits, seed=seed, began_wall_seconds=0.0).actions(), 20))
