"""soak as a service: what it tells systemd, and the unit that is shipped."""

from __future__ import annotations

import configparser
import os
import shutil
import signal
import socket
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from soak.daemon import run, stop
from soak.daemon.conductor import FINISH_SECONDS_MAX
from soak.daemon.notify import Notifier
from soak.duration import parse_seconds
from soak.errors import ExitCode
from soak.settings import SoakSettings
from tests.support.checking import BUSY, checking, child
from tests.support.needs import missing
from tests.support.paths import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

UNIT = ROOT / "deploy" / "systemd" / "soak.service"
PATIENCE_SECONDS = 90.0
WATCHDOG_SECONDS = 4


class Manager:
    """The side of systemd: a socket, and what came in."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind("\0" + address[1:] if address.startswith("@") else address)
        self._socket.settimeout(PATIENCE_SECONDS)

    def next(self) -> dict[str, str]:
        lines = self._socket.recv(4096).decode().splitlines()
        return dict(line.split("=", 1) for line in lines)

    def until(self, holds: Callable[[dict[str, str]], object]) -> dict[str, str]:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not holds(told := self.next()):
            assert time.monotonic() < deadline, told
        return told

    def close(self) -> None:
        self._socket.close()


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Manager]:
    address = str(tmp_path / "notify") if request.param == "path" else f"@soak-test-{os.getpid()}-{time.monotonic_ns()}"
    found = Manager(address)
    yield found
    found.close()


def test_what_is_said_arrives_on_either_kind_of_socket(manager: Manager) -> None:
    notifier = Notifier({"NOTIFY_SOCKET": manager.address})
    assert notifier.send(READY="1", STATUS="two\nlines are one")
    assert manager.next() == {"READY": "1", "STATUS": "two lines are one"}
    notifier.close()


def test_without_a_service_manager_nothing_is_said_and_nothing_fails(tmp_path: Path) -> None:
    for environ in ({}, {"NOTIFY_SOCKET": "nonsense"}):
        assert not Notifier(environ).is_listened_to
        assert not Notifier(environ).send(READY="1")
    gone = Notifier({"NOTIFY_SOCKET": str(tmp_path / "gone")})
    assert not gone.send(READY="1")
    gone.close()


def test_the_watchdog_is_fed_only_by_the_process_it_is_meant_for() -> None:
    assert Notifier({"WATCHDOG_USEC": "2000000"}).watchdog_seconds == 2.0
    assert Notifier({"WATCHDOG_USEC": "2000000", "WATCHDOG_PID": str(os.getpid())}).watchdog_seconds == 2.0
    assert Notifier({"WATCHDOG_USEC": "2000000", "WATCHDOG_PID": "1"}).watchdog_seconds is None
    assert Notifier({"WATCHDOG_USEC": "soon"}).watchdog_seconds is None
    assert Notifier({}).watchdog_seconds is None


@pytest.mark.long
def test_the_watchdog_goes_hungry_while_the_verifier_stands_still(tmp_path: Path) -> None:
    manager = Manager(str(tmp_path / "notify"))
    environment = {"NOTIFY_SOCKET": manager.address, "WATCHDOG_USEC": str(WATCHDOG_SECONDS * 10**6)}
    try:
        with checking("--store", "redis-list", *BUSY, "--duration", "10m", **environment) as check:
            first = manager.next()
            assert "READY" not in first
            assert "starts" in first["STATUS"]
            manager.until(lambda told: told.get("READY") == "1")
            manager.until(lambda told: told.get("WATCHDOG") == "1" and "verified" in told["STATUS"])
            verifier = child(check.status(), "verifier")["pid"]
            os.kill(verifier, signal.SIGSTOP)
            try:
                manager.until(lambda told: "does not answer" in told["STATUS"])
                stopped_for = time.monotonic() + WATCHDOG_SECONDS
                while time.monotonic() < stopped_for:
                    assert "WATCHDOG" not in manager.next()
            finally:
                os.kill(verifier, signal.SIGCONT)
            manager.until(lambda told: told.get("WATCHDOG") == "1")
            check.process.send_signal(signal.SIGTERM)
            manager.until(lambda told: told.get("STOPPING") == "1")
            last = manager.until(lambda told: "is over" in told.get("STATUS", ""))
            assert check.wait()["verdict"] == "pass"
            assert last["STATUS"].endswith("is over: pass")
    finally:
        manager.close()


def unit() -> configparser.SectionProxy:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment]
    parser.read(UNIT)
    return parser["Service"]


def test_a_verdict_or_a_mistake_is_not_tried_again_and_a_failure_is() -> None:
    service = unit()
    assert service["Restart"] == "on-failure"
    prevented = {ExitCode(int(code)) for code in service["RestartPreventExitStatus"].split()}
    assert prevented == {ExitCode.VIOLATION, ExitCode.INCONCLUSIVE, ExitCode.USAGE, ExitCode.THRESHOLD}


def test_the_times_of_the_unit_are_longer_than_what_they_wait_for() -> None:
    service, settings = unit(), SoakSettings()
    to_stop = (
        FINISH_SECONDS_MAX
        + settings.load.drain
        + stop.LOAD_STOP_MARGIN_SECONDS
        + stop.END_OF_LOAD_SECONDS_MAX
        + settings.verifier.drain
        + stop.VERIFIER_MARGIN_SECONDS
        + run.SERVERS_STOP_SECONDS_MAX
    )
    assert parse_seconds(service["TimeoutStopSec"].replace("min", "m")) > to_stop
    assert parse_seconds(service["WatchdogSec"]) > 2 * settings.supervision.backoff_max


def analysed(verb: str, *words: str) -> subprocess.CompletedProcess[str]:
    if shutil.which("systemd-analyze") is None:
        missing("systemd-analyze is not here; install systemd")
    return subprocess.run(
        ["systemd-analyze", verb, *words], capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS
    )


def test_systemd_understands_every_line_of_the_unit_and_complains_of_a_wrong_one(tmp_path: Path) -> None:
    # It looks whether the program is there, which is not installed in /opt on this machine.
    text = UNIT.read_text().replace("ExecStart=/opt/soak/bin/soak", f"ExecStart={shutil.which('true')}")
    good = tmp_path / "soak.service"
    good.write_text(text)
    told = analysed("verify", "--man=no", str(good))
    assert (told.returncode, told.stderr) == (0, "")
    bad = tmp_path / "wrong.service"
    bad.write_text(text.replace("WatchdogSec=60s", "WatchdogSec=often"))
    assert "Failed to parse" in analysed("verify", "--man=no", str(bad)).stderr


def test_the_unit_is_confined() -> None:
    told = analysed("security", "--offline=true", "--threshold=20", str(UNIT))
    assert told.returncode == 0, told.stdout
