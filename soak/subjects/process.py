"""The processes of a subject: started, killed without warning, and never left behind."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from soak.errors import ServerUnreachableError
from soak.masking import mask
from soak.proc.spawn import PIPE, AsyncProcess, start_async
from soak.proc.tree import end_async, kill_group
from soak.servers.web_process import CONTEXT_VARIABLE, QUIET, READY_SECONDS_MAX, ServiceContext, ServiceProgram
from soak.subjects import environment
from soak.subjects.description import Subject

KIT = Path(__file__).with_name("kit")
END_SECONDS_MAX = 10.0
LAST_LINES = 4
_KEPT = ("LANG", "LC_ALL", "PATH", "TMPDIR", "TZ")


def quiet_environment() -> dict[str, str]:
    """Return what every subject finds in its environment: the kit, and nobody to talk to."""
    # Nothing of our own environment but paths and locale: it may hold secrets.
    ours = {name: os.environ[name] for name in _KEPT if name in os.environ}
    return {**ours, **QUIET, "PYTHONPATH": str(KIT)}


def command_of(subject: Subject, interpreter: Path) -> list[str]:
    """Return how a subject is started; its own folder is not searched, for a script may be called like its library."""
    return [str(interpreter), "-P", subject.script]


class SubjectProcess:
    """One process of a subject, with an address of its own."""

    def __init__(
        self,
        subject: Subject,
        interpreter: Path,
        context: ServiceContext,
        log: Path,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._subject = subject
        self._interpreter = interpreter
        self._context = context
        self._log = log
        self._environment = dict(environment or {})
        self._child: AsyncProcess | None = None
        self.url = ""
        """Changes with every start."""

    @property
    def is_alive(self) -> bool:
        return self._child is not None and self._child.returncode is None

    async def start(self) -> None:
        """Start it, and return when it answers at `url`."""
        with self._log.open("ab") as log:
            self._child = await start_async(
                command_of(self._subject, self._interpreter),
                stdin=PIPE,
                stdout=PIPE,
                stderr=log,
                cwd=self._context.folder,
                environment=self._surroundings(),
            )
        assert self._child.stdout is not None  # noqa: S101  it is a pipe
        try:
            async with asyncio.timeout(READY_SECONDS_MAX):
                line = await self._child.stdout.readline()
            self.url = f"http://127.0.0.1:{json.loads(line)['port']}"
        except TimeoutError:
            await self.kill()
            raise self._failure(f"did not come up within {READY_SECONDS_MAX:.0f} s") from None
        except (ValueError, KeyError, TypeError):
            await self.kill()
            raise self._failure("did not come up") from None
        except BaseException:
            await self.kill()
            raise

    async def kill(self) -> None:
        """End it at one moment, with no chance to write anything."""
        child = self._child
        if child is None:
            return
        kill_group(child.pid)  # with what the library may have started
        await child.wait()
        if child.stdin is not None:
            child.stdin.close()

    async def stop(self) -> None:
        """Ask it to end, and see to it that it does."""
        child = self._child
        if child is None:
            return
        await end_async(child, END_SECONDS_MAX)
        await self.kill()
        self._child = None

    def last_words(self) -> str:
        """Return the end of its log in one line, without passwords."""
        try:
            lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return ""
        return mask(" ".join(" ".join(lines[-LAST_LINES:]).split()))

    def _surroundings(self) -> dict[str, str]:
        return {
            **quiet_environment(),
            "HOME": self._context.folder,
            CONTEXT_VARIABLE: msgspec.json.encode(self._context).decode(),
            **self._environment,
        }

    def _failure(self, what: str) -> ServerUnreachableError:
        words = self.last_words() or "it said nothing"
        return ServerUnreachableError(f"{self._subject.name} {what}: {words[-300:]} (log: {self._log})")


def program_of(subject: Subject, say: Callable[[str], None]) -> ServiceProgram:
    """Return the program that serves a subject; its environment is made at the first start, as `say` announces."""
    return ServiceProgram(
        name=subject.name,
        command=lambda: command_of(subject, environment.interpreter_for(subject, environment.default_folder(), say)),
        needs=tuple(subject.needs),
        processes=subject.processes,
        environment=quiet_environment(),
    )
