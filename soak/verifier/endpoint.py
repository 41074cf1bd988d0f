"""Where a verifier listens; it writes this down when it starts, for the daemon and for reports."""

from __future__ import annotations

from pathlib import Path

import msgspec

from soak.proc.files import DamagedFileError, read_sealed

FILE_NAME = "endpoint.json"


class Endpoint(msgspec.Struct, frozen=True):
    """An address, and whose it is."""

    host: str
    port: int
    pid: int


def read_endpoint(path: Path) -> Endpoint | None:
    """Return where the verifier listens; None if nobody has said so, or the file is damaged."""
    try:
        return read_sealed(path, Endpoint)
    except DamagedFileError:
        return None
