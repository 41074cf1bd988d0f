"""What a run needs: its stores, and for each server whether it is given or started here."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from soak.addresses import LEDGER, addresses
from soak.daemon.contracts import check_declared
from soak.errors import UsageError
from soak.settings import SoakSettings
from soak.stores import registry
from soak.stores.protocol import StoreSpec

__all__ = ["LEDGER", "Plan", "addresses", "make_plan", "setting_of", "without_secrets"]

ONLY_GIVEN = ("http",)
"""Servers that nobody but their owner can start."""


@dataclass(frozen=True)
class Plan:
    """The stores of a run and where their servers come from."""

    specs: tuple[StoreSpec, ...]
    given: dict[str, str]
    """Addresses of servers that already run, by kind; the ledger may be among them."""
    embedded: tuple[str, ...]
    """Kinds that are started by us."""
    testbed: str = "local"
    """Where they are started, the ledger apart, which always is here."""

    @property
    def kinds(self) -> list[str]:
        """All servers of the run, wherever they come from."""
        return [*self.embedded, *self.given]

    @property
    def names(self) -> list[str]:
        return [spec.name for spec in self.specs]


def make_plan(settings: SoakSettings, names: list[str]) -> Plan:
    """Find the stores and decide which servers are started; raises `UsageError` before anything is."""
    specs = tuple(registry.find(name) for name in dict.fromkeys(names))
    check_declared(settings.contract, [spec.name for spec in specs], registry.specs())
    known = addresses(settings)
    needs = dict.fromkeys(kind for spec in specs for kind in spec.needs)
    given = {kind: known[kind] for kind in (*needs, LEDGER) if kind in known}
    embedded = tuple(kind for kind in (LEDGER, *needs) if kind not in given)
    _check_only_given(embedded)
    _check_replica(given, needs)
    _check_ledger_is_apart(given)
    return Plan(specs=specs, given=given, embedded=embedded, testbed=settings.testbed.kind)


def setting_of(kind: str) -> str:
    """Name the setting that gives the address of a kind of server."""
    return "ledger.url" if kind == LEDGER else f"servers.{kind.replace('-', '_')}"


def without_secrets(address: str) -> str:
    """Name a server without user and password, to tell whether it is the same one."""
    parts = urlsplit(address)
    host = parts.hostname or ""
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{host}{port}{parts.path}"


def _check_only_given(embedded: tuple[str, ...]) -> None:
    for kind in embedded:
        if kind in ONLY_GIVEN:
            raise UsageError(f"store {kind} needs the address of a service that runs; give it with --url")


def _check_replica(given: dict[str, str], needs: dict[str, None]) -> None:
    if "postgres-replica" not in needs:
        return
    for one, other in (("postgres", "postgres-replica"), ("postgres-replica", "postgres")):
        if one in given and other not in given:
            raise UsageError(
                f"{setting_of(one)} is given but {setting_of(other)} is not; "
                "give both, or none to have both started here"
            )


def _check_ledger_is_apart(given: dict[str, str]) -> None:
    if LEDGER not in given:
        return
    ledger = urlsplit(given[LEDGER])
    for kind, address in given.items():
        server = urlsplit(address)
        same = (server.hostname, server.port, server.scheme == "unix" and server.path) == (
            ledger.hostname,
            ledger.port,
            ledger.scheme == "unix" and ledger.path,
        )
        if kind != LEDGER and same:
            raise UsageError(
                f"ledger.url names the same server as {setting_of(kind)}; the ledger needs a server of its own, "
                "or it would be lost together with what it records"
            )
