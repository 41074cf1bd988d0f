"""Which servers tests get: versions, addresses and images; command line over environment over the ini file."""

from __future__ import annotations

import os
from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple

import pytest

from soak.servers.kinds import POSTGRES, POSTGRES_REPLICA, REDIS, PostgresTopology, RedisTopology

if TYPE_CHECKING:
    from collections.abc import Mapping


class Version(NamedTuple):
    """One version of one kind of server."""

    name: str
    kind: str
    """`redis` or `postgres`; a replica is of its primary's version."""
    is_packaged: bool = True
    """Else it is there where it is installed, as Debian's redis-server is, or in Docker."""
    topology: str = ""
    """A group of nodes of this version; empty: one server."""

    @property
    def label(self) -> str:
        """What it is called in the names of tests."""
        return f"{self.name}-{self.topology}" if self.topology else self.name


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


GROUPS = {
    "content": "what is written is what is read",
    "expiry": "time to live, from both sides",
    "durability": "servers that are away, silent, full or restarted, and replies that get lost",
    "order": "order, concurrent writers, the last N",
    "search": "searching, in stores that can",
    "sessions": "sessions, namespaces, forgetting and closing",
    "compatibility": "data of earlier versions",
}
"""The groups of checks, each with a marker: pytest -m soak_durability."""
_GROUP_OF_MODULE = {"failures": "durability", "searching": "search"}


def marker_of(module: str) -> str:
    """Return the marker of the checks in a module."""
    name = module.rpartition(".")[2]
    return f"soak_{_GROUP_OF_MODULE.get(name, name)}"


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
    """Return whether a version that no package brings can be had on this machine."""
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


MODES = ("embedded", "docker", "external")
ADDRESSES = {
    REDIS.name: ("soak_redis", "SOAK_SERVERS__REDIS"),
    POSTGRES.name: ("soak_postgres", "SOAK_SERVERS__POSTGRES"),
    POSTGRES_REPLICA.name: ("soak_postgres_replica", "SOAK_SERVERS__POSTGRES_REPLICA"),
}
"""Option and environment variable by kind of server; the variables are those of soak itself."""
TOPOLOGIES = {REDIS.name: (*RedisTopology,)[1:], POSTGRES.name: (*PostgresTopology,)[1:]}
"""Groups of nodes that an option names in place of an address, as `soak run` has it."""


class Choice(NamedTuple):
    """Which servers tests get."""

    mode: str
    addresses: Mapping[str, str]
    versions: tuple[Version, ...]
    is_every_version: bool
    """None was named: those that are not installed here are left out."""
    images: Mapping[str, str]
    """Docker image by the name of the version, where another than the official one is wanted."""
    redis_options: Mapping[str, str]
    postgres_options: Mapping[str, str]
    topologies: Mapping[str, str]
    """By kind of server, where a group of nodes is wanted."""

    def versions_for(
        self, needs: tuple[str, ...], meant_for: tuple[str, ...] | None = None
    ) -> list[tuple[Version, ...]]:
        """Return the sets of servers to test on; a server whose address is given counts as one version."""
        given = {kind for kind in GIVEN if self.mode == "external" or kind in self.addresses}
        chosen = [
            version._replace(topology=self.topologies.get(version.kind, ""))
            for version in self.versions
            if version.kind not in given and (meant_for is None or version.name in meant_for) and self._has(version)
        ]
        chosen += [GIVEN[kind] for kind in sorted(given)]
        return sets_for(needs, tuple(chosen))

    def _has(self, version: Version) -> bool:
        if version.is_packaged or not self.is_every_version or self.mode != "embedded":
            return True
        return os.environ.get("SOAK_REQUIRE_ALL") == "1" or is_installed(version)


