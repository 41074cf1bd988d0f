"""Where more is promised than the server as configured can give, and what to do about it."""

from __future__ import annotations

import re

import msgspec

from soak.checker.contract import Contract
from soak.contracts.guarantees import Guarantees, Loss
from soak.servers.kinds import KINDS, Protocol

CRASH, POWER, EVICTION, ROLE = "crash", "power_cut", "eviction", "writes"
CLAUSES = (CRASH, POWER, EVICTION, ROLE)
"""What of a contract depends on the server's configuration."""
LOSS_CLAUSES = {CRASH: "crash_loss_seconds", POWER: "power_loss_seconds"}
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


def find_mismatches(store: str, contract: Contract, given: Guarantees) -> list[Mismatch]:
    """Return the clauses of a contract that this server cannot keep; what is not known breaks none."""
    found = [
        _loss_mismatch(store, clause, seconds, loss, given.server)
        for clause, seconds, loss in (
            (CRASH, contract.crash_loss_seconds, given.crash),
            (POWER, contract.power_loss_seconds, given.power),
        )
        if loss.is_weaker_than(seconds)
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


def _loss_mismatch(store: str, clause: str, promised_seconds: float | None, loss: Loss, server: str) -> Mismatch:
    fault = "a crash" if clause == CRASH else "a power cut"
    setting = LOSS_CLAUSES[clause]
    promised = Loss(seconds=promised_seconds).words
    declared = '"none"' if loss.seconds is None else f'"{loss.seconds:g}s"'
    stronger = stronger_setting(server, promised_seconds or 0.0, loss)
    return Mismatch(
        store=store,
        server=server,
        clause=clause,
        promised=f"{promised} after {fault}",
        given=f"{loss.words} ({loss.because})",
        remedy=f"{stronger}, or declare {key_of(store, setting)} = {declared}",
    )


def stronger_setting(server: str, promised_seconds: float, loss: Loss) -> str:
    """Say how the server could be made to keep the promise."""
    if KINDS[server].protocol is Protocol.POSTGRES:
        return f"set {loss.because.removesuffix(' off')} on"
    if "rewrite" in loss.because:
        return "set no-appendfsync-on-rewrite no"
    return f"set appendonly yes and appendfsync {'everysec' if promised_seconds >= 2.0 else 'always'}"


def key_of(store: str, clause: str) -> str:
    name = store if re.fullmatch(r"[A-Za-z0-9_-]+", store) else f'"{store}"'
    return f"contract.{name}.{clause}"
