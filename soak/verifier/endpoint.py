"""What a verifier leaves for the daemon and for reports: where it listens, and its last metrics."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from soak import log
from soak.exposition import Exposition
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


# The verifier's last word in numbers. It ends before Prometheus comes again; what its last sweep found must not.


_log = log.get_logger("soak.verifier")
_NAMES = {Exposition.TEXT: "last-metrics.txt", Exposition.OPENMETRICS: "last-metrics.openmetrics"}


def write_last_metrics(folder: Path, text: Callable[[Exposition], bytes]) -> None:
    """Leave it whole or not at all: the result counts for more, and must find what room there is."""
    for exposition, name in _NAMES.items():
        part = folder / f"{name}.part"
        try:
            part.write_bytes(text(exposition))
            part.replace(folder / name)
        except OSError as error:
            _log.warning("last_metrics_not_written", error=str(error))
            part.unlink(missing_ok=True)


def read_last_metrics(folder: Path, exposition: Exposition) -> str | None:
    """Return what a verifier has left here, if it came to its end."""
    try:
        return (folder / _NAMES[exposition]).read_text()
    except OSError:
        return None
