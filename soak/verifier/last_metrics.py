"""The verifier's last word in numbers. It ends before Prometheus comes again; what its last sweep found must not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from soak import log
from soak.exposition import Exposition
from soak.proc.files import write_whole

_log = log.get_logger("soak.verifier")
_NAMES = {Exposition.TEXT: "last-metrics.txt", Exposition.OPENMETRICS: "last-metrics.openmetrics"}


def write(folder: Path, text: Callable[[Exposition], bytes]) -> None:
    """Leave it whole or not at all: the result counts for more, and must find what room there is."""
    for exposition, name in _NAMES.items():
        try:
            write_whole(folder / name, text(exposition), mode=0o644, is_synced=False)
        except OSError as error:
            _log.warning("the last metrics were not written", error=str(error))


def read(folder: Path, exposition: Exposition) -> str | None:
    """Return what a verifier has left here, if it came to its end."""
    try:
        return (folder / _NAMES[exposition]).read_text()
    except OSError:
        return None
