"""What must stay the same from one start to the next: ports, passwords, and where data was put."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import msgspec

from soak.errors import UsageError

FILE_NAME = "state.json"


class Pinned(msgspec.Struct):
    """One server's address and secret."""

    port: int
    password: str
    proxy_port: int | None = None
    """Where clients connect when a proxy stands in front."""
    version: str | None = None
    """Which version the data is for since it was changed for another one; None: the one that is asked for."""
    program: str | None = None
    """The program, or the image, of that version; None: the one that the version alone names."""


class TestbedState(msgspec.Struct):
    """The servers of one data folder."""

    __test__ = False  # not a test class, whatever its name

    servers: dict[str, Pinned] = {}
    identity: str | None = None
    """In the names of its containers and volumes, where there are any."""
    away: str | None = None
    """A folder elsewhere that holds what an unprivileged user cannot reach inside the data folder."""


def load(folder: Path) -> TestbedState:
    """Read the state of this folder; an empty one if there is none yet."""
    path = folder / FILE_NAME
    try:
        return msgspec.json.decode(path.read_bytes(), type=TestbedState)
    except FileNotFoundError:
        return TestbedState()
    except (OSError, msgspec.MsgspecError) as error:
        raise UsageError(f"{path} cannot be read ({error}); choose another data folder or remove this one") from error


def save(folder: Path, state: TestbedState) -> None:
    """Write the state in one step, readable by its owner only: it holds passwords."""
    write_whole(folder / FILE_NAME, msgspec.json.encode(state))


def write_whole(path: Path, content: bytes, *, owner: tuple[int, int] | None = None) -> None:
    """Replace a file in one step: a reader sees the old or the new one; mode 600."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            if owner is not None:
                os.fchown(file.fileno(), *owner)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
