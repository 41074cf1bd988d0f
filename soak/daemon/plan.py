"""What a run needs: its stores, and for each server whether it is given or started here."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

import msgspec

from soak.addresses import LEDGER, addresses
from soak.configuration import Configuration
from soak.daemon.contracts import check_declared, check_stores
from soak.errors import UsageError
from soak.hosts import hosts_of
from soak.servers.kinds import HTTP, KINDS, PGBOUNCER, POSTGRES, POSTGRES_REPLICA, REDIS, BackendKind, Role, ServerKind
from soak.settings import SoakSettings
from soak.stores import registry
from soak.stores.protocol import StoreSpec
from soak.subjects import catalogue as subjects
from soak.subjects.description import Subject
from soak.suggestion import did_you_mean
from soak.thresholds import SEARCH, thresholds_in

__all__ = [
    "LEDGER",
    "RunPlan",
    "addresses",
    "make_plan",
    "setting_of",
    "unused_servers",
    "unused_thresholds",
    "without_secrets",
]

NEEDS = tuple(kind for kind in KINDS if kind != LEDGER)
"""What a store may need."""


@dataclass(frozen=True)
class RunPlan:
    """The stores of a run and where their servers come from."""

    specs: tuple[StoreSpec, ...]
    given: dict[str, str]
    """Addresses of servers that already run, by kind; the ledger may be among them."""
    embedded: tuple[str, ...]
    """Kinds that are started by us."""
    testbed: str = "local"
    """Where they are started, the ledger apart, which always is here."""
    subject: Subject | None = None
    """What is started as the service behind the store http."""

    @property
    def kinds(self) -> list[str]:
        """All servers of the run, wherever they come from."""
        return [*self.embedded, *self.given]

    @property
    def names(self) -> list[str]:
        return [spec.name for spec in self.specs]


def make_plan(settings: SoakSettings, names: list[str]) -> RunPlan:
    """Find the stores and decide which servers are started; raises `UsageError` before anything is."""
    subject = _subject(settings)
    specs = tuple(_pooled(settings, _resting(registry.find(name), subject)) for name in dict.fromkeys(names))
    check_declared(settings.contract.stores, [spec.name for spec in specs], registry.NAMES)
    named = [store for store, limits in settings.thresholds.items() if isinstance(limits, dict)]
    check_stores("thresholds", named, [*(spec.name for spec in specs), *registry.NAMES])
    _check_needs(specs)
    known = addresses(settings)
    needs = dict.fromkeys(kind for spec in specs for kind in spec.needs)
    given = {kind: known[kind] for kind in (*needs, LEDGER) if kind in known}
    embedded = tuple(kind for kind in (LEDGER, *needs) if kind not in given)
    _check_service(subject, needs, embedded, settings.testbed.kind)
    _check_replica(given, needs)
    _check_ledger_is_apart(given)
    return RunPlan(specs=specs, given=given, embedded=embedded, testbed=settings.testbed.kind, subject=subject)


def unused_servers(configuration: Configuration, plan: RunPlan) -> list[str]:
    """Say which servers are given that no store of this run uses; raises `UsageError` where this command names one.

    What soak.toml or the environment say may be meant for other commands.
    """
    lines = []
    for kind in KINDS.values():
        if kind.name in plan.kinds or not kind.setting.startswith("servers."):
            continue
        for key in (kind.setting, f"{kind.setting}_version", f"{kind.setting}_topology"):
            if (origin := configuration.origin(key)) is None:
                continue
            line = f"{origin}: no store of this run ({', '.join(plan.names)}) uses {kind.name}"
            if origin.startswith("--"):
                raise UsageError(f"{line}; add --store {_store_on(kind)}, or leave it out")
            lines.append(f"warning: {line}, so {key} changes nothing")
    return lines


def unused_thresholds(configuration: Configuration, plan: RunPlan) -> list[str]:
    """Say which thresholds this run cannot measure; raises `UsageError` for one from a flag.

    A threshold for all stores is about those that can: one of searches needs a store that can be searched.
    """
    lines = []
    for threshold in thresholds_in(configuration.settings.thresholds):
        name = f"{threshold.store}.{threshold.name}".lstrip(".")
        origin = configuration.origin(f"thresholds.{name}") or "settings"
        stores = [spec for spec in plan.specs if threshold.store in {"", spec.name}]
        if not stores:
            line = f"{origin}: {name} is for a store that is not in this run"
            if origin.startswith("--"):
                raise UsageError(f"{line} ({', '.join(plan.names)}); add --store {threshold.store}, or leave it out")
            lines.append(f"warning: {line}, so it is not judged")
        elif threshold.quantity == SEARCH and not any(spec.may_be_searched for spec in stores):
            unable = ", ".join(spec.name for spec in stores)
            line = f"{origin}: {name} can never be measured: {unable} cannot be searched"
            if origin.startswith("--"):
                raise UsageError(f"{line}; leave it out, or add a store with a search, such as --store pgvector")
            lines.append(f"warning: {line}; the run will end inconclusive")
    return lines


def setting_of(kind: str) -> str:
    """Name the setting that gives the address of a kind of server."""
    return KINDS[kind].setting


def without_secrets(address: str) -> str:
    """Name a server without user and password, to see whether it is the same one."""
    parts = urlsplit(address)
    return f"{parts.scheme}://{','.join(map(str, hosts_of(address)))}{parts.path}"


def _check_needs(specs: Iterable[StoreSpec]) -> None:
    for spec in specs:
        for kind in spec.needs:
            if kind not in NEEDS:
                hint = did_you_mean(kind, NEEDS, f"choose from {', '.join(NEEDS)}")
                raise UsageError(f"store {spec.name} needs {kind!r}, which is no kind of server; {hint}")


def _store_on(kind: ServerKind) -> str:
    """Name a built-in store that uses such a server; a pooler stands before the others of its group."""
    wanted = kind.group if kind.role is Role.POOLER else kind.name
    return next(name for name in registry.NAMES if wanted in registry.find(name).needs)


def _subject(settings: SoakSettings) -> Subject | None:
    """Return the memory library that is to be started as a service."""
    if settings.testbed.subject is None:
        return None
    if settings.servers.http is not None:
        raise UsageError(
            "servers.http gives the address of a service that runs, and testbed.subject names one to start; "
            "give one of them (--url, --subject)"
        )
    (subject,) = subjects.find([settings.testbed.subject])
    return subject


def _resting(spec: StoreSpec, subject: Subject | None) -> StoreSpec:
    """Give a store what is behind the service it speaks with, and what that promises."""
    if subject is None or HTTP.name not in spec.needs:
        return spec
    return msgspec.structs.replace(
        spec,
        needs=tuple(dict.fromkeys((*spec.needs, *subject.needs))),
        declared=subject.contract,
        declared_clauses=tuple(subject.declared_clauses),
    )


def _pooled(settings: SoakSettings, spec: StoreSpec) -> StoreSpec:
    """Put a pgbouncer among what a store on PostgreSQL needs, where one is wanted: its faults count for the store."""
    if settings.servers.pgbouncer is None or POSTGRES.name not in spec.needs:
        return spec
    return msgspec.structs.replace(spec, needs=(*spec.needs, PGBOUNCER.name))


def _check_service(subject: Subject | None, needs: dict[str, None], embedded: tuple[str, ...], testbed: str) -> None:
    if HTTP.name in embedded and subject is None:
        raise UsageError(
            "store http needs a service: give the address of one that runs with --url, or name one to start with "
            "--subject"
        )
    if subject is not None and subject.server_modules and REDIS.name in embedded and testbed == BackendKind.DOCKER:
        raise UsageError(
            f"{subject.name} needs a Redis that loads {subject.server_modules[0]}, which is a file of this machine; "
            "leave out --testbed docker"
        )
    if subject is not None and HTTP.name not in needs:
        raise UsageError(f"testbed.subject = {subject.name} is a service that no store speaks with; add --store http")


def _check_replica(given: dict[str, str], needs: dict[str, None]) -> None:
    if POSTGRES_REPLICA.name not in needs:
        return
    for one, other in ((POSTGRES.name, POSTGRES_REPLICA.name), (POSTGRES_REPLICA.name, POSTGRES.name)):
        if one in given and other not in given:
            raise UsageError(
                f"{setting_of(one)} is given but {setting_of(other)} is not; "
                "give both, or none to have both started here"
            )


def _check_ledger_is_apart(given: dict[str, str]) -> None:
    if LEDGER not in given:
        return
    ledger = _whereabouts(given[LEDGER])
    for kind, address in given.items():
        if kind != LEDGER and ledger & _whereabouts(address):
            raise UsageError(
                f"ledger.url names the same server as {setting_of(kind)}; the ledger needs a server of its own, "
                "or it would be lost together with what it records"
            )


def _whereabouts(address: str) -> set[object]:
    parts = urlsplit(address)
    return {parts.path} if parts.scheme == "unix" else set(hosts_of(address))
