"""Which canary sessions may be in a store: kept on disk, so that a kill leaves none behind for good."""

from __future__ import annotations

import contextlib
from pathlib import Path

import msgspec

from soak.proc.files import DamagedFileError, read_sealed, set_aside, write_sealed

FILE_NAME = "canary.json"
LEFT_MAX = 100
"""Sessions of a store still to be removed that are remembered, at most."""


class _Saved(msgspec.Struct):
    """The last number that was given out for a store, and those whose sessions may still be there."""

    last: int = 0
    left: list[int] = []


class _File(msgspec.Struct):
    stores: dict[str, _Saved] = {}


class CanaryNumbers:
    """Gives each canary a number of its own, for the whole run."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE_NAME
        self._saved: dict[str, _Saved] = {}
        self.damage = ""
        """What is wrong with what was saved, if something is: no reason to stop."""
        try:
            saved = read_sealed(self._path, _File)
            self._saved = saved.stores if saved is not None else {}
        except DamagedFileError as error:
            self.damage = (
                f"{self._path.name} was damaged ({error}) and is set aside as {set_aside(self._path).name}: sessions "
                "of canaries that were left in a store stay there until its namespace is cleaned up"
            )

    def take(self, store: str) -> int:
        """Give out the next number; it is on disk before the first message is written."""
        saved = self._saved.setdefault(store, _Saved())
        saved.last += 1
        saved.left = [*saved.left[-LEFT_MAX + 1 :], saved.last]
        self._save()
        return saved.last

    def left(self, store: str) -> list[int]:
        """Return the numbers whose sessions may be in the store."""
        saved = self._saved.get(store)
        return list(saved.left) if saved is not None else []

    def removed(self, store: str, number: int) -> None:
        saved = self._saved[store]
        saved.left = [one for one in saved.left if one != number]
        self._save()

    def _save(self) -> None:
        with contextlib.suppress(OSError):
            write_sealed(self._path, _File(self._saved), is_synced=False)
