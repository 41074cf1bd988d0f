"""The verifier's last word in numbers. It ends before Prometheus comes again; what its last sweep found must not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from soak.exposition import Exposition

_NAMES = {Exposition.TEXT: "last-metrics.txt", Exposition.OPENMETRICS: "last-metrics.openmetrics"}


def write(folder: Path, text: Callable[[Exposition], bytes]) -> None:
    for exposition, name in _NAMES.items():
        (folder / name).write_bytes(text(exposition))


def read(folder: Path, exposition: Exposition) -> str | None:
    """Return what a verifier has left here, if it came to its end."""
    try:
        return (folder / _NAMES[exposition]).read_text()
    except OSError:
        return None
