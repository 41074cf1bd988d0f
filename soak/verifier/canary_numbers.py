"""Which canary sessions may be in a store: kept on disk, so that a kill leaves none behind for good."""

from __future__ import annotations

import contextlib
from pathlib import Path

import msgspec

FILE_NAME = "canary.json"
LEFT_MAX = 100
"""Sessions of a store still to be removed that are remembered, at most."""


class _Saved(msgspec.Struct):
    """The last number that was given out for a store, and those whose sessions may still be there."""

    last: int = 0
    left: list[int] = []


class CanaryNumbers:
    """Gives each canary a number of its own, for the whole run."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE_NAME
        self._saved: dict[str, _Saved] = {}
        # What cannot be read is no reason to stop: at worst a few messages stay until the namespace is cleaned up.
        with contextlib.suppress(OSError, msgspec.MsgspecError):
            self._saved = msgspec.json.decode(self._path.read_bytes(), type=dict[str, _Saved])

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
        temporary = self._path.with_suffix(".part")
        with contextlib.suppress(OSError):
            temporary.write_bytes(msgspec.json.encode(self._saved))
            temporary.replace(self._path)
