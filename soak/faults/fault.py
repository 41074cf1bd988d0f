"""What every fault can do: say whether it is possible here, happen, and be healed."""

from __future__ import annotations

import abc
from typing import ClassVar

from soak.checker.faults import Excuse
from soak.errors import UsageError
from soak.servers.bed import Testbed
from soak.servers.process_backend import ProcessVessel
from soak.servers.server import Server


class FaultUnavailableError(UsageError):
    """A fault was asked for that is not possible on this testbed."""


def process_of(server: Server) -> ProcessVessel | None:
    """Return the process that a server is on this machine; None where it is a container or somebody else's."""
    return server.vessel if isinstance(server.vessel, ProcessVessel) else None


class Fault(abc.ABC):
    """One thing that goes wrong with one server."""

    name: ClassVar[str]
    excuses: ClassVar[Excuse]
    """What the contract lets it take; it travels in the fault's ledger records."""
    down: ClassVar[bool] = False
    """Whether the server does not answer from when this has been injected until it is healed."""
    serves: ClassVar[bool] = False
    """Whether the server goes on serving during it."""
    description: ClassVar[str]
    """One plain sentence: what happens to the server, and what may rightly be lost."""
    targets: ClassVar[tuple[str, ...]]
    """The kinds of servers it can happen to. Never the ledger."""

    @property
    def kind(self) -> str:
        """What the ledger calls it."""
        return self.name

    def unavailable(self, bed: Testbed, target: str) -> str | None:
        """Return why it cannot happen to this server here; None if it can."""
        if target not in self.targets:
            return f"{self.name} can happen to {' or '.join(self.targets)}, not to {target}"
        if target not in bed.servers:
            return f"no {target} server was started here"
        return bed.refuses(self.name, target) or self.hindrance(bed, target)

    def hindrance(self, bed: Testbed, target: str) -> str | None:
        """Return what this fault lacks to happen to a server that is there; None: nothing."""
        del bed, target
        return None

    @abc.abstractmethod
    async def inject(self, bed: Testbed, target: str) -> None:
        """Let it happen."""

    async def heal(self, bed: Testbed, target: str) -> None:
        """End it and return when the server serves as before; nothing if it has been healed, or never happened."""
        await bed.servers[target].start_again()
