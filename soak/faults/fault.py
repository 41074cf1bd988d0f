"""What every fault can do: say whether it is possible here, happen, and be healed; and what families of them share."""

from __future__ import annotations

import abc
import asyncio
import math
from collections.abc import Mapping
from typing import Any, ClassVar, Self

from soak.checker.faults import Excuse, Promotion
from soak.errors import ServerUnreachableError, UsageError
from soak.faults.parameters import Given, Parameter, parameters_of, read_parameters
from soak.servers.backend import OnKubernetes
from soak.servers.external.patroni import GivenPatroni
from soak.servers.external.redis_groups import GivenRedisGroup
from soak.servers.kinds import KINDS, SERVED, Protocol, Role, names_of
from soak.servers.links import Links
from soak.servers.node_group import GroupNode, NodeGroup
from soak.servers.patroni import PatroniGroup
from soak.servers.postgres import PostgresServer
from soak.servers.proxy import Proxy
from soak.servers.redis import RedisServer
from soak.servers.redis_cluster import ClusterGroup
from soak.servers.redis_group import RedisGroup
from soak.servers.sentinel import SentinelGroup
from soak.servers.server import Server
from soak.servers.servers import Servers
from soak.servers.sqlite import SqliteServer
from soak.servers.sync_standby import SyncStandbyGroup
from soak.tasks import until

AGREE_SECONDS_MAX = 60.0
IS_PRIMARY = "not pg_is_in_recovery()"
_BEHIND_LATENCIES = 4
"""A packet that waits behind another takes twice the latency; its answer as long again."""
STREAMS = "pg_is_in_recovery() and exists (select from pg_stat_wal_receiver where status = 'streaming')"
NOT_A_PROCESS = "only where the server is a process on this machine"
_POLL_SECONDS = 0.02


class FaultUnavailableError(UsageError):
    """A fault was asked for that is not possible on these servers."""


class Fault(abc.ABC):
    """One thing that goes wrong with one server."""

    name: ClassVar[str]
    aliases: ClassVar[tuple[str, ...]] = ()
    """Names it had before; settings, commands and the HTTP API accept them for one version more."""
    excuses: ClassVar[Excuse]
    """What the contract lets it take; it travels in the fault's ledger records."""
    promotes: ClassVar[Promotion]
    """Whether a replica becomes the primary, and whether clients may go on reading from the old one; travels, too."""
    down: ClassVar[bool] = False
    """Whether the server does not answer from when this has been injected until it is healed."""
    serves: ClassVar[bool] = False
    """Whether the server goes on serving during it."""
    ends_load: ClassVar[bool] = False
    """Whether it ends a process of the load, which is then started again."""
    on_groups: ClassVar[bool] = False
    """Whether it can happen to a group of nodes that act as one server."""
    description: ClassVar[str]
    """One plain sentence: what happens to the server, and what may rightly be lost."""
    targets: ClassVar[tuple[str, ...]] = names_of(*SERVED, roles=tuple(Role))
    """The kinds of servers it can happen to. Never the ledger."""
    needs: ClassVar[str] = "nothing more than the server"
    """What must be there for it, in a few words; whether it is there says `unavailable`."""

    def __init__(self, **given: Given) -> None:
        """Take the values of its parameters; those that are not given have their defaults."""
        vars(self).update(read_parameters(self.name, self.parameters(), given))

    @classmethod
    def parameters(cls) -> dict[str, Parameter[Any]]:
        """Return what can be set of it, by name."""
        return parameters_of(cls)

    def having(self, given: Mapping[str, Given]) -> Self:
        """Return the same fault with other values of its parameters; raises `UsageError` for a wrong one."""
        return type(self)(**given) if given else self

    @property
    def values(self) -> dict[str, str]:
        """The values of its parameters, as people write them."""
        return {name: one.text(getattr(self, name)) for name, one in self.parameters().items()}

    @property
    def kind(self) -> str:
        """What the ledger calls it."""
        return self.name

    def unavailable(self, servers: Servers, target: str) -> str | None:
        """Return why it cannot happen to this server here; None if it can."""
        if target not in self.targets:
            return f"{self.name} can happen to {' or '.join(self.targets)}, not to {target}"
        if target not in servers.nodes:
            return f"no {target} server was started here"
        if servers.nodes[target].is_view:
            return f"{target} is another way to a group of nodes; break that one"
        if servers.nodes[target].is_group and not self.on_groups:
            return f"{target} is a group of nodes, and {self.name} is for one server"
        return servers.refuses(self.name, target) or self.hindrance(servers, target)

    def hindrance(self, servers: Servers, target: str) -> str | None:
        """Return what this fault lacks to happen to a server that is there; None: nothing."""
        del servers, target
        return None

    async def breaks_nothing(self, servers: Servers, target: str) -> str | None:
        """Return why it would break nothing, as the servers are at this moment; None: it would break something."""
        del servers, target
        return None

    def refusal(self, servers: Servers, target: str) -> FaultUnavailableError:
        """Return the error that says why it cannot be injected."""
        return FaultUnavailableError(f"{self.name} cannot be injected: {self.unavailable(servers, target)}")

    @abc.abstractmethod
    async def inject(self, servers: Servers, target: str) -> None:
        """Let it happen."""

    async def heal(self, servers: Servers, target: str) -> None:
        """End it and return when the server serves as before; nothing if it has been healed, or never happened."""
        await servers.nodes[target].start_again()


