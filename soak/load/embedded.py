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
from soak.errors import ServerUnreachableError, SoakError
from soak.join import JoinInfo
from soak.proc import spawn

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
