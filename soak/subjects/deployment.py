"""A subject as it would run in production: several processes, none of which a session belongs to.

Each process listens on a port of its own, and callers choose one by number. So which process a message
goes through follows from its writer, the same in every run, as with a balancer that knows nothing of sessions.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

from soak.servers.kinds import HTTP
from soak.servers.web_process import ServiceContext
from soak.stores.http import HttpStore
from soak.stores.protocol import StoreContext
from soak.subjects.description import Subject
from soak.subjects.process import SubjectProcess

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
        context = ServiceContext(servers=dict(servers), folder=str(home), ttl_seconds=ttl_seconds, process=number)
        environment = environments[number] if number < len(environments) else {}
        processes.append(SubjectProcess(subject, interpreter, context, folder / f"subject-{number}.log", environment))
    deployment = Deployment(processes, namespace, timeout_seconds)
    try:
        await deployment.start()
        yield deployment
    finally:
        await deployment.stop()
