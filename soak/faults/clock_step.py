"""The server's clock is set while it serves."""

from __future__ import annotations

from pathlib import Path

from soak.checker.faults import Excuse, Promotion
from soak.faults.fault import NOT_A_PROCESS, Fault
from soak.faults.parameters import Given, OneOf, Time
from soak.servers.kinds import Protocol, names_of
from soak.servers.process_backend import ProcessBackend
from soak.servers.servers import Servers

_ROOTS = (Path("/usr/lib"), Path("/usr/local/lib"), Path("/usr/lib64"))
_NAME = "libfaketimeMT.so.1"  # the one for programs with threads
_MARK = "FAKETIME"


class ClockStep(Fault):
    """The server restarts with another time, as on a host whose clock was wrong, and with the right one afterwards."""

    name = "clock_step"
    excuses = Excuse.CLEAN
    promotes = Promotion.NONE
    description = (
        "The server's clock is wrong by the step, with a clean restart before and after. Messages that live longer "
        "than that may not be lost; an order by the server's clock breaks."
    )
    targets = names_of(Protocol.REDIS, Protocol.POSTGRES)

    needs = "libfaketime, and a server that is a process on this machine"
    step = Time(3600.0, "by how much the clock is wrong", least=1.0, most=86_400.0)
    direction = OneOf("ahead", "back", help="which way")

    def __init__(self, library: Path | None = None, **given: Given) -> None:
        """Set the clock by a libfaketime that is given or found."""
        super().__init__(**given)
        self._library = library

    def hindrance(self, servers: Servers, target: str) -> str | None:
        if self.library() is None:
            return "libfaketime is not installed; install it (apt install libfaketime, dnf install libfaketime)"
        backend = servers.nodes[target].backend
        if not isinstance(backend, ProcessBackend):
            return NOT_A_PROCESS
        if backend.power is not None and not backend.power.allows_preload:
            return "the server runs under the shim of power cuts, which libfaketime cannot share it with"
        return None

    def library(self) -> Path | None:
        if self._library is not None:
            return self._library
        patterns = (f"faketime/{_NAME}", f"*/faketime/{_NAME}")
        return next((path for root in _ROOTS for pattern in patterns for path in sorted(root.glob(pattern))), None)

    async def inject(self, servers: Servers, target: str) -> None:
        library = self.library()
        server = servers.nodes[target]
        process = server.backend
        if library is None or not isinstance(process, ProcessBackend):
            raise self.refusal(servers, target)
        await server.stop_cleanly()
        process.environment = {
            "LD_PRELOAD": str(library),
            _MARK: f"{'-' if self.direction == 'back' else '+'}{self.step:g}s",
            # Only the wall clock is set: timers and sleeps go by the other one.
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }
        await server.start_again()

    async def heal(self, servers: Servers, target: str) -> None:
        server = servers.nodes[target]
        process = server.backend
        if isinstance(process, ProcessBackend) and _MARK in process.environment:
            await server.stop_cleanly()
            process.environment = {}
        await server.start_again()
