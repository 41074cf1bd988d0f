"""Where more is promised than the server as configured can give, and what to do about it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

import msgspec

from soak.checker.contract import Contract
from soak.contracts.guarantees import Guarantees, Loss
from soak.contracts.presets import PRESETS
from soak.servers.kinds import KINDS, Protocol

CRASH, POWER, FAILOVER, EVICTION, ROLE = "crash", "power_cut", "failover", "eviction", "writes"
CLAUSES = (CRASH, POWER, FAILOVER, EVICTION, ROLE)
"""What of a contract depends on the server's configuration."""
LOSS_CLAUSES = {CRASH: "crash_loss_seconds", POWER: "power_loss_seconds", FAILOVER: "failover_loss_seconds"}
"""Those that say how much may be lost, and where a contract declares them."""

ALLOW_FLAG = "--allow-weaker-server"


class Mismatch(msgspec.Struct, frozen=True, kw_only=True):
    """One clause that the server cannot keep."""

    store: str
    server: str
    clause: str
    promised: str
    given: str
    remedy: str

    @property
    def line(self) -> str:
        return f"{self.fact}; {self.remedy}, or go on all the same with {ALLOW_FLAG}"

    @property
    def fact(self) -> str:
        return f"{self.store} promises {self.promised}, but {self.server} as configured gives: {self.given}"


def find_mismatches(store: str, contract: Contract, given: Guarantees, *, waits: bool = False) -> list[Mismatch]:
    """Return the clauses of a contract that this server cannot keep; what is not known breaks none.

    `waits`: writes to a Redis wait for its replicas, so its own settings do not say what a failover takes.
    """
    is_confirmed = waits and KINDS[given.server].protocol is Protocol.REDIS
    found = [
        _loss_mismatch(store, clause, seconds, loss, given.server)
        for clause, seconds, loss in (
            (CRASH, contract.crash_loss_seconds, given.crash),
            (POWER, contract.power_loss_seconds, given.power),
            (FAILOVER, contract.failover_loss_seconds, None if is_confirmed else given.failover),
        )
        if loss is not None and loss.is_weaker_than(seconds)
    ]
    if not contract.eviction_allowed and given.evicts(expiring_keys=contract.ttl_seconds is not None):
        found.append(
            Mismatch(
                store=store,
                server=given.server,
                clause=EVICTION,
                promised="that nothing is evicted",
                given=f"{given.eviction.value} may be evicted ({given.eviction_because})",
                remedy=f"set maxmemory-policy noeviction, or declare {key_of(store, 'eviction_allowed')} = true",
            )
        )
    if given.is_replica:
        found.append(
            Mismatch(
                store=store,
                server=given.server,
                clause=ROLE,
                promised="to take writes",
                given="a replica, which takes none",
                remedy="give the address of its primary",
            )
        )
    return found


_IN = {CRASH: "after a crash", POWER: "after a power cut", FAILOVER: "in a failover"}
_WAITING = {
    Protocol.POSTGRES: "let commits wait for a standby (synchronous_standby_names or Patroni's synchronous_mode, with "
    "synchronous_commit on)",
    Protocol.REDIS: "let writes wait for all replicas (stores.redis.wait_replicas; not on a cluster)",
}
"""What ends the loss in a failover."""


def _loss_mismatch(store: str, clause: str, promised_seconds: float | None, loss: Loss, server: str) -> Mismatch:
    setting = LOSS_CLAUSES[clause]
    promised = Loss(seconds=promised_seconds).words
    declared = '"none"' if loss.seconds is None else f'"{loss.seconds:g}s"'
    if clause == FAILOVER:
        stronger = _WAITING[KINDS[server].protocol]
    else:
        stronger = stronger_setting(server, promised_seconds or 0.0, loss)
    return Mismatch(
        store=store,
        server=server,
        clause=clause,
        promised=f"{promised} {_IN[clause]}",
        given=f"{loss.words} ({loss.because})",
        remedy=f"{stronger}, or declare {key_of(store, setting)} = {declared}",
    )


def stronger_setting(server: str, promised_seconds: float, loss: Loss) -> str:
    """Say how the server could be made to keep the promise."""
    if KINDS[server].protocol is Protocol.POSTGRES:
        return f"set {loss.because.removesuffix(' off')} on"
    if KINDS[server].protocol is Protocol.SQLITE:
        return "use journal_mode wal with synchronous full"
    if "rewrite" in loss.because:
        return "set no-appendfsync-on-rewrite no"
    return f"set appendonly yes and appendfsync {'everysec' if promised_seconds >= 2.0 else 'always'}"


def key_of(store: str, clause: str) -> str:
    name = store if re.fullmatch(r"[A-Za-z0-9_-]+", store) else f'"{store}"'
    return f"contract.{name}.{clause}"


# -- the floor: the weakest promise that is accepted silently; a server that could lose more stops the run --
#
# A promise that is derived from a server follows its configuration. Without a floor a server that keeps nothing would
# be held to nothing, and losing everything would be a pass.


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
