"""The registry of server kinds: what each is called, speaks, needs and can do.

No other module names kinds. It imports no client and no backend, so stores, settings and reports may use it.
How a kind is started on each backend and what it is asked is its `support`, imported when first needed.

A server is a node of a group. The nodes of a group act as one memory and have roles. Today's groups have one node,
except PostgreSQL with its replica; a topology adds a kind for each sort of node, all with the same `group`.
"""

from __future__ import annotations

import enum
import importlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from soak.errors import UsageError

if TYPE_CHECKING:
    from soak.servers.support import KindSupport


class Protocol(enum.Enum):
    """What clients and server speak: it decides which faults there are, and how the server is asked."""

    REDIS = "redis"
    POSTGRES = "postgres"
    HTTP = "http"
    SQLITE = "sqlite"
    """No connection, but a file that all open."""


SERVED = (Protocol.REDIS, Protocol.POSTGRES, Protocol.HTTP)
"""Protocols of servers that are processes and listen somewhere."""


class Role(enum.StrEnum):
    """What a node does in its group."""

    PRIMARY = "primary"
    REPLICA = "replica"
    POOLER = "pooler"
    """Stands before the others and keeps nothing."""


DATA_ROLES = (Role.PRIMARY, Role.REPLICA)


class RedisTopology(enum.StrEnum):
    """How many nodes act as one Redis."""

    SINGLE = "single"
    SENTINEL = "sentinel"
    """One primary, two replicas, three sentinels."""
    CLUSTER = "cluster"
    """Three primaries, each with a replica."""


class PoolMode(enum.StrEnum):
    """How long a client of a pooler keeps its backend."""

    TRANSACTION = "transaction"
    SESSION = "session"


class PostgresTopology(enum.StrEnum):
    """How many nodes act as one PostgreSQL."""

    SINGLE = "single"
    SYNC_STANDBY = "sync-standby"
    """One primary, and one standby that soak promotes."""
    PATRONI = "patroni"
    """Three nodes under Patroni, and three etcd."""


class Replication(enum.StrEnum):
    """What a commit waits for in a group of PostgreSQL nodes."""

    AUTO = "auto"
    """What is usual for the topology: the standby of `sync-standby`, nobody under `patroni`."""
    ASYNC = "async"
    SYNC = "sync"
    """A standby has the commit on its disk."""
    REMOTE_APPLY = "remote_apply"
    """A standby shows it."""


class BackendKind(enum.StrEnum):
    """What servers run in."""

    LOCAL = "local"
    """Processes of this machine."""
    DOCKER = "docker"
    EXTERNAL = "external"
    """Servers that already run, by their addresses."""
    COMBINED = "combined"


@dataclass(frozen=True, kw_only=True)
class ServerKind:
    """One kind of server."""

    name: str
    """In settings, ledger, metrics and reports."""
    title: str
    """In sentences."""
    protocol: Protocol
    schemes: tuple[str, ...]
    """Of its address; the first is the usual one. None: it is never given, only started."""
    port: int
    """The port of an address that has none."""
    group: str
    """Nodes of one group act as one memory, and are not broken at the same time."""
    role: Role = Role.PRIMARY
    setting: str
    """The setting that gives the address of one that runs."""
    flag: str
    """The option of the command line that does."""
    needs: tuple[str, ...] = ()
    """Kinds that are started with it, and before it."""
    stage: int = 0
    """Kinds of a later stage are started when those of the earlier ones answer."""
    is_under_test: bool = True
    """The ledger is not: no fault ever happens to it."""
    backends: frozenset[BackendKind] = frozenset({BackendKind.LOCAL, BackendKind.EXTERNAL})
    """Where it can run. A kind that cannot run in Docker is a local process, also where the others are containers."""
    can_be_inspected: bool = True
    """Whether it can be asked how it is configured and how it fares."""
    is_proxied_when_given: bool = True
    """Whether a proxy can be put before one that was given, for faults of the network."""
    keeps_data: bool = False
    """Whether its configuration decides what a store on it can promise."""
    watched_settings: tuple[str, ...] = ()
    """Settings that decide what it can promise; a change of one is reported."""
    weaker_presets: tuple[str, ...] = ("cache",)
    """Contract presets below the usual promise, the strongest first."""
    has_account: bool = False
    """Whether it refuses to run as root, and so needs an account."""
    start_mark: str = "started"
    """The name in its telemetry of what changes with each start."""
    not_survived: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Faults it does not come back from, and why: they happen only where a rule names them."""
    always_says_start: bool = True
    """Whether a given one always reports that; without it a restart cannot be seen."""

    @property
    def is_served(self) -> bool:
        """Whether a process serves it; a file has none."""
        return self.protocol in SERVED

    @property
    def has_data_folder(self) -> bool:
        """Whether a process of it keeps data that a power cut can take."""
        return self.is_served and self.role is not Role.POOLER

    @property
    def support(self) -> KindSupport:
        """How it is started and asked. Imported here: the clients of servers are heavy."""
        found: KindSupport = importlib.import_module("soak.servers.support").SUPPORT[self.name]
        return found


STANDBY_NAMES = "synchronous_standby_names"
"""PostgreSQL's setting: the standbys that commits wait for."""
MAXIMUM_LAG, SYNCHRONOUS_MODE, STRICT_MODE = PATRONI_SETTINGS = (
    *("maximum_lag_on_failover", "synchronous_mode", "synchronous_mode_strict"),
)
"""What Patroni itself is set to, in its own names."""
OF_THE_GROUP = ("role", "topology", "replicas", STANDBY_NAMES, *PATRONI_SETTINGS)
"""What only the primary of a group can say for all, or Patroni: a standby has followers only when it is promoted."""
_EVERYWHERE = frozenset({BackendKind.LOCAL, BackendKind.DOCKER, BackendKind.EXTERNAL})
_REDIS_SCHEMES = ("redis", "rediss", "unix")
_SENTINEL_SCHEMES = ("redis+sentinel", "rediss+sentinel")
_GROUP_SCHEMES = (*_SENTINEL_SCHEMES, "redis+cluster", "rediss+cluster")
_POSTGRES_SCHEMES = ("postgresql", "postgres")
_HTTP_SCHEMES = ("http", "https")

