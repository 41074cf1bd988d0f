"""The processes of a subject: started, killed without warning, and never left behind."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from soak.errors import ServerUnreachableError
from soak.masking import mask
from soak.proc.spawn import PIPE, AsyncProcess, start_async
from soak.proc.tree import end_async, kill_group
from soak.servers.kinds import HTTP
from soak.servers.web_process import CONTEXT_VARIABLE, QUIET, READY_SECONDS_MAX, ServiceContext, ServiceProgram
from soak.stores.http import HttpStore
from soak.stores.protocol import StoreContext
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
        factory=subject.factory,
        import_path=subject.import_path,
        environment=quiet_environment(),
    )


# -- a subject as it would run in production: several processes, none of which a session belongs to --
#
# Each process listens on a port of its own, and callers choose one by number. So which process a message goes through
# follows from its writer, the same in every run, as with a balancer that knows nothing of sessions.


CONNECTIONS_MAX = 16


class Deployment:
    """The processes of a subject, each with a store that speaks with it."""

    def __init__(self, processes: Sequence[SubjectProcess], namespace: str, timeout_seconds: float) -> None:
        self.processes = processes
        self._namespace = namespace
        self._timeout_seconds = timeout_seconds
        self._stores: list[HttpStore] = []

    def store(self, number: int) -> HttpStore:
        """Return the way to one of the processes; the numbers go round."""
        return self._stores[number % len(self._stores)]

    async def start(self) -> None:
        await self.restart()

    async def restart(self) -> None:
        """Start every process that is not alive, and connect to all again."""
        starting = (process.start() for process in self.processes if not process.is_alive)
        # All are waited for: one that is still coming up could not be stopped.
        for result in await asyncio.gather(*starting, return_exceptions=True):
            if isinstance(result, BaseException):
                raise result
        await self._connect()

    async def kill(self) -> None:
        """End all processes at one moment."""
        await asyncio.gather(*(process.kill() for process in self.processes))

    async def stop(self) -> None:
        await self._disconnect()
        await asyncio.gather(*(process.stop() for process in self.processes))

    async def _connect(self) -> None:
        await self._disconnect()
        for process in self.processes:
            context = StoreContext(
                servers={HTTP.name: process.url},
                namespace=self._namespace,
                timeout_seconds=self._timeout_seconds,
                connections_max=CONNECTIONS_MAX,
            )
            self._stores.append(await HttpStore.open(context))

    async def _disconnect(self) -> None:
        stores, self._stores = self._stores, []
        for store in stores:
            await store.close()


@contextlib.asynccontextmanager
async def deployed(
    subject: Subject,
    interpreter: Path,
    folder: Path,
    servers: Mapping[str, str],
    *,
    namespace: str,
    timeout_seconds: float,
    ttl_seconds: int | None = None,
    environments: Sequence[Mapping[str, str]] = (),
) -> AsyncIterator[Deployment]:
    """Run a subject; `environments` are what single processes see besides, in their order."""
    home = folder / "home"
    home.mkdir(parents=True, exist_ok=True)
    processes = []
    for number in range(subject.processes):
        context = ServiceContext(
            servers=dict(servers),
            folder=str(home),
            ttl_seconds=ttl_seconds,
            process=number,
            factory=subject.factory,
            import_path=subject.import_path,
        )
        environment = environments[number] if number < len(environments) else {}
        processes.append(SubjectProcess(subject, interpreter, context, folder / f"subject-{number}.log", environment))
    deployment = Deployment(processes, namespace, timeout_seconds)
    try:
        await deployment.start()
        yield deployment
    finally:
        await deployment.stop()
