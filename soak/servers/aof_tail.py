"""What a power cut may leave at the end of an append-only file: zeros, where no bytes had reached the disk yet.

A file system may have written down that a file is longer before it has written what is there. The server takes a
command that is cut short for what it is, leaves it out and starts (`aof-load-truncated yes`); zeros it takes for
damage, and refuses to start until somebody cuts them off, with `valkey-check-aof --fix` or `redis-check-aof --fix`.
"""

from __future__ import annotations

from pathlib import Path

_PIECE_BYTES = 2**16
_NAMES = ("**/appendonlydir/*.incr.aof", "**/appendonly.aof")
"""Since 7.0 a folder of numbered files, the last of which is appended to; before, one file."""


def cut_zeros_off(folder: Path) -> tuple[Path, int]:
    """Cut zeros off the end of the file below this folder that was appended to last; returns it, and how many.

    Nothing else is changed: what may stand before them, a command that is cut short, the server leaves out itself.
    """
    found = [path for pattern in _NAMES for path in folder.glob(pattern)]
    if not found:
        return folder, 0
    path = max(found, key=lambda one: one.stat().st_mtime_ns)
    zeros = _zeros_at_end(path)
    if zeros:
        with path.open("r+b") as file:
            file.truncate(path.stat().st_size - zeros)
    return path, zeros


def _zeros_at_end(path: Path) -> int:
    with path.open("rb") as file:
        size = end = file.seek(0, 2)
        while end:
            start = max(0, end - _PIECE_BYTES)
            file.seek(start)
            kept = len(file.read(end - start).rstrip(b"\0"))
            if kept:
                return size - start - kept
            end = start
    return size
