"""What a configuration is held to: derived from what its running server says of itself."""

from __future__ import annotations

import msgspec

from soak.checker.contract import Contract
from soak.checker.telemetry import ServerSample
from soak.contracts.guarantees import guarantees_of
from soak.contracts.presets import PRESETS
from soak.errors import SoakError


class Promise(msgspec.Struct, frozen=True, kw_only=True):
    """The contract of one cell, and where it comes from."""

    contract: Contract
    origin: str


def promise_of(sample: ServerSample, own: Contract, preset: str | None) -> Promise:
    """Return what the server that gave this sample can promise, or the preset that it is held to instead.

    Clauses that no configuration decides stay the store's own.
    """
    given = guarantees_of(sample)
    if preset is not None:
        declared = msgspec.structs.replace(own, **PRESETS[preset].clauses())
        return Promise(contract=declared, origin=f"held to {preset}, and configured to {given.words}")
    if not (given.crash.is_known and given.power.is_known):
        raise SoakError(f"{sample.server} does not tell how it keeps its data, so nothing can be held against it")
    derived = msgspec.structs.replace(
        own,
        crash_loss_seconds=given.crash.seconds,
        power_loss_seconds=given.power.seconds,
        failover_loss_seconds=given.crash.seconds,
    )
    return Promise(contract=derived, origin=given.words)
