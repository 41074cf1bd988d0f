"""A temporary folder for servers that is removed in the end, by the next one if its owner was killed.

Servers end with their owner, except those that were paused when it was killed: they go with the folder.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path

from soak.errors import UsageError
from soak.proc.lock import FILE_NAME, DataFolderLock, FolderInUseError
from soak.servers.power_cut import release_abandoned
from soak.servers.strays import kill_strays_below

UNLOCKED_SECONDS_MIN = 60.0
"""A folder this young may belong to somebody who has not come to lock it yet."""


class TemporaryFolder:
    """A folder of this process's own, open to the user that a server may run as."""

    def __init__(self, prefix: str) -> None:
        _remove_abandoned(prefix)
        self.path, self._lock = _new_folder(prefix)
        self.path.chmod(0o755)

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock.release()


def _new_folder(prefix: str) -> tuple[Path, DataFolderLock]:
    """Make a folder and lock it; one that somebody takes for abandoned in between is left to them."""
    while True:
        path = Path(tempfile.mkdtemp(prefix=prefix))
        lock = DataFolderLock(path)
        try:
            lock.acquire()
        except FolderInUseError:
            continue
        except UsageError:
            if path.exists():
                raise
            continue  # they have removed it by now
        if lock.path.exists():
            return path, lock
        lock.release()


def _remove_abandoned(prefix: str) -> None:
    release_abandoned()  # while their images are there: so much is known about them
    for folder in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        try:
            is_ours = folder.stat().st_uid == os.getuid()
            is_young = time.time() - folder.stat().st_mtime < UNLOCKED_SECONDS_MIN
            if not is_ours or (is_young and not (folder / FILE_NAME).exists()):
                continue
            with DataFolderLock(folder):
                kill_strays_below(folder.resolve())
                shutil.rmtree(folder, ignore_errors=True)
        except (OSError, UsageError):
            continue  # somebody uses it, or has just removed it
