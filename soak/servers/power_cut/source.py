"""What can be cut under a server: the same steps for the shim and for a file system of the server's own."""

from __future__ import annotations

import abc
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Literal, NamedTuple

PowerCutWay = Literal["auto", "shim", "filesystem"]
"""How the power of servers is cut: `auto` is the shim for processes and the file system for containers."""

Step = Callable[[], Awaitable[object]]


class CutPower(NamedTuple):
    """What a power cut took."""

    files: int
    """How many files had anything unsynced."""
    bytes_cut: int
    """Written beyond what was synced."""
    blocks_restored: int
    """Overwritten, and not synced."""


class PowerSource(abc.ABC):
    """The power of one server. Its methods block and are called in threads, except `cut_under`."""

    no_io_errors: str | None = None
    """Why it cannot make a disk fail; None if it can."""
    allows_preload: bool = True
    """Whether another library may be preloaded into the server."""
    allows_exchange: bool = True
    """Whether the data folders of two servers can be swapped in one step."""
    was_cut: bool = False
    """Whether the power was cut and no server has come back since; kept only where a start may need to know."""

    def provide_disk(self) -> Path | None:
        """Make the folder of the data available, before anything is looked for there; returns where its disk is."""
        return None

    def turn_on(self) -> dict[str, str]:
        """Begin to follow what is synced; returns the environment that the server needs."""
        return {}

    def came_back(self) -> None:  # noqa: B027  most need no note
        """Take note that a server runs on it again."""

    @abc.abstractmethod
    def problem(self, folder: Path) -> str | None:
        """Return why the server that runs on this folder could not lose its power; None if it can."""

    @abc.abstractmethod
    async def cut_under(self, freeze: Step, kill: Step) -> CutPower | None:
        """End a server by these steps, and lose what it has not synced; None where nobody counts that."""
