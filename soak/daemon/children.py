"""Child processes: how verifier and load are started, supervised, restarted after a pause, and logged."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import re
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import soak
from soak.api.status import ChildStatus
from soak.configuration import ENVIRONMENT_PREFIX, as_environment
from soak.daemon.processes import ChildrenFile, Started, end_group, identify, spawn
from soak.errors import UsageError
from soak.ledger.shards import Shard
from soak.servers.ports import HOST, free_port
from soak.settings import SoakSettings, SupervisionSettings

BYTES_MAX = 10_000_000
_CHUNK_BYTES = 65_536
_LINE_BYTES_MAX = 500


_OWN_ERROR = re.compile(r"^soak: |/ERROR/soak\.\w+: ")
"""How a line begins in which soak says what is wrong; the second form is that of Locust's log."""


class ChildLog:
    """Copies a child's output into a file; a full file is renamed to `….1`, and a new one begins."""

    def __init__(self, path: Path, bytes_max: int = BYTES_MAX) -> None:
        self.path = path
        self._bytes_max = bytes_max
        self.last_line = ""
        self.last_error = ""
        """What soak itself said last was wrong, in this life of the child: tables of Locust may follow."""
        self._rest = b""

    async def copy(self, stream: asyncio.StreamReader) -> None:
        """Copy until the child and all who inherited its output are gone."""
        self.last_error = ""
        while chunk := await stream.read(_CHUNK_BYTES):
            self._remember(chunk)
            self._write(chunk)

    def _write(self, chunk: bytes) -> None:
        try:
            if self.path.exists() and self.path.stat().st_size + len(chunk) > self._bytes_max:
                self.path.replace(self.path.with_name(self.path.name + ".1"))
            with self.path.open("ab") as file:
                file.write(chunk)
        except OSError:
            # A full disk must not stop the child: its pipe is still read, and the last line kept.
            return

    def _remember(self, chunk: bytes) -> None:
        *lines, rest = (self._rest + chunk).split(b"\n")
        self._rest = rest[-_LINE_BYTES_MAX:]
        for line in lines:
            said = " ".join(line[-_LINE_BYTES_MAX:].decode("utf-8", "replace").split())
            self.last_line = said or self.last_line
            if found := _OWN_ERROR.search(said):
                self.last_error = said[found.end() :]


SUPERVISED_VARIABLE = "SOAK_SUPERVISED"
LOCUSTFILE = Path("locustfiles") / "sessions.py"


def verifier_command(data_dir: Path, shard: Shard) -> list[str]:
    share = ["--shard", str(shard)] if shard.of > 1 else []
    return [sys.executable, "-m", "soak", "verify", "--data-dir", str(data_dir), "--supervised", *share]


def load_command(settings: SoakSettings, data_dir: Path) -> list[str]:
    """Return the command of a Locust that joins the run in this folder, without its web page."""
    load = settings.load
    command = [
        *(sys.executable, "-m", "soak.load.locust_start", "--locustfile", str(find_locustfile())),
        *("--headless", "--only-summary"),
        *("--users", str(load.users + load.browser_users), "--spawn-rate", str(load.spawn_rate)),
        *("--stop-timeout", str(math.ceil(load.drain)), "--data-dir", str(data_dir)),
    ]
    if load.processes > 1:
        # Locust would take port 5557 on every interface, which another Locust may already have.
        port = str(free_port())
        command += ["--processes", str(load.processes), "--master-bind-host", HOST, "--master-bind-port", port]
        command += ["--master-host", HOST, "--master-port", port]
    return command


def find_locustfile() -> Path:
    """Return the locust file that belongs to this soak."""
    package = Path(soak.__file__).resolve().parent
    for root in (package.parent, package):
        if (root / LOCUSTFILE).is_file():
            return root / LOCUSTFILE
    raise UsageError(f"{LOCUSTFILE} is not beside the package {package}; run with --no-load and start Locust yourself")


def child_environment(settings: SoakSettings, data_dir: Path) -> dict[str, str]:
    """Return our environment with the effective settings in it."""
    absolute = settings.model_copy(update={"data_dir": data_dir})
    # Locust reads its own variables and would change what is run.
    kept = {name: value for name, value in os.environ.items() if not name.startswith((ENVIRONMENT_PREFIX, "LOCUST_"))}
    import_path = [str(Path(soak.__file__).resolve().parent.parent), *filter(None, [kept.get("PYTHONPATH")])]
    return {
        **kept,
        **as_environment(absolute),
        SUPERVISED_VARIABLE: "1",
        "PYTHONUNBUFFERED": "1",
        "PYTHONPATH": os.pathsep.join(import_path),
    }


OUTPUT_SECONDS_MAX = 5.0
"""How long output is still read after a child has ended."""


