"""How each kind of server is started on each backend. The registry names the kinds; this is what they can do.

A kind says here which class asks it (`server`), and how one is made as a process, and as a container. A server that was
given needs nothing more than the class.
"""

from __future__ import annotations

import abc
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from soak.errors import UsageError
from soak.hosts import is_cluster, is_group, is_sentinel
from soak.servers.backend import ServerBackend
from soak.servers.docker.recipes import PostgresRecipe, RedisRecipe, ReplicaRecipe
from soak.servers.external.patroni import GivenPatroni
from soak.servers.external.redis_groups import GivenCluster, GivenSentinel
from soak.servers.kinds import (
    CHROMA,
    HTTP,
    LEDGER,
    PGBOUNCER,
    POSTGRES,
    POSTGRES_REPLICA,
    REDIS,
    SQLITE,
    PostgresTopology,
    RedisTopology,
    ServerKind,
)
from soak.servers.patroni import PatroniGroup
from soak.servers.pgbouncer import PgbouncerProcess, PgbouncerServer
from soak.servers.postgres import PostgresReplica, PostgresServer
from soak.servers.postgres_group import PostgresGroup, PostgresPrograms, StandbyReaders
from soak.servers.postgres_process import PostgresProcess, ReplicaProcess
from soak.servers.redis import RedisServer
from soak.servers.redis_cluster import ClusterGroup
from soak.servers.redis_group import RedisGroup
from soak.servers.redis_process import RedisProcess, RedisPrograms
from soak.servers.sentinel import SentinelGroup
from soak.servers.server import Server
from soak.servers.sqlite import FileBackend, SqliteServer
from soak.servers.state import FILE_NAME, Pinned
from soak.servers.sync_standby import SyncStandbyGroup
from soak.servers.unprivileged import unprivileged
from soak.servers.versions import VALKEY, ServerRelease, redis_version
from soak.servers.web import ChromaServer, ServiceServer
from soak.servers.web_process import ChromaProcess, ServiceProcess

if TYPE_CHECKING:
    from soak.servers.docker.servers import DockerServers
    from soak.servers.external.servers import ExternalServers
    from soak.servers.local import LocalServers

LEDGER_OPTIONS = {"auto-aof-rewrite-min-size": "16mb"}
"""What the verifier has read is dropped, so its log is rewritten long before it fills a disk."""


_GROUPS: dict[RedisTopology, type[RedisGroup]] = {
    RedisTopology.SENTINEL: SentinelGroup,
    RedisTopology.CLUSTER: ClusterGroup,
}
_POSTGRES_GROUPS: dict[PostgresTopology, type[PostgresGroup]] = {
    PostgresTopology.SYNC_STANDBY: SyncStandbyGroup,
    PostgresTopology.PATRONI: PatroniGroup,
}


class KindSupport(abc.ABC):
    """How servers of one kind are made. None is started yet; `fresh`: nobody knows its address yet."""

    server: ClassVar[type[Server]]

    @abc.abstractmethod
    def process(self, servers: LocalServers, kind: ServerKind, pinned: Pinned, *, fresh: bool) -> Server:
        """Make one that is a process of this machine."""

    def container(self, servers: DockerServers, kind: ServerKind, pinned: Pinned, *, fresh: bool) -> Server:
        """Make one that is a container."""
        del servers, pinned, fresh
        raise UsageError(f"{kind.name} is never in Docker; take a process of this machine for it")

    def external(self, servers: ExternalServers, kind: ServerKind, pinned: Pinned, backend: ServerBackend) -> Server:
        """Make one that already runs."""
        del servers
        return self.server(kind, pinned, backend, fresh=False)


class RedisSupport(KindSupport):
    """Redis or Valkey under test."""

    server = RedisServer

    def process(self, servers: LocalServers, kind: ServerKind, pinned: Pinned, *, fresh: bool) -> Server:
        if servers.redis_topology in _GROUPS:
            return _GROUPS[servers.redis_topology](
                kind,
                pinned,
                servers.site(kind, pinned),
                fresh=fresh,
                options=servers.options_of(kind),
                programs=servers.redis_programs,
            )
        site, options = servers.site(kind, pinned), servers.options_of(kind)
        backend = RedisProcess(site, options=options, programs=servers.redis_programs)
        return RedisServer(kind, pinned, backend, fresh=fresh)

    def external(self, servers: ExternalServers, kind: ServerKind, pinned: Pinned, backend: ServerBackend) -> Server:
        del servers
        url = backend.url or ""
        server = GivenSentinel if is_sentinel(url) else GivenCluster if is_cluster(url) else RedisServer
        return server(kind, pinned, backend, fresh=False)

    def container(self, servers: DockerServers, kind: ServerKind, pinned: Pinned, *, fresh: bool) -> Server:
        if servers.redis_topology in _GROUPS:
            return _GROUPS[servers.redis_topology](
                kind,
                pinned,
                servers.site_of_nodes(kind, pinned, servers.redis_image),
                fresh=fresh,
                options=servers.options_of(kind),
                programs=RedisPrograms(servers.redis_version),
            )
        recipe = RedisRecipe(servers.redis_version, servers.redis_image, pinned.password)
        if pinned.version is not None:
            recipe = recipe.of(ServerRelease(redis_version(pinned.version), pinned.program))
        return RedisServer(kind, pinned, servers.container(kind, pinned, recipe), fresh=fresh)


class LedgerSupport(KindSupport):
    """The ledger: always the same Valkey, where no fault can reach it."""

    server = RedisServer

    def process(self, servers: LocalServers, kind: ServerKind, pinned: Pinned, *, fresh: bool) -> Server:
        backend = RedisProcess(servers.site(kind, pinned), options=LEDGER_OPTIONS, programs=RedisPrograms(VALKEY))
        return RedisServer(kind, pinned, backend, fresh=fresh)


