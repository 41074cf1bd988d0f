"""What a server runs in, as its supervisor sees it: a process here, a container, or a server that is not ours."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol, runtime_checkable

from soak.errors import ServerUnreachableError, UsageError
from soak.servers.ports import HOST
from soak.servers.power_cut.source import CutPower, PowerSource
from soak.servers.versions import ServerRelease


class PortTakenError(ServerUnreachableError):
    """Somebody else listens on the port."""

    def __init__(self, title: str, port: int) -> None:
        super().__init__(
            f"{title} cannot listen on {HOST}:{port}: the port is taken by another process; "
            "end that or choose another data folder"
        )


class StillLoadingError(Exception):
    """The server is there and reads its data back."""


@runtime_checkable
class Upgradable(Protocol):
    """A backend whose server can be another version on the same data."""

    def next_release(self) -> ServerRelease:
        """Return what it would become; raises `UsageError` that says why there is nothing."""

    async def upgrade(self) -> None:
        """Be that from the next launch on, and after every later start of ours; the server has been ended.

        Raises `SoakError` if it fails, and then the next launch is of what it was.
        """


@runtime_checkable
class OnKubernetes(Protocol):
    """A backend whose server is a workload in Kubernetes, which its operator has named."""

    async def delete_pod(self, grace_seconds: float) -> None:
        """Delete the pod, and return when it is gone; its controller makes another."""

    async def evict_pod(self) -> None:
        """Evict the pod as a drained node does, and return when it is gone."""

    async def restart_rollout(self) -> None:
        """Have all pods replaced; that goes on afterwards."""

    async def replicas(self) -> int:
        """Return how many pods are wanted."""

    async def scale(self, replicas: int) -> None:
        """Have so many pods; to none it returns when all are gone."""

    async def isolate(self) -> None:
        """Let no connection in to any pod."""

    async def rejoin(self) -> None:
        """Let connections in again."""


class ServerBackend(abc.ABC):
    """Starts and ends what runs the server. Who may do so, and when, is decided by the server it belongs to."""

    ready_seconds_max = 120.0
    """For a first answer after the launch, unless the server says that it is still loading."""
    answer_seconds_max = 2.0
    """For an answer to a question."""
    is_ours = True
    """Whether the server was started here; a given server is left running at the end."""
    is_local_process = False
    """Whether it is a process of this machine, with its files in a folder here."""
    restarts_elsewhere = False
    """Whether somebody else restarts it: then the old server may still answer for a while."""
    memory_bytes: int | None = None
    """Its memory limit, where it has one of its own."""
    url: str | None = None
    """Its address, where that was given."""

    def __init__(self, title: str, folder: Path, options: Mapping[str, str], *, log_name: str = "server.log") -> None:
        self.title = title
        """The server in words, such as `Valkey 9 for redis`."""
        self.folder = folder
        """Where its log and settings are kept; a folder of its own on this machine."""
        self.log_path = folder / log_name
        self.options = options
        """Settings of the server that replace ours, from the next launch on."""
        self.power: PowerSource | None = None
        """What can be cut: a shim under a process that knows what was synced, or a disk of the server's own."""

    @property
    @abc.abstractmethod
    def working_folder(self) -> Path:
        """The folder of its data on this machine; raises `UsageError` where there is none."""

    @property
    def pid(self) -> int | None:
        """Its first process on this machine, while it lives."""
        return None

    @property
    def pid_inside(self) -> int | None:
        """The same as the server itself sees it; None where that is not known."""
        return None

    @property
    @abc.abstractmethod
    def no_power_cut(self) -> str | None:
        """Why its power cannot be cut; None if it can."""

    def refuses(self, what: str) -> str | None:
        """Return why it must not be `killed`, `stopped`, `paused`, `wiped` or `configured`; None if it may."""
        del what
        return None

    def refuses_fault(self, fault: str) -> str | None:
        """Return why its operator does not let this fault happen; None if it may."""
        del fault
        return None

    def check(self, what: str) -> None:
        """Raise `UsageError` if it must not be `killed`, `stopped`, `paused`, `wiped` or `configured`."""
        if (why := self.refuses(what)) is not None:
            raise UsageError(f"{self.title} cannot be {what}: {why}")

    @abc.abstractmethod
    async def launch(self) -> None:
        """Start it on its data, or on new data if there is none; raises `PortTakenError` if its port is taken."""

    @abc.abstractmethod
    async def how_it_ended(self) -> str | None:
        """Return how it ended by itself; None while it lives."""

    def what_is_wrong(self) -> str | None:
        """Return what is wrong with it although it answers."""
        return None

    @abc.abstractmethod
    async def end(self, seconds: float) -> None:
        """Ask it to end, and kill it after the given time."""

    @abc.abstractmethod
    async def kill(self) -> None:
        """Kill all its processes at once."""

    @abc.abstractmethod
    async def freeze(self) -> None:
        """Suspend all its processes."""

    @abc.abstractmethod
    async def thaw(self) -> None:
        """Let them go on."""

    @abc.abstractmethod
    async def wipe(self) -> None:
        """Remove all data; it is not running."""

    @abc.abstractmethod
    async def cut_power(self) -> CutPower | None:
        """Kill all its processes at once and drop what they had not synced; None where that is not counted."""

    @abc.abstractmethod
    async def last_words(self, lines_max: int = 3) -> str:
        """Return the last lines it logged since its last start, as one line."""


class HandsOffBackend(ServerBackend):
    """A server without a process of ours: what needs one is refused, or is nothing at all if `refuses` allows it."""

    async def how_it_ended(self) -> str | None:
        return None

    async def launch(self) -> None:
        """Nothing is started here."""

    async def end(self, seconds: float) -> None:
        del seconds
        self.check("stopped")

    async def kill(self) -> None:
        self.check("killed")

    async def freeze(self) -> None:
        self.check("paused")

    async def thaw(self) -> None:
        self.check("resumed")

    async def wipe(self) -> None:
        self.check("wiped")

    async def cut_power(self) -> CutPower | None:
        self.check("cut off")
        return None

    async def last_words(self, lines_max: int = 3) -> str:
        del lines_max
        return ""
