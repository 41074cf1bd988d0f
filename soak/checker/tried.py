"""What a run has tried: a pass in which nothing was broken says nothing about durability, and must say so."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

_NAMES = {
    "crash": ("crash", "crashes"),
    "container_oom": ("out-of-memory kill", "out-of-memory kills"),
    "power_cut": ("power cut", "power cuts"),
    "restart": ("clean restart", "clean restarts"),
    "restart_from_aof": ("restart from AOF", "restarts from AOF"),
    "restart_from_rdb": ("restart from RDB", "restarts from RDB"),
    "shutdown_nosave": ("shutdown without a save", "shutdowns without a save"),
    "failover": ("failover", "failovers"),
    "early_failover": ("early failover", "early failovers"),
    "upgrade": ("upgrade", "upgrades"),
    "pause": ("pause", "pauses"),
    "partition": ("partition", "partitions"),
    "connection_refused": ("time without connections", "times without connections"),
    "announced": ("announced fault", "announced faults"),
}
UNTRIED = "no fault was injected, so durability was not tested"


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """The faults of a run that are over."""

    recoveries: dict[str, int] = {}
    """By kind: faults that a server had to recover its data from."""
    others: dict[str, int] = {}
    """By kind: faults that leave a server its data."""
    unexpected_restarts: int = 0
    """Of the crashes, those that no fault of this soak explains."""
    text: str
    """The same in one line."""


def what_was_tried(
    recoveries: Mapping[str, int], others: Mapping[str, int], unexpected_restarts: int, *, violations: int
) -> Tried:
    """Say what a run has tried so far."""
    counted = {**recoveries, **others}
    outcome = "were tried" if violations else "survived"
    told = f"{', '.join(_named(kind, count) for kind, count in counted.items())} {outcome}" if counted else UNTRIED
    if unexpected_restarts:
        told += f" ({unexpected_restarts} of the crashes not ours)"
    if counted and not recoveries:
        told += "; nothing was restarted, so durability was not tested"
    return Tried(recoveries=dict(recoveries), others=dict(others), unexpected_restarts=unexpected_restarts, text=told)


def _named(kind: str, count: int) -> str:
    if kind not in _NAMES:
        return f"{count} x {kind.replace('_', ' ')}"
    one, many = _NAMES[kind]
    return f"{count} {one if count == 1 else many}"
