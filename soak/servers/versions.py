"""Server versions by name: what a person may ask for, and what Docker calls it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from soak.servers.kinds import PostgresTopology, RedisTopology
from soak.suggestion import did_you_mean

_TITLES = {"redis": "Redis", "valkey": "Valkey", "postgres": "PostgreSQL"}
_REPOSITORIES = {"redis": "redis", "valkey": "valkey/valkey", "postgres": "postgres"}
_IMAGE_TAGS = {"valkey-9": "9.0"}
"""For versions whose image needs a longer tag than was asked for."""
_LOG_FOLDER_SINCE = 7
_LAST_COMMON = (7, 2)
"""The last Redis whose files Valkey reads: Valkey is a fork of it."""
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

    @property
    def rank(self) -> tuple[int, int]:
        """The first two numbers, by which versions are ordered: all patches read the same files."""
        first, second, *_ = (*map(int, self.number.split(".")), 0)
        return first, second

    def covers(self, found: str) -> bool:
        """Return whether a program that says it is `found` is what was asked for: 7.0 covers 7.0.15, not 7.01."""
        return f"{found}.".startswith(f"{self.number}.")

    def is_upgrade_of(self, older: ServerVersion) -> bool:
        """Return whether this is a newer version that is meant to read what the older one wrote."""
        if self.family == older.family:
            return self.rank > older.rank
        return (self.family, older.family) == ("valkey", "redis") and older.rank <= _LAST_COMMON


class ServerRelease(NamedTuple):
    """A version that can be had, and where."""

    version: ServerVersion
    program: str | None = None
    """The path of a program, or the name of an image; None for the usual one of this version."""


VALKEY = ServerVersion("valkey", "9")
REDIS = ServerVersion("redis", "6.2")
POSTGRES = ServerVersion("postgres", "18")
STEPS = (
    ServerVersion("redis", "7.0"),
    ServerVersion("redis", "7.2"),
    ServerVersion("valkey", "8.1"),
    VALKEY,
)
"""What a Redis in Docker may become, if its official image is there."""
_UNNUMBERED = {"redis": REDIS, "valkey": VALKEY, "postgres": POSTGRES}


def next_release(
    now: ServerVersion, available: Iterable[ServerRelease], wanted: ServerVersion | None = None
) -> ServerRelease | None:
    """Return the next step upwards: Redis before Valkey, the smallest number first; or the one that is wanted.

    None where no release is an upgrade of what there is now.
    """
    newer = [
        release
        for release in available
        if release.version.is_upgrade_of(now)
        and (wanted is None or (release.version.family == wanted.family and wanted.covers(release.version.number)))
    ]
    return min(newer, key=lambda release: (release.version.family == "valkey", release.version.rank), default=None)


def redis_version(text: str) -> ServerVersion:
    """Read `6.2`, `redis-7.0`, `valkey-9` or `valkey`; `ValueError` says what is wrong."""
    return _version(text, ("redis", "valkey"), "6.2, 7.0, 7.4 or valkey-9", RedisTopology)


def postgres_version(text: str) -> ServerVersion:
    """Read `16` or `postgres-18`; `ValueError` says what is wrong."""
    return _version(text, ("postgres",), "16 or 18", PostgresTopology)


def _version(text: str, families: tuple[str, ...], examples: str, topologies: Iterable[str]) -> ServerVersion:
    found = _WRITTEN.fullmatch(text.strip().lower())
    family = found[1] or families[0] if found else ""
    if not found or not text.strip() or family not in families:
        groups = [name for name in map(str, topologies) if name != RedisTopology.SINGLE]
        hint = did_you_mean(text, groups, f"write one like {examples}, or {' or '.join(groups)}")
        raise ValueError(f"is no address, version or topology; {hint}")
    return ServerVersion(family, found[2]) if found[2] else _UNNUMBERED[family]
