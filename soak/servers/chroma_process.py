"""Chroma's server as a local process, from the package that holds it and nothing else."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

from soak.servers import process
from soak.servers.folder_mark import make_marked
from soak.servers.ports import HOST
from soak.servers.process_backend import Berth, ProcessVessel
from soak.servers.quiet import QUIET
from soak.subjects import environment

VERSION = "1.5.9"
_LIBRARY = "chromadb"
PACKAGE = f"{_LIBRARY}=={VERSION}"
# The server is a library in Rust that needs none of the packages that the client does.
_SERVE = "import sys, chromadb_rust_bindings as chroma; chroma.cli(['chroma', *sys.argv[1:]])"


class ChromaProcess(ProcessVessel):
    """A Chroma on its own folder. Its environment is made when it is first needed, and kept."""

    def __init__(self, berth: Berth) -> None:
        super().__init__(f"Chroma {VERSION} for {berth.kind}", berth, {})
        self._interpreter: Path | None = None

    async def prepare(self) -> None:
        if self._interpreter is None:
            self._interpreter = await asyncio.to_thread(interpreter)
        make_marked(self.working_folder)

    def spawn(self) -> subprocess.Popen[bytes]:
        return process.spawn(
            (
                *(str(self._interpreter), "-P", "-c", _SERVE, "run"),
                *("--path", str(self.working_folder), "--host", HOST, "--port", str(self.pinned.port)),
            ),
            log=self.log_path,
            cwd=self.working_folder,
            home=self.working_folder,
            death_signal=self.death_signal,
            environment={**QUIET, **self.environment},
        )


def interpreter() -> Path:
    """Return the Python that can run the server; the first time it is installed, which needs an index."""
    folder = environment.default_folder()
    return environment.made_once("chroma", _LIBRARY, [PACKAGE], folder, lambda _text: None, alone=True)


def is_installed() -> bool:
    """Tell whether it can be started without a package index."""
    return environment.is_made(_LIBRARY, [PACKAGE], environment.default_folder(), alone=True)
