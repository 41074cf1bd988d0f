"""Published results about failovers and durability, shown again on servers of this machine.

Each is a short `soak check` with one fault, held to a contract that tolerates no loss. So a result that says "this
loses" is a violation, and one that says "this does not" is a pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from soak.errors import ExitCode
from soak.json_input import decode_json
from soak.scenarios.runner import answer_of
from soak.scenarios.scenario import Scenario, ServerSetup

SIDE_BY_SIDE = 2
SOAK_SECONDS = 50
SECONDS_MAX = 300.0
LOAD = (
    *("--users", "12", "--think", "100ms", "--duration", f"{SOAK_SECONDS}s"),
    *("--set", "verifier.settle=1s", "--set", "verifier.hot_interval=300ms"),
)
EVERY = "every=20s,hold=1s"


class Published(msgspec.Struct, frozen=True, kw_only=True):
    """What was published, and where."""

    claim: str
    source: str
    loses: bool


class Reproduced(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen here."""

    name: str
    verdict: str = ""
    acknowledged: int = 0
    lost: int = 0
    lost_seconds: float = 0.0
    """How much acknowledged time was lost in the worst of the faults."""
    faults: int = 0
    seed: str = ""
    reason: str = ""
    """Why nothing was shown."""
    seconds: float = 0.0

    @property
    def share(self) -> float:
        return self.lost / self.acknowledged if self.acknowledged else 0.0

    @property
    def measured(self) -> str:
        """What was measured, in a few words."""
        if self.reason:
            return f"not shown: {self.reason}"
        if not self.lost:
            return f"0 of {self.acknowledged:,} lost in {self.faults} faults"
        return f"{self.lost:,} of {self.acknowledged:,} lost ({self.share:.0%}), up to {self.lost_seconds:.1f} s"

    @property
    def outcome(self) -> str:
        return f"{self.measured} ({self.seconds:.0f} s)"

    def agrees_with(self, published: Published) -> bool:
        return not self.reason and bool(self.lost) == published.loses


class ReproductionScenario(Scenario[tuple[str, ...], Published, Reproduced], frozen=True, kw_only=True):
    """One published result. Its load is what `soak check` is called with."""

    result = Reproduced

    @property
    def command(self) -> str:
        """What a person types to see it."""
        stores = [f"--store {store}" for store in self.stores]
        return " ".join(["soak check", *stores, *self.load, f"--duration {SOAK_SECONDS}s"])

    async def run(self, folder: Path) -> Reproduced:
        stores = [word for store in self.stores for word in ("--store", store)]
        words = ("check", "--json", "--data-dir", str(folder / "data"), *stores, *self.load, *LOAD)
        answer = decode_json(await answer_of("soak", *words, seconds_max=self.seconds_max), dict[str, Any])
        return self._read(answer)

    def _read(self, answer: dict[str, Any]) -> Reproduced:
        if answer["exit_code"] not in {ExitCode.PASS, ExitCode.VIOLATION}:
            return self.not_made("; ".join(answer.get("reasons", [])) or answer["verdict"])
        result = answer["result"]
        recoveries = result["recoveries"]
        if not recoveries:
            return self.not_made("no fault was measured")
        # Of several stores the first is the one that the result is about.
        own = [one for one in recoveries if one["store"] == self.stores[0]]
        return Reproduced(
            name=self.name,
            verdict=answer["verdict"],
            acknowledged=next(one["acknowledged"] for one in result["by_store"] if one["store"] == self.stores[0]),
            lost=sum(one["lost"] + one["tolerated"] for one in own),
            lost_seconds=max(one["point_seconds"] + one["after_seconds"] for one in own),
            faults=len(own),
            seed=str(result["seed"]),
        )

    def not_made(self, reason: str, *, is_unreachable: bool = False) -> Reproduced:  # noqa: ARG002
        return Reproduced(name=self.name, reason=reason)


def _reproduction(name: str, published: Published, load: Sequence[str], *stores: str) -> ReproductionScenario:
    return ReproductionScenario(
        name=name,
        stores=stores or ("redis-list",),
        servers=ServerSetup(),
        load=tuple(load),
        expectation=published,
        seconds_max=SECONDS_MAX,
    )


_STRICT = ("--set", "contract.redis-list.failover_loss_seconds=0s")


_STRICT_POSTGRES = (
    *("--set", "contract.postgres.failover_loss_seconds=0s"),
    *("--set", "faults.recovery_max=3m"),  # Patroni alone takes 20 s, and two soaks share a machine
)


