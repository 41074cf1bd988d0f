"""The contract each store is held to: declared in the settings, derived from its server, or the store's own.

Before a soak begins, each contract is compared with what the servers, as configured, can give.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from soak.checker.contract import DURABILITY, Contract
from soak.contracts.guarantees import (
    ASYNC_REPLICATION_LOSS_SECONDS,
    KEEPS_DATA,
    Guarantees,
    Loss,
    guarantees_given,
    keeper_of,
)
from soak.contracts.mismatch import LOSS_CLAUSES, Mismatch, find_mismatches, refusal_below_floor
from soak.contracts.presets import KEY as PRESET
from soak.contracts.presets import PRESETS
from soak.duration import parse_seconds
from soak.errors import ServerUnreachableError, UsageError
from soak.hosts import is_group
from soak.ledger.records import RunHeader
from soak.servers.inspect import inspect, inspect_nodes
from soak.servers.kinds import KINDS, MAXIMUM_LAG, PATRONI_SETTINGS, Protocol, kind_of
from soak.servers.patroni_settings import patroni_settings
from soak.settings import ContractSettings, SoakSettings
from soak.stores import registry
from soak.stores.protocol import StoreContext, StoreSpec
from soak.suggestion import did_you_mean

Declared = Mapping[str, Mapping[str, object]]

CRASH = "crash_loss_seconds"

_NO_LIMIT = frozenset({"none", "null", ""})


class Settled(msgspec.Struct, frozen=True, kw_only=True):
    """The contract of one store, and how it was obtained."""

    store: str
    contract: Contract
    origin: str
    """`declared`, `preset NAME`, `derived`, `the store's own` or `the service's own`, or several of them."""
    server: str | None
    """The one server that keeps its data; none: several do, or none that is known."""
    is_derived: bool = False
    """How durable it is follows from that server alone; a service in front of it has declared nothing."""
    raised: dict[str, Loss] = {}
    """By clause, what its server as configured may lose, where that is more than the floor it is held to instead."""
    is_unchecked: bool = False
    """Its server reports too little of its configuration to compare the contract with it."""

    @property
    def line(self) -> str:
        return f"{self.store} is held to: {self.contract.clauses()['durability']} ({self.origin})"


def settle_contracts(
    specs: Iterable[StoreSpec], context: StoreContext, settings: ContractSettings, given: Mapping[str, Guarantees]
) -> list[Settled]:
    """Return what each store of the run is held to, with what its server, by kind, is known to give."""
    return [_settle(spec, context, settings.stores.get(spec.name, {}), given, settings.floor) for spec in specs]


def mismatches(settled: Iterable[Settled], given: Mapping[str, Guarantees], *, waits: bool = False) -> list[Mismatch]:
    """Return every clause that is promised and that the server as configured cannot keep."""
    return [
        mismatch
        for one in settled
        if one.server is not None and one.server in given
        for mismatch in find_mismatches(one.store, one.contract, given[one.server], waits=waits)
    ]


def check_declared(declared: Declared, in_run: Iterable[str], known: Iterable[str]) -> None:
    """Refuse clauses that do not exist or make no sense, before anything is started."""
    check_stores("contract", declared, [*in_run, *known])
    for store, clauses in declared.items():
        _override(store, Contract(), clauses)


def check_stores(section: str, named: Iterable[str], known: Sequence[str]) -> None:
    """Refuse a store that a section of the settings names and that does not exist."""
    for store in named:
        if store not in known:
            raise UsageError(f"{section}.{store}: no such store{_near(store, known)}; 'soak stores' lists them")


def _settle(
    spec: StoreSpec,
    context: StoreContext,
    clauses: Mapping[str, object],
    given: Mapping[str, Guarantees],
    floor_seconds: float,
) -> Settled:
    own = spec.contract_for(context)
    server = keeper_of(spec.needs)
    found = given.get(server or "")
    losses = _derived(spec, own, clauses, given.get(server or ""))
    raised = {clause: loss for clause, loss in losses.items() if loss.is_weaker_than(floor_seconds)}
    derived = {clause: floor_seconds if clause in raised else loss.seconds for clause, loss in losses.items()}
    contract = _override(spec.name, msgspec.structs.replace(own, **derived), clauses)
    if "failover_loss_seconds" not in _declared(spec, own, clauses):
        # A replica that is promoted too soon may lack no more than a crash may take, unless its server says otherwise.
        failover = found.failover if found is not None else None
        if failover is not None:
            contract = msgspec.structs.replace(contract, failover_loss_seconds=_failover_seconds(failover))
        elif CRASH in {*clauses, *derived}:
            contract = msgspec.structs.replace(contract, failover_loss_seconds=contract.crash_loss_seconds)
    return Settled(
        store=spec.name,
        contract=contract,
        origin=_origin(spec, clauses, derived, server) + (", raised to contract.floor" if raised else ""),
        server=server,
        is_derived=CRASH in derived,
        raised=raised,
        is_unchecked=found is None
        or not all(loss.is_known for loss in (found.crash, found.power, found.failover) if loss is not None),
    )


def _failover_seconds(loss: Loss) -> float | None:
    # Who does not say that commits wait for a standby is taken for one that lets them go.
    if loss.is_known or loss.seconds is None:
        return loss.seconds
    return max(loss.seconds, ASYNC_REPLICATION_LOSS_SECONDS)


def _derived(
    spec: StoreSpec, own: Contract, clauses: Mapping[str, object], given: Guarantees | None
) -> dict[str, Loss]:
    """Return how much may be lost by what the server reports, where nothing is declared for a store."""
    if given is None:
        return {}
    losses = {"crash_loss_seconds": given.crash, "power_loss_seconds": given.power}
    declared = _declared(spec, own, clauses)
    return {
        clause: loss
        for clause, loss in losses.items()
        if clause not in declared and (loss.is_known or loss.is_weaker_than(getattr(own, clause)))
    }


def _declared(spec: StoreSpec, own: Contract, clauses: Mapping[str, object]) -> set[str]:
    """Return the clauses that somebody has named: in the settings, in the class, or the service behind it."""
    # What a store of ours says of itself is what its server gives by default.
    named = frozenset() if spec.name in registry.NAMES else own.durability_named
    return {*clauses, *spec.declared_clauses, *(DURABILITY if PRESET in clauses else ()), *named}


def _origin(spec: StoreSpec, clauses: Mapping[str, object], derived: Mapping[str, object], server: str | None) -> str:
    parts = ["declared by the service"] if {*spec.declared_clauses} & {*DURABILITY} else []
    if PRESET in clauses:
        parts.append(f"preset {clauses[PRESET]}")
    if single := [clause for clause in clauses if clause != PRESET]:
        parts.append(f"declared: {', '.join(single)}" if parts or derived else "declared")
    if derived:
        parts.append(f"derived from {server}")
    return ", ".join(parts) or ("the store's own" if spec.declared is None else "the service's own")


def _override(store: str, contract: Contract, clauses: Mapping[str, object]) -> Contract:
    if not clauses:
        return contract
    values: dict[str, object] = msgspec.to_builtins(contract)
    if PRESET in clauses:
        values |= _preset(store, clauses[PRESET])
    for clause, value in clauses.items():
        if clause == PRESET:
            continue
        if clause not in values:
            allowed = ", ".join([PRESET, *values])
            raise UsageError(f"contract.{store}.{clause} is no clause{_near(clause, values)}; clauses are {allowed}")
        values[clause] = _checked(store, clause, value, values)
    return msgspec.convert(values, Contract, strict=False)


def _preset(store: str, name: object) -> dict[str, object]:
    if not isinstance(name, str) or name not in PRESETS:
        near = _near(str(name), PRESETS)
        raise UsageError(f"contract.{store}.preset = {name}: no such preset{near}; there are {', '.join(PRESETS)}")
    return PRESETS[name].clauses()


def _checked(store: str, clause: str, value: object, values: Mapping[str, object]) -> object:
    try:
        plain = _plain(clause, value)
        msgspec.convert({**values, clause: plain}, Contract, strict=False)
    except (ValueError, msgspec.ValidationError) as error:
        why = str(error).split(" - at")[0]
        why = why[:1].lower() + why[1:]
        raise UsageError(f"contract.{store}.{clause} = {value}: {why}{_choices(clause)}") from None
    return plain


def _plain(clause: str, value: object) -> object:
    if clause in {*DURABILITY, "ttl_seconds", "retained_messages"}:
        if isinstance(value, str) and value.lower() in _NO_LIMIT:
            return None
        if isinstance(value, str) and clause == "retained_messages":
            value = int(value)
    if clause.endswith("_seconds") and isinstance(value, str | int | float):
        return parse_seconds(value)
    if clause == "retained_messages" and isinstance(value, int) and value < 1:
        raise ValueError("should be at least 1")
    return value


def _choices(clause: str) -> str:
    field = next(field for field in msgspec.structs.fields(Contract) if field.name == clause)
    members = getattr(field.type, "__members__", None)
    return f"; choose from {', '.join(member.value for member in members.values())}" if members else ""


def _near(word: str, known: Iterable[str]) -> str:
    hint = did_you_mean(word, known)
    return hint and f", {hint}"


ASK_SECONDS_MAX = 5.0


class SettledContracts(msgspec.Struct, frozen=True, kw_only=True):
    """What the stores of a run are held to, and what their servers said of themselves."""

    settled: list[Settled]
    configurations: dict[str, dict[str, str]]
    """The effective configuration by server, as it was when the run began."""
    lines: list[str]
    """What a person should know before it begins."""
    nodes: dict[str, dict[str, dict[str, str]]] = {}
    """Of a server that is several nodes, the same by their places; empty: that one was silent."""


class ServerAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """How a server said that it is configured."""

    configuration: dict[str, str]
    nodes: dict[str, dict[str, str]] = {}
    """By place, where it is several nodes."""
    silent: list[str] = []
    """The places of those that gave no answer."""


async def ask_servers(servers: Mapping[str, str], patroni: Sequence[str] = ()) -> dict[str, ServerAnswer]:
    """Return the effective configuration of each server; one that gives no answer is left out.

    `patroni`: where the Patroni of each PostgreSQL would be.
    """
    asked = [(kind, url) for kind, url in servers.items() if kind.startswith(KEEPS_DATA)]
    answers = await asyncio.gather(*(_ask(kind, url, patroni) for kind, url in asked))
    return {kind: answer for (kind, _), answer in zip(asked, answers, strict=True) if answer is not None}


async def _ask(name: str, url: str, patroni: Sequence[str]) -> ServerAnswer | None:
    kind = kind_of(name)
    try:
        sample = await inspect(name, url, timeout_seconds=ASK_SECONDS_MAX)
        if not is_group(url):
            return ServerAnswer(configuration=sample.configuration)
        nodes = await inspect_nodes(kind, url, timeout_seconds=ASK_SECONDS_MAX)
    except ServerUnreachableError:
        return None  # opening the store next says why, and with which address
    told = {}
    if kind.protocol is Protocol.POSTGRES:
        told = await patroni_settings(patroni, timeout_seconds=ASK_SECONDS_MAX)
    return ServerAnswer(
        configuration={**sample.configuration, **told},
        nodes={place: configuration or {} for place, configuration in nodes.items()},
        silent=[place for place, configuration in nodes.items() if configuration is None],
    )


async def settle_promises(
    settings: SoakSettings,
    specs: Iterable[StoreSpec],
    context: StoreContext,
    begun: RunHeader | None,
    patroni: Sequence[str] = (),
) -> SettledContracts:
    """Settle every contract; raises `UsageError` where a server cannot keep one, unless that is allowed.

    A resumed run keeps the contracts it began with: what has changed since is drift, which the verifier reports.
    """
    now = await ask_servers(context.servers, patroni)
    first = _answers_in(begun) if begun is not None else now
    given = given_by(now)
    settled = settle_contracts(specs, context, settings.contract, given_by(first))
    found = mismatches(settled, given, waits=context.redis.waits)
    if found and settings.contract_mismatch == "refuse" and begun is None:
        raise _refusal_to_begin(settled, found, given, settings.contract.floor)
    lines = [f"{kind}: {given[kind].words}" for kind in KEEPS_DATA if kind in given]
    if patroni:
        lines += [
            f"{kind}: {_words_of_patroni(answer)}" for kind, answer in now.items() if _is_postgres_group(kind, answer)
        ]
    lines += [one.line for one in settled]
    lines += [f"warning: {mismatch.fact}" for mismatch in found]
    lines += [
        f"warning: {kind} at {place} does not answer: what it keeps, should it become the primary, is not known"
        for kind, answer in now.items()
        for place in answer.silent
    ]
    lines += [
        f"warning: {_who_reports(one.server, now)} its configuration; the contract of {one.store} is taken on trust"
        for one in settled
        if one.server is not None and one.is_unchecked
    ]
    return SettledContracts(
        settled=settled,
        configurations={kind: answer.configuration for kind, answer in first.items()},
        lines=lines,
        nodes={kind: answer.nodes for kind, answer in first.items() if answer.nodes},
    )


def _answers_in(header: RunHeader) -> dict[str, ServerAnswer]:
    return {
        kind: ServerAnswer(configuration=configuration, nodes=header.nodes.get(kind, {}))
        for kind, configuration in header.configurations.items()
    }


def _is_postgres_group(kind: str, answer: ServerAnswer) -> bool:
    return KINDS[kind].protocol is Protocol.POSTGRES and bool(answer.nodes)


def _words_of_patroni(answer: ServerAnswer) -> str:
    if MAXIMUM_LAG not in answer.configuration:
        return f"no Patroni answers, so nothing is known of {', '.join(PATRONI_SETTINGS)}"
    return "Patroni has " + ", ".join(f"{name} {answer.configuration[name]}" for name in PATRONI_SETTINGS)


def _who_reports(server: str, answers: Mapping[str, ServerAnswer]) -> str:
    nodes = answers[server].nodes if server in answers else {}
    return f"not every node of {server} reports" if any(nodes.values()) else f"{server} does not report"


async def check_promises(header: RunHeader, servers: Mapping[str, str], needs: Mapping[str, tuple[str, ...]]) -> None:
    """Raise `UsageError` where the servers cannot keep the contracts that a run was begun with."""
    # What Patroni said was asked when the run began.
    of_patroni = {
        kind: {name: value for name, value in configuration.items() if name in PATRONI_SETTINGS}
        for kind, configuration in header.configurations.items()
    }
    now = {
        kind: msgspec.structs.replace(answer, configuration={**of_patroni.get(kind, {}), **answer.configuration})
        for kind, answer in (await ask_servers(servers)).items()
    }
    given = given_by(now)
    settled = [
        Settled(store=store, contract=contract, origin="", server=keeper_of(needs.get(store, ())))
        for store, contract in header.contracts.items()
    ]
    if found := mismatches(settled, given, waits=header.waits_for_replicas):
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


def given_by(answers: Mapping[str, ServerAnswer]) -> dict[str, Guarantees]:
    """Return what each server can promise, by what it said."""
    return {kind: guarantees_given(kind, answer.configuration, answer.nodes) for kind, answer in answers.items()}
