"""What a child says, kept in a file of bounded size, with its last line at hand."""

from __future__ import annotations

import asyncio
from pathlib import Path

BYTES_MAX = 10_000_000
_CHUNK_BYTES = 65_536
_LINE_BYTES_MAX = 500


class ChildLog:
    """Copies a child's output into a file; when it is full it becomes `….1` and a new one begins."""

    def __init__(self, path: Path, bytes_max: int = BYTES_MAX) -> None:
        self.path = path
        self._bytes_max = bytes_max
        self.last_line = ""
        self._rest = b""

    async def copy(self, stream: asyncio.StreamReader) -> None:
        """Copy until the child and all who inherited its output are gone."""
        while chunk := await stream.read(_CHUNK_BYTES):
            self._remember(chunk)
            self._write(chunk)

    def _write(self, chunk: bytes) -> None:
        try:
            if self.path.exists() and self.path.stat().st_size + len(chunk) > self._bytes_max:
                self.path.replace(self.path.with_name(self.path.name + ".1"))
            with self.path.open("ab") as file:
                file.write(chunk)
        except OSError:
            # A full disk must not stop the child: its pipe is read on, the last line is still kept.
            return

    def _remember(self, chunk: bytes) -> None:
        *lines, rest = (self._rest + chunk).split(b"\n")
        self._rest = rest[-_LINE_BYTES_MAX:]
        said = (" ".join(line[-_LINE_BYTES_MAX:].decode("utf-8", "replace").split()) for line in reversed(lines))
        self.last_line = next(filter(None, said), self.last_line)
