"""Which folder a server keeps its data in: its name stays when it is removed and made anew, so it has a mark inside."""

from __future__ import annotations

import secrets
from pathlib import Path

from soak.checker.telemetry import FOLDER_MARK

_NAME = ".made"
_MARK_BYTES = 8


def make_marked(folder: Path) -> None:
    """Make the folder, and mark it, unless it is there."""
    folder.mkdir(mode=0o700, exist_ok=True)
    mark = folder / _NAME
    if not mark.exists():
        mark.write_text(secrets.token_hex(_MARK_BYTES), encoding="ascii")


def mark_of(folder: Path) -> dict[str, str]:
    """Return the folder's mark as telemetry; nothing if it has none."""
    try:
        return {FOLDER_MARK: (folder / _NAME).read_text(encoding="ascii")}
    except (OSError, UnicodeDecodeError):
        return {}
