"""Server versions by name: what a person may ask for, and what Docker calls it."""

from __future__ import annotations

import re
from typing import NamedTuple

_TITLES = {"redis": "Redis", "valkey": "Valkey", "postgres": "PostgreSQL"}
_REPOSITORIES = {"redis": "redis", "valkey": "valkey/valkey", "postgres": "postgres"}
_IMAGE_TAGS = {"valkey-9": "9.0"}
"""Where the tag that is to be pulled says more than the version that was asked for."""
_LOG_FOLDER_SINCE = 7
_WRITTEN = re.compile(r"(?:(redis|valkey|postgres)-?)?(\d{1,2}(?:\.\d{1,3}){0,2})?")


class ServerVersion(NamedTuple):
    """One version of one program."""

    family: str
    """`redis`, `valkey` or `postgres`."""
    number: str
    """As far as it was asked for: `7`, `7.0`, `7.0.15`."""

    @property
    def name(self) -> str:
        return f"{self.family}-{self.number}"

    @property
    def title(self) -> str:
        return f"{_TITLES[self.family]} {self.number}"

    @property
    def major(self) -> int:
        return int(self.number.partition(".")[0])

    @property
    def has_log_folder(self) -> bool:
        """Whether a Redis of this version keeps its append-only file as a folder of files."""
        return self.major >= _LOG_FOLDER_SINCE

    @property
    def image(self) -> str:
        """The official image, pinned to this version."""
        return f"{_REPOSITORIES[self.family]}:{_IMAGE_TAGS.get(self.name, self.number)}"

    def covers(self, found: str) -> bool:
        """Tell whether a program that says it is `found` is what was asked for: 7.0 covers 7.0.15, not 7.01."""
        return f"{found}.".startswith(f"{self.number}.")


VALKEY = ServerVersion("valkey", "9")
REDIS = ServerVersion("redis", "6.2")
POSTGRES = ServerVersion("postgres", "18")
_UNNUMBERED = {"redis": REDIS, "valkey": VALKEY, "postgres": POSTGRES}


def redis_version(text: str) -> ServerVersion:
    """Read `6.2`, `redis-7.0`, `valkey-9` or `valkey`; `ValueError` says what is wrong."""
    return _version(text, ("redis", "valkey"), "6.2, 7.0, 7.4 or valkey-9")


def postgres_version(text: str) -> ServerVersion:
    """Read `16` or `postgres-18`; `ValueError` says what is wrong."""
    return _version(text, ("postgres",), "16 or 18")


def _version(text: str, families: tuple[str, ...], examples: str) -> ServerVersion:
    found = _WRITTEN.fullmatch(text.strip().lower())
    family = found[1] or families[0] if found else ""
    if not found or not text.strip() or family not in families:
        raise ValueError(f"is no version; write one like {examples}")
    return ServerVersion(family, found[2]) if found[2] else _UNNUMBERED[family]
