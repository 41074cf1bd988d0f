"""`soak stores`: what can be tested, and what each promises."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Mapping

import msgspec

from soak.commands.flags import SERVERS, STORE, Flag, add_flags, add_wide, read_configuration
from soak.contracts.guarantees import Guarantees, Loss
from soak.contracts.presets import PRESETS, ContractPreset
from soak.daemon.contracts import Settled, ask_servers, given_by, settle_contracts
from soak.daemon.plan import LEDGER, addresses
from soak.errors import ExitCode
from soak.join import store_context
from soak.report.text import defined, fits, print_json, print_table, width_of_page
from soak.stores import registry
from soak.stores.protocol import StoreSpec

DESCRIPTION = (
    "List the stores with the servers they need and their contracts. Where the address of a server is given, its\n"
    "guarantees are read from its effective configuration."
)
EPILOG = """\
examples:
  soak stores
  soak stores --presets                          promises by name, for 'preset = "…"' in [contract.STORE]
  soak stores --redis redis://staging:6379       what the stores can promise on that server
  soak stores --store mypackage.memory:Memory    a class of your own"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_wide(parser)
    parser.add_argument("--presets", action="store_true", help="list the presets for contracts instead")
    ttl = Flag("--ttl", "stores.ttl", "TIME", "time to live for stores that expire sessions")
    add_flags(parser, (STORE, ttl, *(flag for flag in SERVERS if flag.name != "--ledger")))


def execute(arguments: argparse.Namespace) -> ExitCode:
    configuration = read_configuration(arguments)
    if arguments.presets:
        _print_presets(as_json=arguments.json, is_wide=arguments.wide)
        return ExitCode.PASS
    settings = configuration.settings
    specs = registry.specs()
    if configuration.origin("stores.names") is not None:
        specs = {name: registry.find(name) for name in settings.stores.names}
    servers = {kind: url for kind, url in addresses(settings).items() if kind != LEDGER}
    given = given_by(asyncio.run(ask_servers(servers)))
    context = store_context(settings.stores, servers, "soak")
    settled = {one.store: one for one in settle_contracts(specs.values(), context, settings.contract, given)}
    if arguments.json:
        described = {name: _described(spec, settled[name]) for name, spec in specs.items()}
        print_json(msgspec.json.encode(described))
        return ExitCode.PASS
    described_rows = [(s.name, ", ".join(s.needs) or "-", s.description) for s in specs.values()]
    print_table(("store", "needs", "description"), described_rows, is_wide=arguments.wide)
    print_table(("", ""), [])
    _print_contracts(settled, is_wide=arguments.wide)
    _print_servers(given, servers, is_wide=arguments.wide)
    return ExitCode.PASS


def _print_contracts(settled: Mapping[str, Settled], *, is_wide: bool) -> None:
    """Print a line for each contract; where it would be cut, a line for each clause, once for stores that are alike."""
    promised = {name: {**one.contract.clauses(), "obtained": one.origin} for name, one in settled.items()}
    heads = ("store", *next(iter(promised.values()), {}))
    rows = [(name, *clauses.values()) for name, clauses in promised.items()]
    if is_wide or fits(heads, rows):
        print_table(heads, rows)
        return
    alike: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for name, clauses in promised.items():
        alike.setdefault(tuple(clauses.items()), []).append(name)
    for terms, names in alike.items():
        print_table((", ".join(names),), [(line,) for line in defined(terms, width_of_page())])


def _print_servers(given: Mapping[str, Guarantees], servers: Mapping[str, str], *, is_wide: bool) -> None:
    print_table(("", ""), [])
    if not servers:
        print_table(("What is not declared follows from the server's configuration when a run begins.",), [])
        return
    rows = [(kind, given[kind].words if kind in given else "gives no answer") for kind in servers]
    print_table(("server", "as configured"), rows, is_wide=is_wide)


def _print_presets(*, as_json: bool, is_wide: bool) -> None:
    if as_json:
        print_json(msgspec.json.encode(PRESETS))
        return
    rows = [(name, *_promised(preset), preset.description) for name, preset in PRESETS.items()]
    print_table(
        ("preset", "after a crash", "after a power cut", "after a failover", "eviction", "meant for"),
        rows,
        is_wide=is_wide,
    )


def _promised(preset: ContractPreset) -> tuple[str, ...]:
    losses = (preset.crash_loss_seconds, preset.power_loss_seconds, preset.failover_seconds)
    return *(Loss(seconds=seconds).words for seconds in losses), "allowed" if preset.eviction_allowed else "none"


def _described(spec: StoreSpec, settled: Settled) -> dict[str, object]:
    return {
        "needs": spec.needs,
        "description": spec.description,
        "promises": settled.contract.clauses(),
        "contract": settled.contract,
        "obtained": settled.origin,
    }