LEDGER = ServerKind(
    name="ledger",
    title="ledger",
    protocol=Protocol.REDIS,
    schemes=(*_REDIS_SCHEMES, *_SENTINEL_SCHEMES),
    port=6379,
    group="ledger",
    setting="ledger.url",
    flag="--ledger",
    is_under_test=False,
    start_mark="run_id",
)
REDIS = ServerKind(
    name="redis",
    title="Redis",
    protocol=Protocol.REDIS,
    schemes=(*_REDIS_SCHEMES, *_GROUP_SCHEMES),
    port=6379,
    group="redis",
    setting="servers.redis",
    flag="--redis",
    backends=_EVERYWHERE,
    keeps_data=True,
    watched_settings=(
        *("save", "appendonly", "appendfsync", "no-appendfsync-on-rewrite"),
        *("maxmemory", "maxmemory-policy", "role"),
        *("min-replicas-to-write", "min-replicas-max-lag", "cluster-node-timeout"),
    ),
    weaker_presets=("redis-rdb", "cache"),
    start_mark="run_id",
)
POSTGRES = ServerKind(
    name="postgres",
    title="PostgreSQL",
    protocol=Protocol.POSTGRES,
    schemes=_POSTGRES_SCHEMES,
    port=5432,
    group="postgres",
    setting="servers.postgres",
    flag="--postgres",
    backends=_EVERYWHERE,
    keeps_data=True,
    watched_settings=("synchronous_commit", STANDBY_NAMES, "fsync", "full_page_writes", "wal_writer_delay", "role"),
    weaker_presets=("postgres-async", "cache"),
    has_account=True,
    start_mark="pg_postmaster_start_time",
)
POSTGRES_REPLICA = ServerKind(
    name="postgres-replica",
    title="PostgreSQL",
    protocol=Protocol.POSTGRES,
    schemes=_POSTGRES_SCHEMES,
    port=5432,
    group="postgres",
    role=Role.REPLICA,
    setting="servers.postgres_replica",
    flag="--postgres-replica",
    needs=("postgres",),
    stage=1,
    backends=_EVERYWHERE,
    watched_settings=("role",),
    has_account=True,
    start_mark="pg_postmaster_start_time",
)
PGBOUNCER = ServerKind(
    name="pgbouncer",
    title="PgBouncer",
    protocol=Protocol.POSTGRES,
    schemes=(),
    port=6432,
    group="postgres",
    role=Role.POOLER,
    setting="servers.pgbouncer",
    flag="--pgbouncer",
    stage=1,
    backends=frozenset({BackendKind.LOCAL}),
    can_be_inspected=False,
    has_account=True,
)
CHROMA = ServerKind(
    name="chroma",
    title="Chroma",
    protocol=Protocol.HTTP,
    schemes=_HTTP_SCHEMES,
    port=8000,
    group="chroma",
    setting="servers.chroma",
    flag="--chroma",
    is_proxied_when_given=False,
    not_survived={"power_cut": "Chroma does not sync its index files and cannot read its collections after it"},
    always_says_start=False,
)
HTTP = ServerKind(
    name="http",
    title="memory service",
    protocol=Protocol.HTTP,
    schemes=_HTTP_SCHEMES,
    port=80,
    group="http",
    setting="servers.http",
    flag="--url",
    stage=2,  # it rests on other servers
    can_be_inspected=False,
    is_proxied_when_given=False,
    always_says_start=False,
)
SQLITE = ServerKind(
    name="sqlite",
    title="SQLite",
    protocol=Protocol.SQLITE,
    schemes=("sqlite",),
    port=0,
    group="sqlite",
    setting="servers.sqlite",
    flag="--sqlite",
    is_proxied_when_given=False,
    keeps_data=True,
    watched_settings=("journal_mode", "synchronous"),
    weaker_presets=("sqlite-normal", "cache"),
    always_says_start=False,
)

KINDS: dict[str, ServerKind] = {
    kind.name: kind for kind in (LEDGER, REDIS, POSTGRES, POSTGRES_REPLICA, PGBOUNCER, CHROMA, HTTP, SQLITE)
}
UNDER_TEST = tuple(kind for kind in KINDS.values() if kind.is_under_test)


def kind_of(name: str) -> ServerKind:
    """Return the kind of this name; raises `UsageError` if there is none."""
    if name not in KINDS:
        raise UsageError(f"no such kind of server: {name}; there are {', '.join(KINDS)}")
    return KINDS[name]


def with_needs(names: Iterable[str]) -> list[ServerKind]:
    """Return the kinds with what they need, each after what it needs."""
    wanted = {kind_of(name) for name in names}
    wanted |= {KINDS[need] for kind in wanted for need in kind.needs}
    return [kind for kind in KINDS.values() if kind in wanted]


def names_of(*protocols: Protocol, roles: Iterable[Role] = DATA_ROLES) -> tuple[str, ...]:
    """Return the names of the kinds under test that speak one of these protocols and have one of these roles."""
    return tuple(kind.name for kind in UNDER_TEST if kind.protocol in protocols and kind.role in set(roles))


def group_name(name: str) -> str:
    """Return the name of the group of a node; of a node that no kind is called by, its own."""
    return KINDS[name].group if name in KINDS else name
