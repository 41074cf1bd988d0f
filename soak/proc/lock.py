"""One daemon per data folder, for as long as that daemon lives."""

from __future__ import annotations

import fcntl
import os
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from soak.errors import UsageError

FILE_NAME = "lock"
_PID_BYTES_MAX = 32


class FolderInUseError(UsageError):
    """Another process uses this data folder."""


class DataFolderLock:
    """The right to use a data folder. The kernel takes it back when the process dies, however it dies."""

    def __init__(self, data_dir: Path) -> None:
        self.path = data_dir / FILE_NAME
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Take the lock, making the folder if it is not there; raises `UsageError` if another holds it."""
        if self._descriptor is not None:
            return
        descriptor = _open_writable(self.path)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.read(descriptor, _PID_BYTES_MAX).decode("ascii", "replace").strip() or "unknown"
            os.close(descriptor)
            raise FolderInUseError(
                f"the data folder {self.path.parent} is in use by process {holder}; "
                "stop it first or choose another folder with --data-dir"
            ) from error
        try:
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"{os.getpid()}\n".encode())
        except OSError as error:
            os.close(descriptor)
            raise _not_writable(self.path.parent, error) from error
        self._descriptor = descriptor

    def release(self) -> None:
        """Give the folder free. The file stays: removing it would let two processes hold two locks."""
        if self._descriptor is not None:
            os.ftruncate(self._descriptor, 0)
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def _open_writable(path: Path) -> int:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise _not_writable(path.parent, error) from error
    try:
        # The file may be older than the folder's write protection.
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        os.close(descriptor)
        raise _not_writable(path.parent, error) from error
    return descriptor


def _not_writable(folder: Path, error: OSError) -> UsageError:
    return UsageError(
        f"the data folder {folder} cannot be written ({error.strerror}); choose another folder with --data-dir"
    )
