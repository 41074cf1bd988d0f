"""What all sessions of one store are judged by."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from soak.checker.contract import Contract, Reads, ReplicaReads
from soak.checker.faults import FaultHistory, FaultWindow
from soak.checker.read import Rules
from soak.checker.remembered import EXACT_SECONDS, SLOT_SECONDS
from soak.checker.text import MessageGenerator

REMEMBER_SECONDS_MIN = 10.0


class StoreJudging:
    """What all sessions of one store are judged by."""

    def __init__(
        self,
        *,
        rules: Rules,
        author: MessageGenerator,
        faults: FaultHistory,
        targets: Sequence[str],
        settle_us: int,
        asks_primary: bool = False,
        reads_replica: bool = False,
    ) -> None:
        self.rules = rules
        self.author = author
        self.faults = faults
        self.targets = tuple(targets)
        self.settle_us = settle_us
        self.asks_primary = asks_primary
        """Reads may be behind, and the primary can be asked."""
        self.reads_replica = reads_replica
        contract = rules.contract
        staleness = contract.staleness_us
        self.final_us = settle_us if asks_primary else None if staleness is None else settle_us + staleness
        """How long after a read that lacked something a second one is the last word; None: it never is."""
        self.search_final_us = None if staleness is None else settle_us + staleness
        self._shadowed = msgspec.structs.replace(rules, contract=_eventual(contract))
        loss = max(contract.loss_seconds_max, 0.0)
        # Where times are thinned out, the first of a slot is needed for as long as any in it may be taken.
        slot = SLOT_SECONDS if loss > EXACT_SECONDS else 0.0
        self.remember_us = int((loss + slot + REMEMBER_SECONDS_MIN) * 1e6)

    def windows(self) -> list[FaultWindow]:
        """Return the faults of the servers that the store depends on."""
        return self.faults.of(self.targets)

    def is_calm(self) -> bool:
        """Whether no fault is active, and what each one took has been looked for everywhere."""
        return self.faults.is_calm(self.targets)

    def is_shadowed(self, invoked: int, returned: int) -> bool:
        """Whether a read was of a replica in the shadow of a fault, so that it may have been behind for any time."""
        if not self.reads_replica or self.rules.contract.replica_reads is ReplicaReads.STRICT:
            return False
        return self.faults.casts_shadow(self.targets, invoked, returned)

    def rules_at(self, invoked: int, returned: int) -> Rules:
        """Return what a read of that time is held to."""
        return self._shadowed if self.is_shadowed(invoked, returned) else self.rules


def _eventual(contract: Contract) -> Contract:
    return msgspec.structs.replace(contract, reads=Reads.EVENTUAL)
