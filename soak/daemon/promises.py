"""Before a soak begins: what the stores promise, held against what their servers as configured can give."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import msgspec

from soak.checker.telemetry import ServerSample
from soak.contracts.floor import refusal_below_floor
from soak.contracts.guarantees import KEEPS_DATA, Guarantees, guarantees_of, keeper_of
from soak.contracts.mismatch import LOSS_CLAUSES, Mismatch
from soak.daemon.contracts import Settled, mismatches, settle_contracts
from soak.daemon.plan import Plan
from soak.errors import ServerUnreachableError, UsageError
from soak.ledger.records import RunHeader
from soak.servers.inspect import inspect
from soak.settings import SoakSettings
from soak.stores.protocol import StoreContext

ASK_SECONDS_MAX = 5.0


class Promises(msgspec.Struct, frozen=True, kw_only=True):
    """What the stores of a run are held to, and what their servers said of themselves."""

    settled: list[Settled]
    configurations: dict[str, dict[str, str]]
    """The effective configuration by server, as it was when the run began."""
    lines: list[str]
    """What a person should know before it begins."""


async def ask_servers(servers: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Return the effective configuration of each server; one that gives no answer is left out."""
    asked = [(kind, url) for kind, url in servers.items() if kind.startswith(KEEPS_DATA)]
    answers = await asyncio.gather(*(_ask(kind, url) for kind, url in asked))
    return {sample.server: sample.configuration for sample in answers if sample is not None}


async def _ask(kind: str, url: str) -> ServerSample | None:
    try:
        return await inspect(kind, url, timeout_seconds=ASK_SECONDS_MAX)
    except ServerUnreachableError:
        return None  # whoever opens the store next says why, and with which address


async def settle_promises(
    settings: SoakSettings,
    plan: Plan,
    context: StoreContext,
    begun: RunHeader | None,
) -> Promises:
    """Settle every contract; raises `UsageError` where a server cannot keep one, unless that is allowed.

    A run that is resumed keeps the contracts it began with: what has changed since is drift, which the verifier tells.
    """
    now = await ask_servers(context.servers)
    first = begun.configurations if begun is not None else now
    given = given_by(now)
    settled = settle_contracts(plan.specs, context, settings.contract, given_by(first))
    found = mismatches(settled, given)
    if found and settings.contract_mismatch == "refuse" and begun is None:
        raise _refusal_to_begin(settled, found, given, settings.contract.floor)
    lines = [f"{kind}: {given[kind].words}" for kind in KEEPS_DATA if kind in given]
    lines += [one.line for one in settled]
    lines += [f"warning: {mismatch.fact}" for mismatch in found]
    lines += [
        f"warning: {one.server} does not tell how it is configured; the contract of {one.store} is taken on trust"
        for one in settled
        if one.server is not None and one.is_unchecked
    ]
    return Promises(settled=settled, configurations=first, lines=lines)


async def check_promises(header: RunHeader, servers: Mapping[str, str], needs: Mapping[str, tuple[str, ...]]) -> None:
    """Raise `UsageError` where the servers cannot keep the contracts that a run was begun with."""
    given = given_by(await ask_servers(servers))
    settled = [
        Settled(store=store, contract=contract, origin="", server=keeper_of(needs.get(store, ())))
        for store, contract in header.contracts.items()
    ]
    if found := mismatches(settled, given):
        raise refusal(found)


def _refusal_to_begin(
    settled: list[Settled], found: list[Mismatch], given: Mapping[str, Guarantees], floor_seconds: float
) -> UsageError:
    raised = {(one.store, clause) for one in settled for clause in one.raised}
    declared = [one.line for one in found if (one.store, LOSS_CLAUSES.get(one.clause)) not in raised]
    derived = [
        refusal_below_floor(one.store, one.raised, given[one.server], floor_seconds)
        for one in settled
        if one.raised and one.server is not None
    ]
    return UsageError("\n".join([*declared, *derived]))


def refusal(found: list[Mismatch]) -> UsageError:
    return UsageError("\n".join(mismatch.line for mismatch in found))


def given_by(configurations: Mapping[str, dict[str, str]]) -> dict[str, Guarantees]:
    """Return what each server can promise, by its effective configuration."""
    return {
        kind: guarantees_of(ServerSample(server=kind, at=0, configuration=configuration))
        for kind, configuration in configurations.items()
    }
