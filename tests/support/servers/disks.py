"""What is done to disks of servers, and what is left of them."""

from __future__ import annotations

from pathlib import Path

from soak.servers.power_cut import LoopbackVolume, loops


def left_of(folder: Path) -> list[str]:
    """Name the devices and mounts whose images are, or were, below a folder."""
    found = [loop for loop in loops.loops() if loop.image.is_relative_to(folder.resolve())]
    return [f"{loop.device} {[str(one.point) for one in loops.mounts_of(loop.number)]}" for loop in found]


def append_zeros(found: object, below: str = "data") -> None:
    """Leave what a file system leaves that had noted a file's new length, and not yet what is there."""
    assert isinstance(found, LoopbackVolume)
    (path,) = (found.mount() / below / "appendonlydir").glob("*.incr.aof")
    with path.open("ab") as file:
        file.write(b"\0" * 3_000)
