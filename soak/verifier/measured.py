"""What was counted for each store since the run began, for whoever wants to know how fast it goes."""

from __future__ import annotations

import msgspec

from soak.verifier.state import State

APPENDS = ("append",)
READS = ("history", "recall")
OF_PARTICIPANTS = (*APPENDS, *READS, "search", "forget")


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """One store at one moment. Rates and quantiles are in the difference of two of them."""

    store: str
    acknowledged: int
    verified: int
    violations: int
    unverified_seconds: float
    """Age of the oldest acknowledgement not yet verified."""
    errors: int
    """Operations of participants without an answer."""
    appends: list[int]
    """How long appends took, counted into `soak.ledger.records.LATENCY_BUCKETS_SECONDS` and one more bucket."""
    reads: list[int]
    """The same for what participants read."""


def measure(state: State, unverified_seconds: dict[str, float]) -> list[Measured]:
    """Return the counts of each store."""
    return [
        Measured(
            store=name,
            acknowledged=tally.acknowledged,
            verified=tally.verified,
            violations=sum(tally.violations.values()),
            unverified_seconds=unverified_seconds.get(name, 0.0),
            errors=sum(tally.errors[operation] for operation in OF_PARTICIPANTS),
            appends=_added([tally.latency[operation].counts for operation in APPENDS]),
            reads=_added([tally.latency[operation].counts for operation in READS]),
        )
        for name, tally in state.tally.stores.items()
    ]


def _added(histograms: list[list[int]]) -> list[int]:
    return [sum(counts) for counts in zip(*histograms, strict=True)]
