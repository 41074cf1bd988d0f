"""A memory service as a local process: any program that is told by its environment where to listen and what it has."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from soak.masking import mask
from soak.servers import process
from soak.servers.folder_mark import make_marked
from soak.servers.process_backend import Berth, ProcessVessel

TOLD_VARIABLE = "SOAK_SUBJECT"
"""The environment variable with all that a service is told, as JSON: addresses in it may hold passwords."""
READY_SECONDS_MAX = 180.0
"""Some libraries import for a long time on a busy machine."""


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What a service is told; the same fields as the `Surroundings` of the kit that subjects are served with."""

    servers: dict[str, str]
    """Address by kind of server."""
    folder: str
    """Where it may keep files."""
    ttl_seconds: int | None = None
    process: int = 0
    port: int = 0
    """Where to listen; 0: on any that is free."""
    processes: int = 1
    """How many share that port; the first one starts the others."""


@dataclass(frozen=True, kw_only=True)
class ServiceProgram:
    """A program that serves a memory at the port it is told, until it is asked to end or its standard input ends."""

    name: str
    """In words, for whoever reads of it."""
    command: Callable[[], Sequence[str]]
    """Returns how it is started; called in a thread, for its environment may have to be made first."""
    needs: tuple[str, ...] = ()
    """The kinds of servers it is given the addresses of."""
    processes: int = 1
    environment: Mapping[str, str] = field(default_factory=dict)
    """What it finds in its environment besides."""


class ServiceProcess(ProcessVessel):
    """Runs one service. Its data, where it keeps any itself, is in the folder it is told."""

    ready_seconds_max = READY_SECONDS_MAX

    def __init__(self, berth: Berth, program: ServiceProgram, servers: Callable[[], Mapping[str, str]]) -> None:
        """Tell it, at each start, the addresses that its servers have then."""
        super().__init__(f"{program.name} for {berth.kind}", berth, {})
        self._program = program
        self._servers = servers
        self._command: Sequence[str] | None = None

    async def prepare(self) -> None:
        if self._command is None:
            self._command = await asyncio.to_thread(self._program.command)
        make_marked(self.working_folder)

    def spawn(self) -> subprocess.Popen[bytes]:
        self._let_go()
        servers = self._servers()
        told = Told(
            servers={kind: servers[kind] for kind in self._program.needs},
            folder=str(self.working_folder),
            port=self.pinned.port,
            processes=self._program.processes,
        )
        return process.spawn(
            self._command or (),
            log=self.log_path,
            cwd=self.working_folder,
            home=self.working_folder,
            death_signal=self.death_signal,
            # In the environment: arguments, and so passwords, show in the process list.
            environment={
                **self._program.environment,
                **self.environment,
                TOLD_VARIABLE: msgspec.json.encode(told).decode(),
            },
            # It ends when we are gone, also where it stood still when the kernel's signal came.
            stdin=subprocess.PIPE,
        )

    async def last_words(self, lines_max: int = 3) -> str:
        """Return them without passwords: what a library logs of its server's address is not ours to choose."""
        return mask(await super().last_words(lines_max))

    async def end(self, seconds: float) -> None:
        await super().end(seconds)
        self._let_go()

    async def kill(self) -> None:
        await super().kill()
        self._let_go()

    def _let_go(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
