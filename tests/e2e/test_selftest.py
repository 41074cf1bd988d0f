"""The selftest on real servers: flaws are found, twins left alone, and it leaves nothing behind however it ends."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import msgspec
import pytest

from soak.checker.contract import Contract, ReplicaReads
from soak.errors import ExitCode
from soak.flaws import catalogue
from soak.flaws.flaw import FlawSetup, Load, store_of
from soak.flaws.lossy_text import LossyText
from soak.flaws.redis_memory import EverySecondMemory, RedisMemory
from soak.scenarios.selftest.scenario import SoakScenario, contracts_of
from soak.servers.local import LocalServers
from soak.settings import ContractSettings
from soak.stores import StoreContext
from soak.stores.postgres import PostgresReplicaStore
from tests.support.checking import processes_of, wait_until
from tests.support.paths import ROOT
from tests.support.scenarios import make_trial

QUICK = ["lossy_text", "lru_eviction"]
"""One soak with its twin beside it, and two on servers of their own; CI runs all by `soak selftest`."""
SOAKS = 3
AS_SHIPPED = ["lossy_text"]
SECONDS_MAX = 240.0


@pytest.fixture
def temporary() -> Iterator[Path]:
    """Give a short folder for everything temporary, so that what is left behind is seen."""
    folder = Path(tempfile.mkdtemp(prefix="st-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def start(temporary: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "soak", "selftest", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": str(ROOT)},
        start_new_session=True,
    )


def servers_run_in(folder: Path) -> bool:
    return any("valkey-server" in told for told in processes_of(folder))


@pytest.mark.long
def test_quick_flaws_are_found_and_their_twins_left_alone(temporary: Path) -> None:
    process = start(temporary, "--json", *QUICK)
    said, progress = process.communicate(timeout=SECONDS_MAX)
    result = json.loads(said)
    assert [trial["failures"] for trial in result["trials"]] == [[]] * len(QUICK)
    assert process.returncode == 0
    assert result["passed"]
    assert [trial["flaw"] for trial in result["trials"]] == QUICK
    assert all(trial["affected"] > 0 and trial["twin_verified"] > 0 for trial in result["trials"])
    assert f"{SOAKS} of {SOAKS}" in progress
    assert list(temporary.iterdir()) == []
    assert processes_of(temporary) == []


@pytest.mark.extra
@pytest.mark.timeout(900)
def test_flaws_of_groups_are_found_and_their_twins_left_alone(temporary: Path) -> None:
    process = start(temporary, "--json", "--topologies")
    said, _ = process.communicate(timeout=3 * SECONDS_MAX)
    trials = json.loads(said)["trials"]
    assert {trial["flaw"]: trial["failures"] for trial in trials} == {name: [] for name in catalogue.TOPOLOGIES}
    assert list(temporary.iterdir()) == []


@pytest.mark.long
def test_flaws_are_found_with_the_settings_as_shipped(temporary: Path) -> None:
    process = start(temporary, "--json", "--as-shipped", *AS_SHIPPED)
    said, _ = process.communicate(timeout=SECONDS_MAX)
    result = json.loads(said)
    assert [trial["failures"] for trial in result["trials"]] == [[]] * len(AS_SHIPPED)
    assert result["settings"] == "as-shipped"
    assert result["worst_seconds_to_detect"] >= result["median_seconds_to_detect"] >= 0
    assert list(temporary.iterdir()) == []


class StrictReplica(PostgresReplicaStore):
    """Promises that its replica is never behind for longer than its bound, whatever happens to it."""

    contract: ClassVar[Contract] = msgspec.structs.replace(
        PostgresReplicaStore.contract, replica_reads=ReplicaReads.STRICT
    )
    schema_suffix: ClassVar[str] = "-strict"


@pytest.mark.long
async def test_a_standby_that_is_restarted_may_be_behind_unless_its_contract_is_strict(tmp_path: Path) -> None:
    setup = catalogue.find("replica_snapshot").right
    stores = (setup.store, f"{__name__}:StrictReplica")
    scenario = SoakScenario(
        name="replicas",
        stores=stores,
        servers=setup.servers,
        load=Load(users=8),
        fault=setup.fault,
        expectation=None,
        seconds_max=SECONDS_MAX,
        patience_seconds=40.0,
    )
    tolerant, strict = (await scenario.run(tmp_path)).seen.values()
    assert (tolerant.verdict, tolerant.violations) == ("pass", {})
    # It need not have been late; if it was, that was measured.
    assert (tolerant.shadowed_reads > 0) is (tolerant.shadowed_lag_seconds_max > 0)
    assert strict.violations.keys() <= {"stale", "non_monotonic"}
    assert strict.shadowed_reads == 0


@pytest.mark.parametrize(
    ("options", "derives", "loss_seconds"),
    [
        ({"appendonly": "yes", "appendfsync": "always"}, True, 0.0),
        ({"appendonly": "yes", "appendfsync": "everysec"}, True, 2.0),
        ({"appendonly": "no", "save": ""}, True, ContractSettings().floor),
        ({"appendonly": "no", "save": ""}, False, 0.0),
    ],
)
async def test_a_derived_contract_follows_from_the_server_and_ends_at_the_floor(
    options: dict[str, str], derives: bool, loss_seconds: float, tmp_path: Path
) -> None:
    servers = LocalServers(tmp_path, redis_options=options)
    try:
        context = StoreContext(servers=await servers.start({"redis"}), namespace="t_derived")
        [contract] = (await contracts_of([store_of(RedisMemory)], context, derives=derives)).values()
    finally:
        await servers.stop()
    assert (contract.crash_loss_seconds, contract.power_loss_seconds) == (loss_seconds, loss_seconds)


async def test_a_flaw_replaced_by_a_right_store_is_not_found(tmp_path: Path) -> None:
    right = FlawSetup(store=store_of(EverySecondMemory))
    lossy = catalogue.find("lossy_text")
    flaw = msgspec.structs.replace(lossy, setups=(right, lossy.right), patience_seconds=4.0)
    trial = await make_trial(flaw, tmp_path)
    assert not trial.passed
    assert trial.failures[0].startswith("not found")


class LossyTwin(LossyText):
    """Wrong from the first such message on: it needs no luck to be noticed."""


async def test_a_twin_replaced_by_a_flaw_is_noticed(tmp_path: Path) -> None:
    wrong = FlawSetup(store=store_of(LossyTwin))
    lossy = catalogue.find("lossy_text")
    trial = await make_trial(msgspec.structs.replace(lossy, setups=(lossy.wrong, wrong)), tmp_path)
    assert not trial.passed
    assert "FALSE ALARM" in trial.failures[0]


@pytest.mark.long
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_when_it_is_broken_off(end: signal.Signals, temporary: Path) -> None:
    process = start(temporary, "rdb_only", "ack_before_flush")
    try:
        wait_until(lambda: servers_run_in(temporary), SECONDS_MAX)
        process.send_signal(end)
        said, complaint = process.communicate(timeout=SECONDS_MAX)
    finally:
        process.kill()
    assert said == ""
    if end is not signal.SIGKILL:
        assert process.returncode == ExitCode.INCONCLUSIVE
        assert complaint == "soak: interrupted; all trials were ended, and nothing is proved\n"
    wait_until(lambda: not processes_of(temporary), SECONDS_MAX)
    wait_until(lambda: not list(temporary.iterdir()), SECONDS_MAX)