def declare(parser: pytest.Parser) -> None:
    group = parser.getgroup("soak", "soak: real servers and contracts for conversation memories")
    group.addoption(
        "--soak-servers",
        choices=MODES,
        default=None,
        help="where servers come from: embedded (from packages, the default), docker, or external (given)",
    )
    for kind, (name, variable) in ADDRESSES.items():
        what = f"address of a {kind} server that already runs{_or_groups(kind)}"
        group.addoption(
            f"--{name.replace('_', '-')}",
            metavar="URL",
            default=None,
            help=f"{what}; an address with a password better as {variable} and --soak-servers=external",
        )
        parser.addini(name, what, default="")
    group.addoption(
        "--soak-versions",
        metavar="NAMES",
        default=None,
        help=f"server versions to test on: all (default), newest, or some of "
        f"{','.join(version.name for version in EMBEDDED)}",
    )
    group.addoption(
        "--soak-docker-image",
        metavar="VERSION=IMAGE",
        action="append",
        default=None,
        help="another image for a version, such as redis-6.2=registry.local/redis:6.2; may be repeated",
    )
    group.addoption(
        "--soak-record",
        metavar="LABEL",
        default=None,
        help="record what the stores under test write today, as data of this version, for tests of later versions",
    )
    parser.addini("soak_servers", "where servers come from: embedded, docker or external", default="")
    parser.addini("soak_versions", "server versions to test on: all, newest or names", default="")
    parser.addini(
        "soak_docker_images", "VERSION=IMAGE lines: other images than the official ones", "linelist", default=[]
    )
    parser.addini(
        "soak_redis_options", "NAME VALUE lines: server settings, such as appendfsync always", "linelist", default=[]
    )
    parser.addini("soak_postgres_options", "NAME VALUE lines: server settings", "linelist", default=[])


def read(config: pytest.Config) -> Choice:
    """Return the choice; `pytest.UsageError` says what is wrong with it."""
    mode = config.getoption("soak_servers") or os.environ.get("PYTEST_SOAK_SERVERS") or config.getini("soak_servers")
    mode = mode or "embedded"
    if mode not in MODES:
        raise pytest.UsageError(f"soak_servers is {mode!r}; it is one of {', '.join(MODES)}")
    wanted = config.getoption("soak_versions") or os.environ.get("PYTEST_SOAK_VERSIONS")
    wanted = wanted or config.getini("soak_versions") or ALL
    try:
        chosen = choose(wanted)
    except ValueError as error:
        raise pytest.UsageError(str(error)) from None
    addresses = _addresses(config, mode)
    topologies = {kind: addresses.pop(kind) for kind in [*addresses] if "://" not in addresses[kind]}
    _check_topologies(topologies, mode)
    return Choice(
        mode=mode,
        addresses=addresses,
        topologies=topologies,
        versions=chosen,
        is_every_version=wanted == ALL,
        images=_pairs(
            "soak_docker_images",
            [*config.getini("soak_docker_images"), *(config.getoption("soak_docker_image") or [])],
            "=",
        ),
        redis_options=_pairs("soak_redis_options", config.getini("soak_redis_options"), " "),
        postgres_options=_pairs("soak_postgres_options", config.getini("soak_postgres_options"), " "),
    )


def _addresses(config: pytest.Config, mode: str) -> dict[str, str]:
    found = {}
    for kind, (name, variable) in ADDRESSES.items():
        # An address that lies about in the environment must not turn tests loose on it unasked.
        url = config.getoption(name) or (os.environ.get(variable) if mode == "external" else None)
        url = url or config.getini(name)
        if url:
            found[kind] = str(url)
    return found


def _or_groups(kind: str) -> str:
    groups = TOPOLOGIES.get(kind, ())
    return f", or {' or '.join(groups)}: a group of nodes that is started" if groups else ""


def _check_topologies(topologies: Mapping[str, str], mode: str) -> None:
    for kind, topology in topologies.items():
        if topology not in TOPOLOGIES.get(kind, ()):
            what = f"it is redis://… or postgresql://… of a server that already runs{_or_groups(kind)}"
            raise pytest.UsageError(f"{ADDRESSES[kind][0]} is {topology!r}; {what}")
        if mode != "embedded":
            raise pytest.UsageError(
                f"{ADDRESSES[kind][0]} is {topology!r}, and a group of nodes is started with soak_servers embedded "
                f"only; here it is {mode}"
            )


def _pairs(name: str, lines: list[str], separator: str) -> dict[str, str]:
    pairs = {}
    for line in lines:
        key, found, value = line.strip().partition(separator)
        if not found or not key:
            raise pytest.UsageError(f"{name}: {line!r} is not understood; write NAME{separator}VALUE")
        pairs[key.strip()] = value.strip()
    return pairs
