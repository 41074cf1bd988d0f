"""The contract each store is held to: what the settings declare, else what its server gives, else its own."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

import msgspec

from soak.checker.contract import DURABILITY, Contract
from soak.contracts.guarantees import Guarantees, Loss, keeper_of
from soak.contracts.mismatch import Mismatch, find_mismatches
from soak.contracts.presets import KEY as PRESET
from soak.contracts.presets import PRESETS
from soak.duration import parse_seconds
from soak.errors import UsageError
from soak.settings import ContractSettings
from soak.stores import registry
from soak.stores.protocol import StoreContext, StoreSpec

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
    """Its server does not tell enough of its configuration to hold the contract against it."""

    @property
    def line(self) -> str:
        return f"{self.store} is held to: {self.contract.clauses()['durability']} ({self.origin})"


def settle_contracts(
    specs: Iterable[StoreSpec], context: StoreContext, settings: ContractSettings, given: Mapping[str, Guarantees]
) -> list[Settled]:
    """Return what each store of the run is held to, with what its server, by kind, is known to give."""
    return [_settle(spec, context, settings.stores.get(spec.name, {}), given, settings.floor) for spec in specs]


def mismatches(settled: Iterable[Settled], given: Mapping[str, Guarantees]) -> list[Mismatch]:
    """Return every clause that is promised and that the server as configured cannot keep."""
    return [
        mismatch
        for one in settled
        if one.server is not None and one.server in given
        for mismatch in find_mismatches(one.store, one.contract, given[one.server])
    ]


def check_declared(declared: Declared, in_run: Iterable[str], known: Iterable[str]) -> None:
    """Refuse clauses that do not exist or make no sense, before anything is started."""
    names = [*in_run, *known]
    for store, clauses in declared.items():
        if store not in names:
            raise UsageError(f"contract.{store}: no such store{_near(store, names)}; 'soak stores' lists them")
        _override(store, Contract(), clauses)


def _settle(
    spec: StoreSpec,
    context: StoreContext,
    clauses: Mapping[str, object],
    given: Mapping[str, Guarantees],
    floor_seconds: float,
) -> Settled:
    own = spec.contract_for(context)
    server = keeper_of(spec.needs)
    losses = _derived(spec, own, clauses, given.get(server or ""))
    raised = {clause: loss for clause, loss in losses.items() if loss.is_weaker_than(floor_seconds)}
    derived = {clause: floor_seconds if clause in raised else loss.seconds for clause, loss in losses.items()}
    contract = _override(spec.name, msgspec.structs.replace(own, **derived), clauses)
    if "failover_loss_seconds" not in {*clauses, *spec.declared_clauses} and CRASH in {*clauses, *derived}:
        # A replica that is promoted too soon may lack no more than a crash may take.
        contract = msgspec.structs.replace(contract, failover_loss_seconds=contract.crash_loss_seconds)
    found = given.get(server or "")
    return Settled(
        store=spec.name,
        contract=contract,
        origin=_origin(spec, clauses, derived, server) + (", raised to contract.floor" if raised else ""),
        server=server,
        is_derived=CRASH in derived,
        raised=raised,
        is_unchecked=found is None or not (found.crash.is_known and found.power.is_known),
    )


def _derived(
    spec: StoreSpec, own: Contract, clauses: Mapping[str, object], given: Guarantees | None
) -> dict[str, Loss]:
    """Return how much may be lost as the server tells it, for what nobody has declared about a store."""
    if given is None:
        return {}
    losses = {"crash_loss_seconds": given.crash, "power_loss_seconds": given.power}
    # What a store of ours says of itself is what its server gives by default.
    named = frozenset() if spec.name in registry.specs() else own.durability_named
    declared = {*clauses, *spec.declared_clauses, *(DURABILITY if PRESET in clauses else ()), *named}
    return {clause: loss for clause, loss in losses.items() if loss.is_known and clause not in declared}


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
    near = difflib.get_close_matches(word, list(known), n=1)
    return f", did you mean {near[0]}?" if near else ""
