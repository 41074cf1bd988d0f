"""The server's clock is set while it serves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from soak.faults.fault import Fault, FaultUnavailableError

if TYPE_CHECKING:
    from soak.testbed.local import LocalTestbed

SECONDS_DEFAULT = 3600
_ROOTS = (Path("/usr/lib"), Path("/usr/local/lib"), Path("/usr/lib64"))
_NAME = "libfaketimeMT.so.1"  # the one for programs with threads
_MARK = "FAKETIME"


class ClockStep(Fault):
    """The server restarts an hour ahead, as on a host whose clock was wrong, and an hour back when it is healed."""

    name = "clock_step"
    kind = "clock_step"
    description = (
        "The server's clock is an hour ahead, with a clean restart before and after; what was to live longer than "
        "that may not be lost, and an order by the server's clock turns around."
    )
    targets = ("redis", "postgres", "postgres-replica")

    def __init__(self, seconds: int = SECONDS_DEFAULT, library: Path | None = None) -> None:
        """Set the clock so far ahead, by a libfaketime that is given or found."""
        self.seconds = seconds
        self._library = library

    def unavailable(self, bed: LocalTestbed, target: str) -> str | None:
        reason = super().unavailable(bed, target)
        if reason is not None:
            return reason
        if self.library() is None:
            return "libfaketime is not installed; install it (apt install libfaketime, dnf install libfaketime)"
        if bed.servers[target].power is not None:
            return "the server runs under the shim of power cuts, which libfaketime cannot share it with"
        return None

    def library(self) -> Path | None:
        if self._library is not None:
            return self._library
        patterns = (f"faketime/{_NAME}", f"*/faketime/{_NAME}")
        return next((path for root in _ROOTS for pattern in patterns for path in sorted(root.glob(pattern))), None)

    async def inject(self, bed: LocalTestbed, target: str) -> None:
        library = self.library()
        if library is None:
            raise FaultUnavailableError(f"{self.name} cannot be injected: {self.unavailable(bed, target)}")
        server = bed.servers[target]
        await server.stop_cleanly()
        server.environment = {
            "LD_PRELOAD": str(library),
            _MARK: f"{self.seconds:+d}s",
            # Only the wall clock is set: timers and sleeps go by the other one.
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }
        await server.start_again()

    async def heal(self, bed: LocalTestbed, target: str) -> None:
        server = bed.servers[target]
        if _MARK in server.environment:
            await server.stop_cleanly()
            server.environment = {}
        await server.start_again()
