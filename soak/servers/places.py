"""Letting two folders change places in one step: whoever is killed meanwhile leaves both whole."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

from soak.errors import ServerUnreachableError

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


def change_places(one: Path, other: Path) -> None:
    """Give each of two folders the name of the other; raises `ServerUnreachableError` where that cannot be done."""
    libc = ctypes.CDLL(None, use_errno=True)
    paths = (os.fsencode(one), os.fsencode(other))
    if libc.renameat2(_AT_FDCWD, paths[0], _AT_FDCWD, paths[1], _RENAME_EXCHANGE) != 0:
        reason = os.strerror(ctypes.get_errno())
        raise ServerUnreachableError(
            f"{one} and {other} cannot change places ({reason}); put the data folder on another filesystem"
        )
