"""The ways to run a server that are compared: only its settings are written here, never what it promises."""

from __future__ import annotations

import msgspec

from soak.servers.kinds import POSTGRES, REDIS


class Configuration(msgspec.Struct, frozen=True, kw_only=True):
    """One way to run a server, and the store whose memory it keeps."""

    name: str
    server: str
    """The kind of server the options are for: `redis` or `postgres`."""
    store: str
    options: dict[str, str]
    description: str
    load_seconds_min: float = 0.0
    """Less load than this would end before the configuration has done what it is there for."""


def _redis(name: str, description: str, *, load_seconds_min: float = 0.0, **options: str) -> Configuration:
    return Configuration(
        name=name,
        server=REDIS.name,
        store="redis-list",
        options=options,
        description=description,
        load_seconds_min=load_seconds_min,
    )


def _postgres(name: str, description: str, **options: str) -> Configuration:
    return Configuration(name=name, server=POSTGRES.name, store="postgres", options=options, description=description)


_SNAPSHOT_SECONDS = 7.0
"""The first snapshot of `save 5 1` is begun five seconds after the start, and there should be something after it."""

ALL: dict[str, Configuration] = {
    configuration.name: configuration
    for configuration in (
        _redis("aof-everysec", "AOF, synced every second", appendonly="yes", appendfsync="everysec", save=""),
        _redis("aof-always", "AOF, synced before each reply", appendonly="yes", appendfsync="always", save=""),
        _redis("aof-no", "AOF, synced when the kernel likes", appendonly="yes", appendfsync="no", save=""),
        _redis("rdb-5", "RDB, save 5 1", appendonly="no", save="5 1", load_seconds_min=_SNAPSHOT_SECONDS),
        _redis("rdb-900", "RDB, save 900 1", appendonly="no", save="900 1"),
        _redis(
            "aof-rdb",
            "AOF everysec and RDB save 5 1",
            appendonly="yes",
            appendfsync="everysec",
            save="5 1",
            load_seconds_min=_SNAPSHOT_SECONDS,
        ),
        _redis("none", "neither AOF nor RDB", appendonly="no", save=""),
        _postgres("postgres-sync", "synchronous_commit on", synchronous_commit="on"),
        _postgres("postgres-async", "synchronous_commit off", synchronous_commit="off"),
    )
}
