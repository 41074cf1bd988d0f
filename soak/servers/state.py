"""What must stay the same from one start to the next: ports, passwords, and where data was put."""

from __future__ import annotations

from pathlib import Path

import msgspec

from soak.errors import DamagedRecordError
from soak.proc.files import DamagedFileError, read_sealed, write_sealed

FILE_NAME = "state.json"


class Pinned(msgspec.Struct):
    """One server's address and secret."""

    port: int
    password: str
    proxy_port: int | None = None
    """Where clients connect when there is a proxy."""
    version: str | None = None
    """Which version the data is for since it was changed for another one; None: the one that is asked for."""
    program: str | None = None
    """The program, or the image, of that version; None: the one that the version alone names."""
    nodes: dict[str, int] = {}
    """The ports of its nodes and of their fronts, where it is a group."""


class ServersState(msgspec.Struct):
    """The servers of one data folder."""

    servers: dict[str, Pinned] = {}
    identity: str | None = None
    """In the names of its containers and volumes, where there are any."""
    away: str | None = None
    """A folder elsewhere that holds what an unprivileged user cannot reach inside the data folder."""


def load(folder: Path) -> ServersState:
    """Read the state of this folder; an empty one if there is none yet."""
    path = folder / FILE_NAME
    try:
        return read_sealed(path, ServersState) or ServersState()
    except DamagedFileError as error:
        raise DamagedRecordError(
            f"{path} cannot be read ({error}): it holds the ports and passwords of the servers in {folder}; "
            "choose another data folder"
        ) from error


def save(folder: Path, state: ServersState) -> None:
    """Write the state in one step, readable by its owner only: it holds passwords."""
    write_sealed(folder / FILE_NAME, state, has_copy=True)
