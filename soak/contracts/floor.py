"""The weakest promise that is accepted without a word: a server that could lose more stops the run before it begins.

A promise that is derived from a server follows its configuration. Without a floor a server that keeps nothing would be
held to nothing, and losing everything would be a pass.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from soak.checker.contract import Contract
from soak.contracts.guarantees import Guarantees, Loss
from soak.contracts.mismatch import ALLOW_FLAG, key_of, stronger_setting
from soak.contracts.presets import PRESETS
from soak.servers.kinds import KINDS

_FAULTS = {"crash_loss_seconds": "a crash", "power_loss_seconds": "a power cut"}


def refusal_below_floor(store: str, weak: Mapping[str, Loss], given: Guarantees, floor_seconds: float) -> str:
    """Say what the server would lose, by clause, and the three ways on, each on a line of its own."""
    reasons = {f"{loss.words} ({loss.because})": loss for loss in weak.values()}
    after = " or ".join(_FAULTS[clause] for clause in weak)
    lost = "; ".join(reasons)
    settings = dict.fromkeys(stronger_setting(given.server, floor_seconds, loss) for loss in weak.values())
    ways = {
        f"fix {given.server}": " and ".join(settings),
        "declare the weaker promise": _declaration(store, weak, given),
        f"hold {store} to {_tail(floor_seconds)} all the same": ALLOW_FLAG,
    }
    head = f"{given.server} as configured, after {after}: {lost}; {store} is held to {_tail(floor_seconds)} at least"
    lines = [f"{head} (contract.floor)", *(f"  {way}: {how}" for way, how in ways.items())]
    return "\n".join(lines)


def _tail(seconds: float) -> str:
    return f"a tail of {seconds:g}s"


def _declaration(store: str, weak: Mapping[str, Loss], given: Guarantees) -> str:
    """Return the flag that declares as much as this server can keep, and no less."""
    if set(weak) == set(_FAULTS):
        names = KINDS[given.server].weaker_presets
        name = next(name for name in names if _fits(Contract(**PRESETS[name].clauses()), given))  # type: ignore[arg-type]
        return _set(f"{key_of(store, 'preset')}={name}")
    return " ".join(
        _set(f"{key_of(store, clause)}={'none' if loss.seconds is None else f'{loss.seconds:g}s'}")
        for clause, loss in weak.items()
    )


def _fits(contract: Contract, given: Guarantees) -> bool:
    return not (
        given.crash.is_weaker_than(contract.crash_loss_seconds)
        or given.power.is_weaker_than(contract.power_loss_seconds)
    )


def _set(assignment: str) -> str:
    return f"--set {shlex.quote(assignment)}"
