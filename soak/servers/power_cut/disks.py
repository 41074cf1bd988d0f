"""The disks of one testbed: which servers have one of their own, and why others have none."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Literal

from soak.errors import UsageError
from soak.servers.account import Account
from soak.servers.power_cut import loops
from soak.servers.power_cut.loopback_volume import LoopbackVolume, no_disks

PowerCutWay = Literal["auto", "shim", "filesystem"]
"""How the power of servers is cut: `auto` is the shim for processes and the file system for containers."""


class Disks:
    """Where data was begun it stays: a server that has a disk keeps it, and one that has data elsewhere gets none."""

    def __init__(self, folder: Path, *, size: int) -> None:
        """Keep images in the servers' folders below this one."""
        self._folder = folder
        self._size = size
        self._open: dict[str, LoopbackVolume] = {}

    def has(self, kind: str) -> bool:
        """Tell whether the data of this server was put on a disk."""
        return (self._folder / kind / loops.IMAGE_NAME).exists()

    def mount_point(self, kind: str) -> Path | None:
        """Return where the disk of this server is mounted while it runs; None if it has none."""
        return self._open[kind].mount_point if kind in self._open else None

    async def take(self, kind: str, owner: Account | None) -> LoopbackVolume:
        """Return the disk of this server, which is made if there is none; raises `SoakError` if there can be none."""
        if kind not in self._open:
            if (reason := no_disks()) is not None:
                raise UsageError(
                    f"the data of {kind} is on the disk {self._folder / kind / loops.IMAGE_NAME}, and there are "
                    f"{reason}; or choose another data folder"
                )
            disk = LoopbackVolume(self._folder / kind, self._size, owner)
            await asyncio.to_thread(disk.open)
            self._open[kind] = disk
        return self._open[kind]

    async def close(self) -> None:
        """Unmount all of them and give them free; their images stay."""
        for disk in self._open.values():
            await asyncio.to_thread(disk.close)
        self._open.clear()