# Redis -----------------------------------------------------------------------------------------------------


class RedisFault(Fault):
    """A fault that only a Redis-compatible server knows."""

    targets = names_of(Protocol.REDIS)

    def redis(self, servers: Servers, target: str) -> RedisServer:
        server = servers.nodes[target]
        if not isinstance(server, RedisServer):
            raise TypeError(server)
        return server


def writes_a_log(server: RedisServer) -> bool:
    """Whether the server was found to keep an append-only file."""
    return server.configuration.get("appendonly") == "yes"


def makes_snapshots(server: RedisServer) -> bool:
    """Whether the server was found to have points at which it saves everything."""
    return bool(server.configuration.get("save", "").strip())


# Groups ----------------------------------------------------------------------------------------------------


Group = NodeGroup[Any]
GROUP_OF_ANYBODY = "a group of nodes that soak has started, or a given one where testbed.allow_faults names it"
WITHOUT_MAJORITY = (SyncStandbyGroup,)
"""Groups of two nodes, of which somebody else says who is gone."""


class GroupFault(Fault):
    """A fault of a group whose primary can be replaced."""

    on_groups = True
    targets = names_of(Protocol.REDIS, Protocol.POSTGRES, roles=(Role.PRIMARY,))
    groups: ClassVar[tuple[type[Group], ...]] = (SentinelGroup, ClusterGroup, PatroniGroup, SyncStandbyGroup)
    given: ClassVar[tuple[type[GivenRedisGroup | GivenPatroni], ...]] = ()
    """Groups that were given and that it can happen to."""
    needs = "a group of nodes that soak has started"

    def __init_subclass__(cls) -> None:
        """Let it happen to the kinds of servers that such a group can be of."""
        cls.targets = tuple(name for name in GroupFault.targets if cls._flags(name))

    @classmethod
    def _flags(cls, target: str) -> list[str]:
        """Return how a person asks for the groups of this kind that it can happen to."""
        return [group.flag for group in cls.groups if group.flag.startswith(f"{KINDS[target].flag} ")]

    def hindrance(self, servers: Servers, target: str) -> str | None:
        if not isinstance(servers.nodes[target], (*self.groups, *self.given)):
            return f"there is no group of this kind; start one with {' or '.join(self._flags(target))}"
        return None

    def group(self, servers: Servers, target: str) -> Group:
        server = servers.nodes[target]
        if not isinstance(server, self.groups):
            raise self.refusal(servers, target)
        return server

    def links(self, group: Group) -> Links:
        """Return the network of the group."""
        if group.links is None:
            raise FaultUnavailableError(f"{self.name} cannot be injected: {group.title} is not running")
        return group.links

    async def fall_behind(self, group: Group, primary: GroupNode, latency_seconds: float) -> None:
        """Slow the links of a primary down, and return once its replicas are that far behind."""
        if latency_seconds:
            self.links(group).slow_down(group.around(primary, clients=False), latency_seconds)
            await asyncio.sleep(_BEHIND_LATENCIES * latency_seconds)

    def expect_replacement(self, group: Group) -> None:
        """Let the primary be replaced: once where nothing may be lost, else as often as it happens."""
        group.begin_replacements(1 if self.excuses is Excuse.CLEAN else math.inf)

    async def heal(self, servers: Servers, target: str) -> None:
        if self.hindrance(servers, target) is not None:
            return  # it never happened here
        if isinstance(server := servers.nodes[target], GivenRedisGroup | GivenPatroni):
            await server.until_agreed()
            return
        group = self.group(servers, target)
        if group.links is not None:
            group.links.heal()
        for node in group.nodes:
            await node.start_again()
        await group.until_agreed()
        if group.replacements_expected:
            await group.replaced_as_expected()