def _on_postgres(topology: str, fault: str, *more: str) -> tuple[str, ...]:
    return ("--postgres", topology, "--fault", f"{fault}:postgres:{EVERY}", *_STRICT_POSTGRES, *more)


def _on(topology: str, fault: str) -> tuple[str, ...]:
    return ("--redis", topology, "--fault", f"{fault}:redis:{EVERY}", *_STRICT)


ALL: dict[str, ReproductionScenario] = {
    one.name: one
    for one in (
        _reproduction(
            "sentinel-failover",
            Published(
                claim="SENTINEL FAILOVER with nothing broken: what the old primary acknowledges until it is demoted is "
                "lost, and no client sees an error",
                source="redis/redis#6062",
                loses=True,
            ),
            _on("sentinel", "sentinel_failover"),
        ),
        _reproduction(
            "sentinel-coordinated-failover",
            Published(
                claim="SENTINEL FAILOVER ... COORDINATED loses nothing",
                source="Valkey 9.0, Sentinel documentation",
                loses=False,
            ),
            _on("sentinel", "coordinated_failover"),
        ),
        _reproduction(
            "sentinel-partition",
            Published(
                claim="A primary that is cut off from the majority goes on acknowledging; all of it is lost (56 % of "
                "the writes of that run)",
                source="Jepsen, Redis, 2013",
                loses=True,
            ),
            _on("sentinel", "partial_partition"),
        ),
        _reproduction(
            "cluster-partition",
            Published(
                claim="A primary in the minority goes on acknowledging for the node timeout; that is lost",
                source="Redis Cluster specification, write safety",
                loses=True,
            ),
            _on("cluster", "partial_partition"),
        ),
        _reproduction(
            "cluster-failover",
            Published(
                claim="CLUSTER FAILOVER loses nothing",
                source="Redis documentation, CLUSTER FAILOVER",
                loses=False,
            ),
            _on("cluster", "cluster_failover"),
        ),
        _reproduction(
            "postgres-async-failover",
            Published(
                claim="A standby that replicates asynchronously is promoted: what it had not received is lost",
                source="PostgreSQL documentation, warm standby",
                loses=True,
            ),
            ("--fault", f"early_failover:postgres:{EVERY}"),
            "postgres",
            "postgres-replica",
        ),
        _reproduction(
            "postgres-planned-failover",
            Published(
                claim="A standby that has caught up is promoted after a clean stop: nothing is lost",
                source="PostgreSQL documentation, failover",
                loses=False,
            ),
            ("--fault", f"failover:postgres:{EVERY}"),
            "postgres",
            "postgres-replica",
        ),
        _reproduction(
            "patroni-async-partition",
            Published(
                claim="Patroni as it is by default: a leader that is cut off goes on acknowledging until it steps "
                "down; that is lost",
                source="Patroni documentation, replication modes",
                loses=True,
            ),
            _on_postgres("patroni", "partial_partition"),
            "postgres",
        ),
        _reproduction(
            "patroni-sync-partition",
            Published(
                claim="Patroni with synchronous_mode loses nothing",
                source="Patroni documentation, replication modes",
                loses=False,
            ),
            _on_postgres("patroni", "partial_partition", "--set", "servers.postgres_replication=sync"),
            "postgres",
        ),
        _reproduction(
            "sync-standby-machine-crash",
            Published(
                claim="A synchronous standby is promoted after the primary's machine has died: nothing is lost",
                source="PostgreSQL documentation, synchronous replication",
                loses=False,
            ),
            _on_postgres("sync-standby", "machine_crash"),
            "postgres",
        ),
        _reproduction(
            "sync-standby-cancelled-commits",
            Published(
                claim="pg_cancel_backend acknowledges a commit that waits for a standby; no standby has it, and it is "
                "lost when that one is promoted",
                source='PostgreSQL documentation, synchronous replication ("canceling wait")',
                loses=True,
            ),
            _on_postgres("sync-standby", "cancelled_commits"),
            "postgres",
        ),
        _reproduction(
            "redis-everysec-power-cut",
            Published(
                claim="appendfsync everysec loses up to two seconds in a power cut",
                source="Redis documentation, persistence",
                loses=True,
            ),
            (
                *("--fault", f"power_cut:redis:{EVERY}", "--allow-weaker-server"),
                *("--set", "contract.redis-list.power_loss_seconds=0s"),
            ),
        ),
    )
}
