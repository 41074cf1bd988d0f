"""The server versions that tests can be run against, by name."""

from __future__ import annotations

from itertools import zip_longest
from typing import NamedTuple

from soak.servers.kinds import POSTGRES, POSTGRES_REPLICA, REDIS


class Version(NamedTuple):
    """One version of one kind of server."""

    name: str
    kind: str
    """`redis` or `postgres`; a replica is of its primary's version."""
    is_packaged: bool = True
    """Else it is there where it is installed, as Debian's redis-server is, or in Docker."""


EMBEDDED = (
    Version("valkey-9", REDIS.name),
    Version("redis-7.0", REDIS.name, is_packaged=False),
    Version("redis-6.2", REDIS.name),
    Version("postgres-18", POSTGRES.name),
    Version("postgres-16", POSTGRES.name),
)
"""Newest first of each kind: what plain fixtures use."""

GIVEN = {
    REDIS.name: Version("given-redis", REDIS.name),
    POSTGRES.name: Version("given-postgres", POSTGRES.name),
}
"""A server whose address was given is of the version it is."""

KINDS = (REDIS.name, POSTGRES.name, POSTGRES_REPLICA.name)
ALL = "all"
NEWEST = "newest"


def choose(wanted: str) -> tuple[Version, ...]:
    """Read a list such as `valkey-9,postgres-18`, `all` or `newest`; `ValueError` says what is wrong."""
    if wanted == ALL:
        return EMBEDDED
    if wanted == NEWEST:
        return tuple(
            next(version for version in EMBEDDED if version.kind == kind) for kind in (REDIS.name, POSTGRES.name)
        )
    known = {version.name: version for version in EMBEDDED}
    names = [name.strip() for name in wanted.split(",") if name.strip()]
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        raise ValueError(
            f"no such version of a server: {', '.join(unknown) or 'none given'}; there are {', '.join(known)}"
        )
    return tuple(known[name] for name in names)


def is_installed(version: Version) -> bool:
    """Tell whether a version that no package brings can be had on this machine."""
    # Imported only here: a pytest that uses nothing of soak must not pay for it.
    from soak.errors import ServerUnreachableError  # noqa: PLC0415
    from soak.servers import binaries  # noqa: PLC0415
    from soak.servers.versions import redis_version  # noqa: PLC0415

    try:
        binaries.redis_program(redis_version(version.name))
    except ServerUnreachableError:
        return False
    return True


def sets_for(needs: tuple[str, ...], chosen: tuple[Version, ...]) -> list[tuple[Version, ...]]:
    """Return the sets of servers that a store which needs these kinds is tested on: each version at least once."""
    kinds = list(dict.fromkeys(POSTGRES.name if kind == POSTGRES_REPLICA.name else kind for kind in needs))
    by_kind = [[version for version in chosen if version.kind == kind] for kind in kinds]
    if not all(by_kind):
        return []
    return [
        tuple(version or versions[-1] for version, versions in zip(together, by_kind, strict=True))
        for together in zip_longest(*by_kind)
    ] or [()]