class PostgresSupport(KindSupport):
    """A PostgreSQL that takes writes."""

    server = PostgresServer

    def external(self, servers: ExternalServers, kind: ServerKind, pinned: Pinned, backend: ServerBackend) -> Server:
        if kind is POSTGRES and (servers.patroni or is_group(backend.url or "")):
            return GivenPatroni(kind, pinned, backend, addresses=servers.patroni)
        return super().external(servers, kind, pinned, backend)

    def process(self, servers: LocalServers, kind: ServerKind, pinned: Pinned, *, fresh: bool) -> Server:
        user = unprivileged()
        home = servers.home_of(kind, user)
        site = servers.site(kind, pinned)._replace(home=home)
        if fresh and (home / "data").exists():
            raise UsageError(
                f"{home / 'data'} holds a database whose password is lost, for "
                f"{site.folder.parent / FILE_NAME} is gone; choose another data folder"
            )
        options, install = servers.options_of(kind), servers.install
        if kind is POSTGRES and servers.postgres_topology in _POSTGRES_GROUPS:
            return _POSTGRES_GROUPS[servers.postgres_topology](
                kind,
                pinned,
                site,
                fresh=fresh,
                options=options,
                programs=PostgresPrograms(servers.postgres_version, install, user),
                replication=servers.postgres_replication,
            )
        if kind is POSTGRES:
            backend = PostgresProcess(
                site, options=options, install=install, account=user, version=servers.postgres_version
            )
            return PostgresServer(kind, pinned, backend, fresh=fresh)
        primary = _postgres(servers.primary_of(kind))
        if isinstance(primary, PostgresGroup):
            return StandbyReaders(kind, pinned, primary)
        if not isinstance(primary.backend, PostgresProcess):
            raise TypeError(primary.backend)
        copy = ReplicaProcess(site, options=options, install=install, account=user, primary=primary.backend)
        return PostgresReplica(kind, pinned, copy, fresh=fresh, primary=primary)

    def container(self, servers: DockerServers, kind: ServerKind, pinned: Pinned, *, fresh: bool) -> Server:
        version, image = servers.postgres_version, servers.postgres_image
        if kind is POSTGRES and servers.postgres_topology in _POSTGRES_GROUPS:
            return _POSTGRES_GROUPS[servers.postgres_topology](
                kind,
                pinned,
                servers.site_of_nodes(kind, pinned, image),
                fresh=fresh,
                options=servers.options_of(kind),
                programs=PostgresPrograms(version.major, _in_image, unprivileged()),
                replication=servers.postgres_replication,
            )
        if kind is POSTGRES:
            recipe = PostgresRecipe(version, image, pinned.password)
            return PostgresServer(kind, pinned, servers.container(kind, pinned, recipe), fresh=fresh)
        primary = _postgres(servers.primary_of(kind))
        if isinstance(primary, PostgresGroup):
            return StandbyReaders(kind, pinned, primary)
        host = servers.site.name(primary.name)
        copy = ReplicaRecipe(version, image, pinned.password, name=kind.name, primary=host)
        return PostgresReplica(kind, pinned, servers.container(kind, pinned, copy), fresh=fresh, primary=primary)


class PgbouncerSupport(KindSupport):
    """A pooler before the PostgreSQL."""

    server = PgbouncerServer

    def process(self, servers: LocalServers, kind: ServerKind, pinned: Pinned, *, fresh: bool) -> Server:
        user = unprivileged()
        site = servers.site(kind, pinned)._replace(home=servers.home_of(kind, user))
        backend = PgbouncerProcess(
            site,
            mode=servers.pool_mode,
            address=lambda: servers.address_of(POSTGRES),
            account=user,
            logins=servers.pool_logins,
        )
        return PgbouncerServer(kind, pinned, backend, fresh=fresh)


class ChromaSupport(KindSupport):
    """Chroma's server."""

    server = ChromaServer

    def process(self, servers: LocalServers, kind: ServerKind, pinned: Pinned, *, fresh: bool) -> Server:
        return ChromaServer(kind, pinned, ChromaProcess(servers.site(kind, pinned)), fresh=fresh)


class ServiceSupport(KindSupport):
    """A memory service."""

    server = ServiceServer

    def process(self, servers: LocalServers, kind: ServerKind, pinned: Pinned, *, fresh: bool) -> Server:
        if servers.service is None:
            raise UsageError("no service is known that could be started; name one with --subject")
        backend = ServiceProcess(servers.site(kind, pinned), servers.service, servers.client_addresses)
        return ServiceServer(kind, pinned, backend, fresh=fresh)


class SqliteSupport(KindSupport):
    """A SQLite file: nothing is started."""

    server = SqliteServer

    def process(self, servers: LocalServers, kind: ServerKind, pinned: Pinned, *, fresh: bool) -> Server:
        backend = FileBackend(servers.site(kind, pinned), servers.sqlite_synchronous)
        return SqliteServer(kind, pinned, backend, fresh=fresh)


def _in_image(version: int) -> Path:
    """Return where the programs of a PostgreSQL are in its image: only their names count there."""
    del version
    return Path("/")


def _postgres(server: Server) -> PostgresServer:
    if not isinstance(server, PostgresServer):
        raise TypeError(server)
    return server


SUPPORT: dict[str, KindSupport] = {
    LEDGER.name: LedgerSupport(),
    REDIS.name: RedisSupport(),
    POSTGRES.name: PostgresSupport(),
    POSTGRES_REPLICA.name: PostgresSupport(),
    PGBOUNCER.name: PgbouncerSupport(),
    CHROMA.name: ChromaSupport(),
    HTTP.name: ServiceSupport(),
    SQLITE.name: SqliteSupport(),
}
