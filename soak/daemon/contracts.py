"""The contract each store is held to: what the settings declare, else what its server gives, else its own."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

import msgspec

from soak.contracts.given import Given, keeper_of
from soak.contracts.mismatch import Mismatch, find_mismatches
from soak.contracts.presets import KEY as PRESET
from soak.contracts.presets import PRESETS
from soak.duration import parse_seconds
from soak.errors import UsageError
from soak.model.contract import Contract
from soak.stores import registry
from soak.stores.protocol import StoreContext, StoreSpec

Declared = Mapping[str, Mapping[str, object]]

DURABILITY = ("crash_loss_seconds", "power_loss_seconds")

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
    is_unchecked: bool = False
    """Its server does not tell enough of its configuration to hold the contract against it."""

    @property
    def line(self) -> str:
        return f"{self.store} is held to: {self.contract.clauses()['durability']} ({self.origin})"


def settle_contracts(
    specs: Iterable[StoreSpec], context: StoreContext, declared: Declared, given: Mapping[str, Given]
) -> list[Settled]:
    """Return what each store of the run is held to, with what its server, by kind, is known to give."""
    return [_settle(spec, context, declared.get(spec.name, {}), given) for spec in specs]


def mismatches(settled: Iterable[Settled], given: Mapping[str, Given]) -> list[Mismatch]:
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
    spec: StoreSpec, context: StoreContext, clauses: Mapping[str, object], given: Mapping[str, Given]
) -> Settled:
    own = spec.contract_for(context)
    server = keeper_of(spec.needs)
    derived = _derived(spec, clauses, given.get(server or ""))
    contract = _override(spec.name, msgspec.structs.replace(own, **derived), clauses)
    found = given.get(server or "")
    return Settled(
        store=spec.name,
        contract=contract,
        origin=_origin(spec, clauses, derived, server),
        server=server,
        is_derived="crash_loss_seconds" in derived,
        is_unchecked=found is None or not (found.crash.is_known and found.power.is_known),
    )


def _derived(spec: StoreSpec, clauses: Mapping[str, object], given: Given | None) -> dict[str, float | None]:
    """Return how much may be lost as the server tells it, for a store whose promise nobody has declared."""
    if given is None or not _leaves_durability_to_server(spec):
        return {}
    losses = {"crash_loss_seconds": given.crash, "power_loss_seconds": given.power}
    declared = {*clauses, *spec.declared_clauses, *(DURABILITY if PRESET in clauses else ())}
    return {clause: loss.seconds for clause, loss in losses.items() if loss.is_known and clause not in declared}


def _leaves_durability_to_server(spec: StoreSpec) -> bool:
    """Whether nobody but its server says how durable it is: one of ours, or a class without a contract."""
    if spec.name in registry.specs():
        return True
    return not any(hasattr(spec.factory, name) for name in ("contract", "contract_for"))


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
