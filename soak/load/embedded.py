"""A soak of Locust's own: when none is running, `soak run --no-load` is started as a child for Locust's lifetime."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections import deque
from pathlib import Path
from typing import Any

import gevent

from soak import join
from soak.addresses import LEDGER, addresses
from soak.errors import ServerUnreachableError, SoakError
from soak.join import JoinInfo
from soak.ledger.run import read_header
from soak.load.bridge import Bridge
from soak.proc import spawn
from soak.settings import SoakSettings

START_SECONDS_MAX = 60.0
VERDICT_SECONDS_MAX = 180.0
POLL_SECONDS = 0.1
LINES_KEPT = 200


class EmbeddedFailedError(SoakError):
    """The embedded soak ended before it was ready."""

    def __init__(self, text: str, exit_code: int) -> None:
        super().__init__(text)
        self.code = exit_code


class EmbeddedSoak:
    """The child: servers, ledger and verifier. Its verdict is the run's verdict."""

    def __init__(self, data_dir: Path, stores: tuple[str, ...]) -> None:
        self._data_dir = data_dir
        self._stores = stores
        self._lines: deque[str] = deque(maxlen=LINES_KEPT)
        self._is_stopping = False
        self._process = spawn.start(
            self._command(),
            stdout=spawn.PIPE,
            stderr=spawn.STDOUT,
            environment=spawn.own_package_environment(),
            death_signal=signal.SIGKILL,
        )
        self._reader = gevent.spawn(self._read_lines)

    def wait_until_ready(self) -> JoinInfo:
        """Wait for the run's join file; raises if the child gives up or takes too long."""
        deadline = time.monotonic() + START_SECONDS_MAX
        while time.monotonic() < deadline:
            has_ended = self._process.poll() is not None
            info = join.find(self._data_dir)  # another may have started one in the same moment: then join that
            if info is not None:
                return info
            if has_ended:
                self._reader.join(timeout=1.0)
                raise EmbeddedFailedError(self._last_line(), self._process.returncode)
            gevent.sleep(POLL_SECONDS)
        self.kill()
        raise ServerUnreachableError(
            f"the embedded soak in {self._data_dir} was not ready after {START_SECONDS_MAX:.0f} s "
            f"({self._last_line()}); try 'soak run --data-dir {self._data_dir}' to see why"
        )

    @property
    def ended_with(self) -> int | None:
        """Its exit code, once it has ended."""
        code: int | None = self._process.poll()
        return code

    def stop(self) -> int:
        """Ask for the verdict, pass its summary on to the terminal and return its exit code."""
        self._is_stopping = True
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(timeout=VERDICT_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.kill()
        self._reader.join(timeout=1.0)
        code: int = self._process.returncode
        return code

    def hurry(self) -> None:
        """Make it leave at once, without a verdict."""
        for _ in range(2):
            if self._process.poll() is None:
                self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait(timeout=5.0)

    def _command(self) -> list[str]:
        command = [sys.executable, "-m", "soak", "run", "--no-load", "--data-dir", str(self._data_dir)]
        for store in self._stores:
            command += ["--store", store]
        return [*command, "--port", "0", "--plain"]

    def _read_lines(self) -> None:
        pipe: Any = self._process.stdout
        for raw in pipe:
            line = raw.decode(errors="replace").rstrip()
            self._lines.append(line)
            if self._is_stopping:
                sys.stdout.write(line + "\n")
                sys.stdout.flush()

    def _last_line(self) -> str:
        said = [line for line in self._lines if line.strip()]
        return said[-1] if said else "it said nothing"


# Finding the run to take part in: one on this machine, or one whose ledger the environment names.


WAIT_SECONDS_MAX = 60.0
JOIN_POLL_SECONDS = 0.2
HEADER_SECONDS_MAX = 20.0


def find_run(data_dir: Path, settings: SoakSettings) -> JoinInfo | None:
    """Return the run in this folder, else the one of the ledger in the settings, else None."""
    info = join.find(data_dir)
    if info is None and settings.ledger.url is not None:
        return _remote_run(settings)
    return info


def wait_for_run(data_dir: Path, settings: SoakSettings) -> JoinInfo:
    """Wait for the run that the master joins or starts: workers never start one themselves."""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while (info := find_run(data_dir, settings)) is None:
        if time.monotonic() > deadline:
            raise ServerUnreachableError(
                f"no soak is running in {data_dir} after {WAIT_SECONDS_MAX:.0f} s; start the master there, or on "
                "another machine set SOAK_LEDGER__URL and SOAK_SERVERS__… to those of the run"
            )
        gevent.sleep(JOIN_POLL_SECONDS)
    return info


def _remote_run(settings: SoakSettings) -> JoinInfo:
    assert settings.ledger.url is not None  # noqa: S101  asked by the caller
    url = settings.ledger.url.get_secret_value()
    bridge = Bridge()
    try:
        header = bridge.call(read_header, url, timeout_seconds=HEADER_SECONDS_MAX)
    finally:
        bridge.close()
    return JoinInfo(
        header=header,
        ledger_url=url,
        servers={kind: address for kind, address in addresses(settings).items() if kind != LEDGER},
        timeout_seconds=settings.stores.timeout,
        connections_max=settings.stores.connections,
        ttl_seconds=settings.stores.ttl,
    )
