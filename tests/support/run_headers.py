"""The header of a run as tests begin it: what nobody looks at is filled in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from soak.ledger.records import FORMAT_VERSION, RunHeader

if TYPE_CHECKING:
    from collections.abc import Mapping

    from soak.checker.contract import Contract


def header_of(contracts: Mapping[str, Contract], run: str = "r1", **more: Any) -> RunHeader:
    """Return the header of a run of these stores; further fields are named."""
    fields: dict[str, Any] = {
        "version": FORMAT_VERSION,
        "seed": 1,
        "namespace": f"t_{run}",
        "started_wall_seconds": 0.0,
    } | more
    return RunHeader(run=run, stores=list(contracts), contracts=dict(contracts), **fields)
