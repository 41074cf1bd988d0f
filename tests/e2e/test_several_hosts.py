"""Load on two hosts, daemon and verifiers on a third, each with clocks of its own: nobody is accused for a clock."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

import pytest

from soak.servers.binaries import valkey_server
from tests.support.checking import wait_until
from tests.support.hosts.namespaces import SeparateHost, no_namespaces, three_hosts
from tests.support.needs import missing
from tests.support.stores.forgetful import ACCOUNT_VARIABLE

RIGHT, FORGETFUL = (f"tests.support.stores.snapshots:{name}" for name in ("SnapshotList", "ForgetfulList"))
MEMORY_PORT, LEDGER_PORT = 6379, 6390
SECONDS_MAX = 180.0
VERIFIED_BEFORE, DROPPED_AFTER = 200, 3
LOAD = ("--headless", "--users", "8", "--spawn-rate", "8", "--think-time", "300ms", "--run-time", "10m")


@pytest.fixture(scope="module", autouse=True)
def _possible() -> None:
    if (reason := no_namespaces()) is not None:
        missing(reason)


class Clocks(NamedTuple):
    """How far the clocks of the two hosts of the load, and of the third, are off."""

    one_ns: int
    one_wall: dict[str, str]
    other_ns: int
    other_wall: dict[str, str]
    center_ns: int


FAR = Clocks(
    # Five minutes behind, with a wall clock that is ahead; and one that runs 200 ppm too fast.
    one_ns=-300_000_000_000,
    one_wall={"FAKETIME": "+300s", "FAKETIME_DONT_FAKE_MONOTONIC": "1"},
    other_ns=0,
    other_wall={"FAKETIME": "-1s x1.0002"},
    center_ns=1_005_000_000,
)
NEAR = Clocks(one_ns=-5_000_000, one_wall={}, other_ns=300_000_000_000, other_wall={}, center_ns=5_000_000)


class Scene:
    """The servers, the soak and its load, each where it belongs."""

    def __init__(self, folder: Path, output: IO[bytes], loads: list[SeparateHost], center: SeparateHost) -> None:
        self.folder = folder
        self.output = output
        self.loads = loads
        self.center = center
        self.account = folder / "account"
        self.account.touch()
        self.ledger_wall = folder / "ledger-wall"
        self.ledger_wall.write_text("+0s\n")
        self.memory: subprocess.Popen[bytes] | None = None

    @property
    def data_dir(self) -> Path:
        return self.folder / "soak"

    def addresses(self) -> dict[str, str]:
        return {
            "SOAK_SERVERS__REDIS": f"redis://{self.center.address}:{MEMORY_PORT}",
            "SOAK_LEDGER__URL": f"redis://{self.center.address}:{LEDGER_PORT}",
            ACCOUNT_VARIABLE: str(self.account),
        }

    def start_memory(self) -> None:
        """Start a server that keeps a snapshot a second, so that a crash really takes a tail."""
        words = ("--dir", str(self.folder), "--dbfilename", "memory.rdb", "--save", "1", "1", "--appendonly", "no")
        self.memory = self._server(MEMORY_PORT, *words)

    def start_ledger(self) -> None:
        wall, self.center.wall = (
            self.center.wall,
            {
                "FAKETIME_TIMESTAMP_FILE": str(self.ledger_wall),
                "FAKETIME_NO_CACHE": "1",
                "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            },
        )
        self._server(LEDGER_PORT, "--save", "", "--appendonly", "no")
        self.center.wall = wall

    def _server(self, port: int, *words: str) -> subprocess.Popen[bytes]:
        binary = str(valkey_server())
        words = ("--port", str(port), "--bind", "0.0.0.0", "--protected-mode", "no", *words)
        return self.center.start(self.output, self.folder, binary, *words)

    def start_soak(self) -> subprocess.Popen[bytes]:
        stores = ("--store", RIGHT, "--store", FORGETFUL, "--data-dir", str(self.data_dir), "--port", "0")
        quick = (
            "--verifiers=2",
            "--set=verifier.canary=none",
            "--set=faults.preset=none",
            "--set=verifier.hot_interval=1s",
            "--plain",
        )
        command = (sys.executable, "-m", "soak", "run", "--no-load", *stores, "--duration", "10m", *quick)
        process = self.center.start(self.output, self.folder, *command, **self.addresses())
        self.until(lambda: self.result() is not None)
        return process

    def start_load(self) -> list[subprocess.Popen[bytes]]:
        locustfile = Path(__file__).parents[2] / "locustfiles" / "sessions.py"
        command = (sys.executable, "-m", "locust", "-f", str(locustfile), *LOAD)
        return [
            host.start(
                self.output, self.folder, *command, "--data-dir", str(self.folder / host.name), **self.addresses()
            )
            for host in self.loads
        ]

    def crash(self) -> None:
        assert self.memory is not None
        self.memory.kill()
        self.memory.wait()
        self.start_memory()

    def result(self) -> dict[str, Any] | None:
        with contextlib.suppress(OSError, ValueError):
            told: dict[str, Any] = json.loads((self.data_dir / "verifier" / "result.json").read_text())
            return told
        return None

    def verified(self) -> int:
        return int((self.result() or {"totals": {"verified": 0}})["totals"]["verified"])

    def until(self, condition: Any) -> None:
        try:
            wait_until(condition, SECONDS_MAX)
        except AssertionError:
            raise AssertionError(f"{Path(self.output.name).read_text()[-8000:]}\n{self.result()}") from None

    def dropped(self) -> list[str]:
        return self.account.read_text().splitlines()

    def violations(self) -> list[dict[str, Any]]:
        journals = (self.data_dir / "verifier").glob("**/journal.jsonl")
        lines = [line for journal in journals for line in journal.read_text().splitlines()]
        return [one for line in lines if "message" in (one := json.loads(line))]


@contextlib.contextmanager
def scene(tmp_path: Path, clocks: Clocks) -> Iterator[Scene]:
    with three_hosts() as (one, other, center), (tmp_path / "output").open("wb") as output:
        one.monotonic_ns, one.wall = clocks.one_ns, clocks.one_wall
        other.monotonic_ns, other.wall = clocks.other_ns, clocks.other_wall
        center.monotonic_ns = clocks.center_ns
        yield Scene(tmp_path, output, [one, other], center)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("clocks", [FAR, NEAR], ids=["far", "near"])
def test_clocks_that_differ_drift_and_are_set_accuse_nobody_and_hide_no_loss(tmp_path: Path, clocks: Clocks) -> None:
    with scene(tmp_path, clocks) as made:
        made.start_memory()
        made.start_ledger()
        soak = made.start_soak()
        loads = made.start_load()
        made.until(lambda: made.verified() > VERIFIED_BEFORE)
        made.ledger_wall.write_text("+40s\n")
        made.crash()
        made.until(lambda: [fault["ended_wall_seconds"] for fault in (made.result() or {}).get("faults", [])])
        excused = len(made.dropped())
        made.until(lambda: len(made.dropped()) > excused + DROPPED_AFTER)
        for load in loads:
            load.send_signal(signal.SIGTERM)
        for load in loads:
            load.wait(SECONDS_MAX)
        soak.send_signal(signal.SIGTERM)
        soak.wait(SECONDS_MAX)
        result, dropped, violations = made.result(), made.dropped(), made.violations()
    assert result is not None
    lost = {one["message"] for one in violations}
    assert {one["store"] for one in violations} == {FORGETFUL}, violations
    assert lost <= set(dropped), f"not dropped, and reported: {lost - set(dropped)}"
    assert set(dropped[excused:]) <= lost, f"dropped, and not reported: {set(dropped[excused:]) - lost}"
    assert (result["totals"]["undecided"], result["totals"]["unverifiable"]) == (0, 0), result
    assert result["totals"]["tolerated"] > 0, "the crash took nothing, so no fault was compared with any clock"
    log = "\n".join(path.read_text() for path in (tmp_path / "soak" / "logs").glob("verifier*.log"))
    assert log.count('"clock_met"') == 2, "the load of each of the two hosts has a clock of its own"
    assert "stepped by" in log
    assert '"clock_jumped"' not in log
