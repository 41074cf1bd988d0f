"""Servers that are asked over HTTP, as local processes: a memory service, and Chroma.

A service is any program that learns from its environment where to listen and which servers it has. Chroma's server
comes from the package that holds it and nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from soak.masking import mask
from soak.proc.spawn import PIPE, Running
from soak.servers.ports import HOST
from soak.servers.process_backend import ProcessBackend, ProcessSite
from soak.servers.web import make_marked
from soak.subjects import environment

CONTEXT_VARIABLE = "SOAK_SUBJECT"
"""The environment variable that holds a service's context as JSON; its addresses may hold passwords."""
READY_SECONDS_MAX = 180.0
"""On a busy machine some libraries take long to import."""
CHROMA_VERSION = "1.5.9"
_CHROMA = "chromadb"
CHROMA_PACKAGE = f"{_CHROMA}=={CHROMA_VERSION}"
# The server is a library in Rust that needs none of the packages that the client does.
_SERVE = "import sys, chromadb_rust_bindings as chroma; chroma.cli(['chroma', *sys.argv[1:]])"

_NOBODY = "http://127.0.0.1:9"
"""The discard port, where nobody listens."""

QUIET = {
    "HTTP_PROXY": _NOBODY,
    "HTTPS_PROXY": _NOBODY,
    "http_proxy": _NOBODY,
    "https_proxy": _NOBODY,
    "NO_PROXY": "127.0.0.1,localhost",
    "no_proxy": "127.0.0.1,localhost",
    "DO_NOT_TRACK": "1",
    "AGNO_TELEMETRY": "false",
    "ANONYMIZED_TELEMETRY": "False",
    "HF_HUB_OFFLINE": "1",
    "LANGCHAIN_TRACING_V2": "false",
    "LANGSMITH_TRACING": "false",
    "MEM0_TELEMETRY": "False",
    "OPENAI_AGENTS_DISABLE_TRACING": "1",
    "OTEL_SDK_DISABLED": "true",
    "PYTHONUNBUFFERED": "1",
    "PYTHONNOUSERSITE": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
"""Environment that disables telemetry and blocks outgoing HTTP."""


class ServiceContext(msgspec.Struct, frozen=True, kw_only=True):
    """What a service gets; the same fields as the `Surroundings` of the kit that subjects are served with."""

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
    factory: str = ""
    """What makes its memory, as `module:factory`, if the program does not say."""
    import_path: str = ""
    """Where that module is looked for besides its packages."""


@dataclass(frozen=True, kw_only=True)
class ServiceProgram:
    """A program that serves a memory at the given port until it is asked to end or its standard input closes."""

    name: str
    """For messages."""
    command: Callable[[], Sequence[str]]
    """Returns its command line; called in a thread, because its environment may have to be installed first."""
    needs: tuple[str, ...] = ()
    """The kinds of servers it is given the addresses of."""
    processes: int = 1
    factory: str = ""
    import_path: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    """What it finds in its environment besides."""


class ServiceProcess(ProcessBackend):
    """Runs one service. Its data, where it keeps any itself, is in the given folder."""

    ready_seconds_max = READY_SECONDS_MAX

    def __init__(self, site: ProcessSite, program: ServiceProgram, servers: Callable[[], Mapping[str, str]]) -> None:
        """Give it, at each start, the addresses that its servers have then."""
        super().__init__(f"{program.name} for {site.name}", site, {})
        self._program = program
        self._servers = servers
        self._command: Sequence[str] | None = None

    async def prepare(self) -> None:
        if self._command is None:
            self._command = await asyncio.to_thread(self._program.command)
        make_marked(self.working_folder)

    async def spawn(self) -> Running:
        self._let_go()
        servers = self._servers()
        context = ServiceContext(
            servers={kind: servers[kind] for kind in self._program.needs},
            folder=str(self.working_folder),
            port=self.pinned.port,
            processes=self._program.processes,
            factory=self._program.factory,
            import_path=self._program.import_path,
        )
        return await self.start_program(
            self._command or (),
            home=self.working_folder,
            # In the environment: arguments, and so passwords, show in the process list.
            environment={
                **self._program.environment,
                **self.environment,
                CONTEXT_VARIABLE: msgspec.json.encode(context).decode(),
            },
            # It ends when we are gone, even if it was paused when the kernel's signal came.
            stdin=PIPE,
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


class ChromaProcess(ProcessBackend):
    """A Chroma on its own folder. Its environment is installed when it is first needed, and kept."""

    def __init__(self, site: ProcessSite) -> None:
        super().__init__(f"Chroma {CHROMA_VERSION} for {site.name}", site, {})
        self._interpreter: Path | None = None

    async def prepare(self) -> None:
        if self._interpreter is None:
            self._interpreter = await asyncio.to_thread(chroma_interpreter)
        make_marked(self.working_folder)

    async def spawn(self) -> Running:
        return await self.start_program(
            (
                *(str(self._interpreter), "-P", "-c", _SERVE, "run"),
                *("--path", str(self.working_folder), "--host", HOST, "--port", str(self.pinned.port)),
            ),
            home=self.working_folder,
            environment={**QUIET, **self.environment},
        )


def chroma_interpreter() -> Path:
    """Return the Python that can run the server; the first time it is installed, which needs an index."""
    folder = environment.default_folder()
    return environment.made_once("chroma", _CHROMA, [CHROMA_PACKAGE], folder, lambda _text: None, alone=True)


def chroma_is_installed() -> bool:
    """Return whether it can be started without a package index."""
    return environment.is_made(_CHROMA, [CHROMA_PACKAGE], environment.default_folder(), alone=True)
