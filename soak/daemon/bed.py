"""The testbed of a run, as its settings want it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

from soak.daemon.plan import RunPlan, addresses, setting_of
from soak.errors import UsageError
from soak.faults.catalogue import current_name, fault_named
from soak.servers import versions
from soak.servers.external.backend import OperatorCommand
from soak.servers.external.servers import ExternalServers
from soak.servers.kinds import KINDS, REDIS, BackendKind, PoolMode, PostgresTopology
from soak.servers.local import LocalServers
from soak.servers.managed import ManagedOptions
from soak.servers.server import EventListener
from soak.servers.servers import CombinedServers, Servers
from soak.settings import SoakSettings
from soak.subjects.environment import default_folder, interpreter_for, redis_options_of
from soak.subjects.process import program_of

_ALWAYS_HERE = tuple(kind.name for kind in KINDS.values() if BackendKind.DOCKER not in kind.backends)
"""Started as processes of this machine, also where the others are containers."""


def make_testbed(
    settings: SoakSettings,
    plan: RunPlan,
    folder: Path,
    *,
    on_event: EventListener,
    say: Callable[[str], None],
    proxied: bool = False,
    power_cuts: bool = False,
) -> Servers:
    """Return where the servers of this plan are: some kinds always here, the others as the settings say.

    Proxies and power cuts are had where the settings or the caller want them. Nothing is started yet.
    """
    wanted = settings.testbed
    containers, workloads = _named(settings, "container"), _named(settings, "workload")
    if both := sorted({*containers} & {*workloads}):
        raise UsageError(f"{both[0]} has a container and a workload; leave out testbed.containers or testbed.workloads")
    options: ManagedOptions = {
        "redis_options": wanted.redis_options,
        "proxied": proxied or wanted.proxied,
        "power_cuts": power_cuts or wanted.power_cuts,
        "power_cut_by": wanted.power_cut,
        "disk_size": wanted.disk,
        "on_event": on_event,
    }
    of_processes: ManagedOptions = {**options, "redis_options": {**_modules(plan, say), **wanted.redis_options}}
    others: list[Servers] = []
    login = settings.verifier.postgres_login
    local = LocalServers(
        folder,
        redis_version=versions.redis_version(settings.servers.redis_version),
        redis_topology=settings.servers.redis_topology,
        redis_binary=wanted.redis_binary,
        redis_upgrade=_upgrade(settings),
        redis_upgrade_binary=wanted.redis_upgrade_binary,
        postgres_version=versions.postgres_version(settings.servers.postgres_version).major,
        sqlite_synchronous=settings.servers.sqlite_synchronous,
        pool_mode=settings.servers.pgbouncer or PoolMode.TRANSACTION,
        pool_logins=[] if login is None else [login.get_secret_value()],
        postgres_topology=settings.servers.postgres_topology,
        postgres_replication=settings.servers.postgres_replication,
        service=None if plan.subject is None else program_of(plan.subject, say),
        neighbours=lambda: {kind: server.url for bed in others for kind, server in bed.nodes.items()},
        **of_processes,
    )
    if wanted.kind == "docker":
        _check_has_image(settings)
    docker = wanted.kind == "docker" and any(kind not in _ALWAYS_HERE for kind in plan.embedded)
    if not plan.given and not docker:
        return local
    own: Servers = local
    if docker:
        own = _docker(settings, folder, options)
    given = _given(settings, plan, folder, containers, workloads)
    others += [own, given] if docker else [given]
    # What is here comes last: a service gets the addresses of all that it depends on.
    return CombinedServers(
        {
            **dict.fromkeys(plan.given, given),
            **{kind: own for kind in plan.embedded if kind not in _ALWAYS_HERE},
            **{kind: local for kind in plan.embedded if kind in _ALWAYS_HERE},
        }
    )


def _check_has_image(settings: SoakSettings) -> None:
    if settings.servers.postgres_topology is PostgresTopology.PATRONI:
        raise UsageError(
            "servers.postgres_topology = patroni: there is no official image of Patroni; leave out --testbed docker"
        )


def ways_through_proxies(bed: Servers, plan: RunPlan) -> list[str]:
    """Say where clients outside soak reach the given servers, so that network faults happen to them, too."""
    return [
        f"clients reach {kind} through a proxy at {proxy.host}:{proxy.port}; load on other machines does not, and is "
        "spared its faults, unless it is given an address of the proxy that it can reach (testbed.proxy_host)"
        for kind in plan.given
        for proxy in bed.nodes[kind].proxies
    ]


def _modules(plan: RunPlan, say: Callable[[str], None]) -> dict[str, str]:
    """Return the settings of a Redis that loads what the service needs; its packages are installed for that."""
    if plan.subject is None or not plan.subject.server_modules or REDIS.name not in plan.embedded:
        return {}
    return redis_options_of(plan.subject, interpreter_for(plan.subject, default_folder(), say))


def _upgrade(settings: SoakSettings) -> versions.ServerVersion | None:
    wanted = settings.testbed.redis_upgrade
    return versions.redis_version(wanted) if wanted is not None else None


def _docker(settings: SoakSettings, folder: Path, options: ManagedOptions) -> Servers:
    # Imported only where it is used: the client of Docker is a heavy one.
    from soak.servers.docker.servers import DockerServers  # noqa: PLC0415

    return DockerServers(
        folder,
        redis_version=versions.redis_version(settings.servers.redis_version),
        redis_topology=settings.servers.redis_topology,
        postgres_version=versions.postgres_version(settings.servers.postgres_version),
        postgres_topology=settings.servers.postgres_topology,
        postgres_replication=settings.servers.postgres_replication,
        redis_image=settings.testbed.redis_image,
        postgres_image=settings.testbed.postgres_image,
        redis_upgrade=_upgrade(settings),
        redis_upgrade_image=settings.testbed.redis_upgrade_image,
        memory=settings.testbed.memory,
        cpus=settings.testbed.cpus,
        **options,
    )


def _given(
    settings: SoakSettings, plan: RunPlan, folder: Path, containers: dict[str, str], workloads: dict[str, str]
) -> Servers:
    wanted = settings.testbed
    for name in wanted.allow_faults:
        try:
            fault_named(name)
        except UsageError as error:
            raise UsageError(f"testbed.allow_faults: {error}") from None
    command = wanted.restart_command
    return ExternalServers(
        folder,
        plan.given,
        allow_faults=map(current_name, wanted.allow_faults),
        proxy_host=wanted.proxy_host,
        restart_command=OperatorCommand(command, wanted.restart_timeout) if command is not None else None,
        containers=containers,
        workloads=workloads,
        kubeconfig=wanted.kubeconfig,
        patroni=[address.get_secret_value() for address in wanted.patroni],
    )


def _named(settings: SoakSettings, what: Literal["container", "workload"]) -> dict[str, str]:
    """Return the containers or workloads of given servers by kind; raises `UsageError` where one cannot be meant."""
    section = settings.testbed.containers if what == "container" else settings.testbed.workloads
    named = {kind.replace("_", "-"): name for kind, name in section if name is not None}
    if strangers := sorted(set(named) - set(addresses(settings))):
        raise UsageError(
            f"testbed.{what}s.{strangers[0].replace('-', '_')} names a {what} of a server whose address is not "
            f"given; set {setting_of(strangers[0])}, too"
        )
    if len(set(named.values())) < len(named):
        raise UsageError(f"testbed.{what}s names one {what} twice; each server has its own")
    return named
