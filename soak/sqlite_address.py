"""The address of a SQLite file: `sqlite:///folder/file.db?synchronous=normal`, or its path.

How it is synced belongs to a connection and not to the file. It is in the address, so that all who open it agree.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qs, quote, unquote, urlencode, urlsplit

SCHEME = "sqlite"
SYNCHRONOUS = ("off", "normal", "full", "extra")
"""By the number that SQLite gives them."""
SYNCHRONOUS_DEFAULT = "full"
WAL = "wal"
_OPTION = "synchronous"


class SqliteAddress(NamedTuple):
    """A file, and how its writers sync it."""

    path: Path
    synchronous: str = SYNCHRONOUS_DEFAULT

    @property
    def url(self) -> str:
        return f"{SCHEME}://{quote(str(self.path))}?{urlencode({_OPTION: self.synchronous})}"


def parse_sqlite(text: str) -> SqliteAddress:
    """Read `sqlite:///folder/file.db[?synchronous=normal]`, or a path; raises `ValueError` that says what is wrong."""
    parts = urlsplit(text)
    if parts.scheme and parts.scheme != SCHEME:
        raise ValueError(f"is not an address of this kind; write a path, or {SCHEME}:///folder/file.db")
    if parts.netloc:
        raise ValueError(f"names a host, and a file has none; write {SCHEME}:///folder/file.db, with three slashes")
    path = unquote(parts.path) if parts.scheme else parts.path
    if not path or path.endswith("/") or "\0" in path:
        raise ValueError(f"names no file; write a path, or {SCHEME}:///folder/file.db")
    options = parse_qs(parts.query)
    if unknown := sorted({*options} - {_OPTION}):
        raise ValueError(f"has the option {unknown[0]}, which is not known; there is {_OPTION}")
    chosen = options.get(_OPTION, [SYNCHRONOUS_DEFAULT])[-1].lower()
    if chosen not in SYNCHRONOUS:
        raise ValueError(f"has {_OPTION}={chosen}; choose from {', '.join(SYNCHRONOUS)}")
    return SqliteAddress(Path(path).absolute(), chosen)
