"""A primary that is replaced: the log parts in two, and clients stay with the old one until it is demoted.

A crash promotes a replica while the old primary is dead. In a partial partition the old one goes on answering
clients that are connected to it. In a graceful failover everything reaches the new one. What the old primary applied
behind the cut is on a branch of the log that nobody follows; the new primary goes on from the cut.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random

from tests.reference.history import MILLISECOND, SECOND, Contract, Excuse, Fault, Micros

OLD_SERVES_MAX: Micros = 900 * MILLISECOND
"""How long an old primary answers clients after another one was promoted."""


@dataclass(frozen=True, slots=True, eq=False)
class Failover:
    """How a primary was replaced, as only the simulation knows it."""

    fault: Fault
    cut: Micros
    """What the old primary applied later did not reach the new one."""
    promoted: Micros
    demoted: Micros
    """Since when the old one answers nobody: before the promotion if it crashed."""
    acknowledges: bool
    """Whether the old primary acknowledges what is not replicated."""
    switched: dict[tuple[int, int], Micros] = field(default_factory=dict)
    """When each client, by session and number, goes over to the new one."""

    def switches_at(self, client: tuple[int, int], random: Random) -> Micros:
        """Return when a client leaves the old primary: at the promotion, at the demotion, or in between."""
        if client not in self.switched:
            last = max(self.promoted, self.demoted)
            moments = (self.promoted, last, random.randint(self.promoted, last))
            self.switched[client] = random.choice(moments)
        return self.switched[client]

    def is_abandoned(self, client: tuple[int, int], at: Micros, random: Random) -> bool:
        """Whether what a client has applied at this time is on the branch that nobody follows."""
        return self.cut < at < self.promoted or (at >= self.promoted and at < self.switches_at(client, random))

    @property
    def outage(self) -> tuple[Micros, Micros] | None:
        """When no primary answers."""
        return (self.demoted, self.promoted) if self.demoted < self.promoted else None


def with_failover_clause(random: Random, contract: Contract) -> Contract:
    """Return the same promises with another one about failovers; a cache keeps promising nothing."""
    if contract.failover_loss is None:
        return contract
    return replace(contract, failover_loss=random.choice((0, SECOND // 4, SECOND, SECOND)))


def draw_failover(random: Random, contract: Contract, started: Micros, *, uses_replica: bool) -> Failover:
    """Draw one that the contract allows to lose what it may, and no more."""
    promoted = started + random.randint(20 * MILLISECOND, 300 * MILLISECOND)
    injected = promoted + random.randint(0, 100 * MILLISECOND)
    loss = contract.failover_loss
    lag_max = SECOND if loss is None else loss
    if uses_replica:
        lag_max = min(lag_max, int(0.9 * (SECOND if contract.staleness is None else contract.staleness)))
    excuse, cut = Excuse.FAILOVER, started - int(lag_max * random.random())
    match random.choice(("crash", "partition", "partition", "graceful")):
        case "crash":
            demoted = random.randint(started, promoted)
            cut = cut if loss != 0 else demoted
        case "partition":
            demoted = random.randint(promoted, promoted + OLD_SERVES_MAX)
        case _:
            excuse, cut, demoted = random.choice((Excuse.FAILOVER, Excuse.CLEAN)), promoted, promoted
    ended = max(injected, demoted) + random.randint(0, 200 * MILLISECOND)
    caught_up = ended + random.randint(0, 800 * MILLISECOND) if uses_replica else None
    fault = Fault(excuse, started, injected, ended, caught_up=caught_up, leaves_old=True)
    return Failover(fault, cut, promoted, demoted, acknowledges=loss != 0)