class RedisGroupFault(GroupFault):
    """A fault that only a group of Redis nodes knows."""

    targets = names_of(Protocol.REDIS, roles=(Role.PRIMARY,))
    groups: ClassVar[tuple[type[RedisGroup], ...]] = (SentinelGroup, ClusterGroup)

    def group(self, servers: Servers, target: str) -> RedisGroup:
        server = servers.nodes[target]
        if not isinstance(server, self.groups):
            raise self.refusal(servers, target)
        return server


# PostgreSQL ------------------------------------------------------------------------------------------------


class PostgresFault(Fault):
    """A fault that only a PostgreSQL knows: of a primary, unless it says otherwise."""

    targets = names_of(Protocol.POSTGRES, roles=(Role.PRIMARY,))

    def postgres(self, servers: Servers, target: str) -> PostgresServer:
        return as_postgres(servers.nodes[target])


def as_postgres(server: Server) -> PostgresServer:
    """Return the server as what it must be."""
    if not isinstance(server, PostgresServer):
        raise TypeError(server)
    return server


async def holds(server: PostgresServer, condition: str) -> bool:
    """Ask the server whether this is so."""
    return (await server.ask(f"select ({condition})::text as holds")).get("holds") == "true"


async def until_holds(server: PostgresServer, condition: str, what: str) -> None:
    """Ask until it is so; raises `ServerUnreachableError` if it never is."""
    if not await until(lambda: holds(server, condition), AGREE_SECONDS_MAX, _POLL_SECONDS):
        raise ServerUnreachableError(
            f"{server.title} did not {what} within {AGREE_SECONDS_MAX:.0f} s; see its log {server.log_path}"
        )


async def until_caught_up(primary: PostgresServer, replica: PostgresServer) -> None:
    """Wait until a replica shows all that its primary had written when this was called."""
    now = (await primary.ask("select pg_current_wal_lsn()::text as position"))["position"]
    reached = f"pg_wal_lsn_diff(pg_last_wal_replay_lsn(), '{now}') >= 0"
    await until_holds(replica, f"not pg_is_in_recovery() or {reached}", "catch up")


# SQLite ----------------------------------------------------------------------------------------------------


class SqliteFault(Fault):
    """A fault of a file that several processes write to."""

    targets = names_of(Protocol.SQLITE)

    def file(self, servers: Servers, target: str) -> SqliteServer:
        server = servers.nodes[target]
        if not isinstance(server, SqliteServer):
            raise TypeError(server)
        return server


# The network -------------------------------------------------------------------------------------------------


class NetworkFault(Fault):
    """A fault between clients and server, in the proxy; the server itself is well."""

    needs = "a proxy before the server"

    def hindrance(self, servers: Servers, target: str) -> str | None:
        if servers.nodes[target].proxy is None:
            return f"clients of {target} are connected to it directly; start the servers with proxies"
        return None

    @abc.abstractmethod
    async def begin(self, proxy: Proxy) -> None:
        """Let it happen in this proxy."""

    async def end(self, proxy: Proxy) -> None:
        """End it; nothing where it is over as soon as it has happened."""

    async def inject(self, servers: Servers, target: str) -> None:
        for proxy in self.proxies(servers, target):
            await self.begin(proxy)

    async def heal(self, servers: Servers, target: str) -> None:
        for proxy in servers.nodes[target].proxies:
            await self.end(proxy)

    def proxies(self, servers: Servers, target: str) -> list[Proxy]:
        """Return what is before the server: one proxy for each host of its address."""
        proxies = servers.nodes[target].proxies
        if not proxies:
            raise self.refusal(servers, target)
        return proxies


# Kubernetes --------------------------------------------------------------------------------------------------


class KubernetesFault(Fault):
    """A fault of a given server that runs in Kubernetes, through its API."""

    targets = names_of(Protocol.REDIS, Protocol.POSTGRES)
    needs = "a server in Kubernetes whose workload is named in testbed.workloads"

    def hindrance(self, servers: Servers, target: str) -> str | None:
        if not isinstance(servers.nodes[target].backend, OnKubernetes):
            return "only where the server was given, runs in Kubernetes, and testbed.workloads names its workload"
        return None

    def workload(self, servers: Servers, target: str) -> OnKubernetes:
        backend = servers.nodes[target].backend
        if not isinstance(backend, OnKubernetes):
            raise self.refusal(servers, target)
        return backend