class Child:
    """One supervised process.

    If it ends though nobody asked it to, it is started again after a pause; after too many deaths in a short
    time it is given up. `is_final` is asked when it ends, and says whether its work is done; `ended_by` names the fault
    that has ended it on purpose, which counts as no death.
    """

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        *,
        environment: Mapping[str, str],
        log_path: Path,
        settings: SupervisionSettings,
        register: ChildrenFile,
        is_final: Callable[[], bool] = lambda: False,
        ended_by: Callable[[], str] = lambda: "",
        on_event: Callable[[str], None] = lambda _text: None,
    ) -> None:
        self.name = name
        self.state = "stopped"
        self.restarts = 0
        self.last_exit: int | None = None
        self.ended = asyncio.Event()
        """It will not be started again: asked to stop, final, or given up."""
        self._argv = argv
        self._environment = environment
        self._log = ChildLog(log_path)
        self._settings = settings
        self._register = register
        self._is_final = is_final
        self._ended_by = ended_by
        self._on_event = on_event
        self._deaths: deque[float] = deque(maxlen=settings.restarts_max + 1)
        self._process: asyncio.subprocess.Process | None = None
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    @property
    def is_started(self) -> bool:
        return self._task is not None

    @property
    def is_up(self) -> bool:
        return self.state == "running"

    @property
    def gave_up(self) -> bool:
        return self.state == "gave up"

    @property
    def last_words(self) -> str:
        return self._log.last_error or self._log.last_line

    @property
    def log_path(self) -> Path:
        return self._log.path

    def status(self) -> ChildStatus:
        return ChildStatus(
            name=self.name, state=self.state, pid=self.pid, restarts=self.restarts, last_exit=self.last_exit
        )

    def start(self) -> None:
        self._task = asyncio.create_task(self._supervise(), name=f"supervise {self.name}")

    async def stop(self, grace_seconds: float) -> None:
        """Ask it to end, wait, and kill it with all its children after the given time."""
        self._stopping.set()
        if self._task is None:
            self.ended.set()
            return
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(grace_seconds):
                await self.ended.wait()
        except TimeoutError:
            self._on_event(f"{self.name} did not end within {grace_seconds:g}s and is killed")
            self.kill()
        await self._task

    async def end_now(self) -> None:
        """Kill it and its children."""
        self.kill()
        if self._task is not None:
            await self._task

    def kill(self) -> None:
        """Begin to end it now; its own children are ended with it."""
        self._stopping.set()
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()

    async def _supervise(self) -> None:
        try:
            while not self._stopping.is_set():
                code = await self._live()
                if self._stopping.is_set() or self._is_final():
                    break
                if not self._may_live_again(code):
                    self.state = "gave up"
                    return
                await self._pause()
            self.state = "stopped"
        except OSError as error:
            self.state = "gave up"
            self._on_event(f"{self.name} cannot be started: {error.strerror or error}")
        finally:
            self.ended.set()

    async def _live(self) -> int:
        """Run it once, to its end."""
        process, output, pipe = await spawn(self._argv, self._environment)
        self._process = process
        started = identify(process.pid)
        self._register.note(self.name, started)
        self.state = "running"
        copying = asyncio.create_task(self._log.copy(output))
        if self._stopping.is_set():  # it was asked to end while it was being started
            process.terminate()
        try:
            code = await process.wait()
        finally:
            self.state = "down"
            await self._tidy(started, copying)
            pipe.close()
        self.last_exit = code
        return code

    async def _tidy(self, started: Started, copying: asyncio.Task[None]) -> None:
        end_group(started)
        self._process = None
        self._register.note(self.name, None)
        done, _ = await asyncio.wait({copying}, timeout=OUTPUT_SECONDS_MAX)
        if not done:
            copying.cancel()

    def _may_live_again(self, code: int) -> bool:
        if fault := self._ended_by():
            self._on_event(f"{self.name} was ended by {fault} and is started again")
            return True
        now = time.monotonic()
        while self._deaths and now - self._deaths[0] > self._settings.window:
            self._deaths.popleft()
        self._deaths.append(now)
        how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        if len(self._deaths) > self._settings.restarts_max:
            self._on_event(f"{self.name} died {len(self._deaths)} times ({how}) and is given up: {self.last_words}")
            return False
        self._on_event(f"{self.name} died ({how}) and is started again")
        return True

    async def _pause(self) -> None:
        self.state = "backing off"
        seconds = pause_seconds(len(self._deaths), self._settings)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
                return
        self.restarts += 1


def pause_seconds(deaths: int, settings: SupervisionSettings) -> float:
    """Return how long to wait after so many deaths: not at all after the first, then twice as long each time."""
    return 0.0 if deaths <= 1 else min(settings.backoff * 2.0 ** (deaths - 2), settings.backoff_max)
