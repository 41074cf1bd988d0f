"""Healing: what is not yet healed is on disk, a heal is tried again, and the next start heals what a killed soak left.

A daemon may be killed in the middle of a fault. What dies with it needs nothing: its proxy, its servers, its
connections. What lives in a server that goes on, or on disk, is noted here before it is changed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

import msgspec

from soak.errors import ServerUnreachableError, SoakError, UsageError
from soak.faults.fault import Fault
from soak.proc.files import DamagedFileError, read_sealed, write_sealed
from soak.servers.server import Server
from soak.servers.servers import Servers

FILE_NAME = "unhealed.json"
HEAL_TRIES_MAX = 3
SERVING_SECONDS_MAX = 60.0
_AGAIN_SECONDS = 0.5
_POLL_SECONDS = 0.05


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """One fault of one server that began and is not yet healed."""

    fault: str
    """By its name in the catalogue."""
    target: str
    began_wall_seconds: float
    before: dict[str, str] = {}
    """What was in effect before it, to go back to."""


class _Kept(msgspec.Struct, frozen=True):
    notes: list[Note]


class Notes:
    """The notes about one server, in its folder: at most one of each fault."""

    def __init__(self, server: Server) -> None:
        self._path = server.folder / FILE_NAME
        self._target = server.name

    def all(self) -> list[Note]:
        try:
            kept = read_sealed(self._path, _Kept)
        except DamagedFileError as error:
            raise UsageError(
                f"{self._path} cannot be read ({error}), so nobody knows which faults of {self._target} are to be "
                "healed; choose another data folder"
            ) from error
        return kept.notes if kept is not None else []

    def begin(self, fault: str, before: Mapping[str, str] | None = None) -> None:
        """Note a fault before it happens; of one that is noted already, what was before it stays the first."""
        notes = self.all()
        known = next((note for note in notes if note.fault == fault), None)
        if known is not None and (known.before or not before):
            return
        note = Note(
            fault=fault, target=self._target, began_wall_seconds=time.time(), before=dict(before) if before else {}
        )
        self._write([*(one for one in notes if one.fault != fault), note])

    def before(self, fault: str) -> dict[str, str]:
        """Return what was in effect before a fault; nothing if it did not happen or is healed."""
        return next((note.before for note in self.all() if note.fault == fault), {})

    def end(self, fault: str) -> None:
        """Strike a fault out, once it is healed."""
        notes = self.all()
        left = [note for note in notes if note.fault != fault]
        if len(left) < len(notes):
            self._write(left)

    def _write(self, notes: list[Note]) -> None:
        if notes:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_sealed(self._path, _Kept(notes))
        else:
            self._path.unlink(missing_ok=True)


async def heal_surely(fault: Fault, servers: Servers, target: str) -> None:
    """Heal, at most so many times, and strike the fault out of the notes; raises what the last try raised."""
    for attempt in range(1, HEAL_TRIES_MAX + 1):
        try:
            await fault.heal(servers, target)
        except SoakError:
            if attempt == HEAL_TRIES_MAX:
                raise
            await asyncio.sleep(_AGAIN_SECONDS)
        else:
            break
    Notes(servers.nodes[target]).end(fault.name)


async def until_serving(servers: Servers, target: str, seconds: float = SERVING_SECONDS_MAX) -> None:
    """Wait until a server answers that may have died of a fault, and is brought back by its supervisor or here."""
    deadline = time.monotonic() + seconds
    while True:
        await servers.nodes[target].start_again()  # nothing where somebody watches over it
        try:
            await servers.telemetry(target)
        except ServerUnreachableError:
            if time.monotonic() >= deadline:
                raise
            await asyncio.sleep(_POLL_SECONDS)
        else:
            return
