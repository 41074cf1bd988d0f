"""Published results about failovers and durability, shown again on servers of this machine.

Each is a short `soak check` with one fault, held to a contract that tolerates no loss. So a result that says "this
loses" is a violation, and one that says "this does not" is a pass.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from soak.errors import ExitCode
from soak.json_input import decode_json
from soak.scenarios.runner import answer_of
from soak.scenarios.scenario import Scenario, ServerSetup

SIDE_BY_SIDE = 2
SOAK_SECONDS = 36
SECONDS_MAX = 300.0
LOAD = (
    *("--users", "12", "--think", "100ms"),
    *("--set", "verifier.settle=1s", "--set", "verifier.hot_interval=300ms"),
)
EVERY = "every=15s,hold=1s"


class Published(msgspec.Struct, frozen=True, kw_only=True):
    """What was published, and where."""

    claim: str
    source: str
    loses: bool
    """Whether it is bad: something is lost, or whatever else it is that `counts` says."""
    counts: str = "lost"
    """What is counted: `lost`, or the kind of violation."""
    under_way_seconds: float = 0.0
    """What does not lose may still lose what was under way, no more than so much."""


class Reproduced(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen here."""

    name: str
    verdict: str = ""
    counts: str = "lost"
    acknowledged: int = 0
    lost: int = 0
    """How much was lost, or was whatever else is counted."""
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
            faults = "1 fault" if self.faults == 1 else f"{self.faults} faults"
            return f"0 of {self.acknowledged:,} {self.counts} in {faults}"
        words = f"{self.lost:,} of {self.acknowledged:,} {self.counts}"
        return f"{words} ({self.share:.0%}), up to {self.lost_seconds:.1f} s" if self.counts == "lost" else words

    @property
    def outcome(self) -> str:
        return f"{self.measured} ({self.seconds:.0f} s)"

    def agrees_with(self, published: Published) -> bool:
        if self.reason:
            return False
        was_under_way = 0 < self.lost_seconds <= published.under_way_seconds
        is_lost = bool(self.lost) and (published.loses or not was_under_way)
        return is_lost == published.loses


class ReproductionScenario(Scenario[tuple[str, ...], Published, Reproduced], frozen=True, kw_only=True):
    """One published result. Its load is what `soak check` is called with."""

    result = Reproduced

    soak_seconds: int = SOAK_SECONDS

    @property
    def command(self) -> str:
        """What a person types to see it."""
        stores = [f"--store {store}" for store in self.stores]
        return " ".join(["soak check", *stores, shlex.join(self.load), f"--duration {self.soak_seconds}s"])

    async def run(self, folder: Path) -> Reproduced:
        stores = [word for store in self.stores for word in ("--store", store)]
        words = (
            *("check", "--json", "--data-dir", str(folder / "data"), *stores),
            *(*LOAD, "--duration", f"{self.soak_seconds}s", *self.load),
        )
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
        counts = self.expectation.counts
        kinds = [one for one in result.get("violations_by", []) if one["store"] == self.stores[0]]
        lost = sum(one["lost"] + one["tolerated"] for one in own)
        return Reproduced(
            name=self.name,
            verdict=answer["verdict"],
            counts=counts,
            acknowledged=next(one["acknowledged"] for one in result["by_store"] if one["store"] == self.stores[0]),
            lost=lost if counts == "lost" else sum(one["count"] for one in kinds if one["kind"] == counts),
            lost_seconds=max(one["point_seconds"] + one["after_seconds"] for one in own),
            faults=len(own),
            seed=str(result["seed"]),
        )

    def not_made(self, reason: str, *, is_unreachable: bool = False) -> Reproduced:  # noqa: ARG002
        return Reproduced(name=self.name, reason=reason)


def _reproduction(
    name: str, published: Published, load: Sequence[str], *stores: str, soak_seconds: int = SOAK_SECONDS
) -> ReproductionScenario:
    return ReproductionScenario(
        soak_seconds=soak_seconds,
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


def _on(topology: str, fault: str, parameters: str = "", *more: str) -> tuple[str, ...]:
    every = f"{EVERY},{parameters}" if parameters else EVERY
    return ("--redis", topology, "--fault", f"{fault}:redis:{every}", *_STRICT, *more)


def _options(**options: str) -> tuple[str, ...]:
    """Set the server under test."""
    pairs = [f"testbed.redis_options.{name.replace('_', '-')}={value}" for name, value in options.items()]
    return tuple(word for pair in pairs for word in ("--set", pair))


_ONE_REPLICA = _options(min_replicas_to_write="1", min_replicas_max_lag="1")
_NO_CRASH_LOSS = ("--allow-weaker-server", "--set", "contract.redis-list.crash_loss_seconds=0s")
_SHORT_SECONDS = 25
"""One server is started at once, and broken once."""


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
        _reproduction(
            "sqlite-normal-power-cut",
            Published(
                claim="A SQLite file with a write-ahead log and synchronous=NORMAL loses commits in a power cut",
                source="SQLite documentation, PRAGMA synchronous",
                loses=True,
            ),
            ("--subject", "sqlite3-normal", "--fault", f"power_cut:http:{EVERY}"),
            "http",
        ),
        _reproduction(
            "sqlite-full-power-cut",
            Published(
                claim="The same file with synchronous=FULL loses nothing",
                source="SQLite documentation, PRAGMA synchronous",
                loses=False,
            ),
            ("--subject", "sqlite3-full", "--fault", f"power_cut:http:{EVERY}"),
            "http",
        ),
        _reproduction(
            "sentinel-min-replicas-silent",
            Published(
                claim="min-replicas-to-write 1: a primary that is cut off goes on acknowledging for about "
                "min-replicas-max-lag; that is lost",
                source="Redis documentation, Sentinel, example 2",
                loses=True,
            ),
            _on("sentinel", "partial_partition", "cut=silent", *_ONE_REPLICA),
        ),
        _reproduction(
            "sentinel-min-replicas-reset",
            Published(
                claim="The same where the cut resets connections: the primary notices at once and loses at most what "
                "was under way, which flatters the setting",
                source="soak",
                loses=False,
                under_way_seconds=1.0,
            ),
            _on("sentinel", "partial_partition", "cut=reset", *_ONE_REPLICA),
        ),
        _reproduction(
            "sentinel-wait-one",
            Published(
                claim="WAIT 1 does not make Redis strongly consistent: a replica that is not promoted may be the one "
                "that answers",
                source="Redis documentation, WAIT",
                loses=True,
            ),
            _on("sentinel", "sentinel_failover", "", "--set", "stores.redis.wait_replicas=1"),
        ),
        _reproduction(
            "sentinel-min-replicas-all",
            Published(
                claim="min-replicas-to-write with all replicas: a primary that is being replaced refuses what they "
                "would not get, and loses at most what was under way",
                source="Redis documentation, replication, allow writes only with N attached replicas",
                loses=False,
                under_way_seconds=1.0,
            ),
            _on(
                *("sentinel", "sentinel_failover", ""),
                *_options(min_replicas_to_write="2", min_replicas_max_lag="1"),
            ),
        ),
        _reproduction(
            "sentinel-empty-primary",
            Published(
                claim="A primary without persistence that is restarted at once comes back empty, and its replicas "
                "copy that: everything is gone",
                source="Redis documentation, replication with persistence off",
                loses=True,
            ),
            _on("sentinel", "primary_restart", "", *_options(appendonly="no"), *_NO_CRASH_LOSS),
        ),
        _reproduction(
            "cluster-failover-force",
            Published(
                claim="CLUSTER FAILOVER FORCE does not ask the primary: what was under way to the replica is lost",
                source="Redis documentation, CLUSTER FAILOVER",
                loses=True,
            ),
            _on("cluster", "cluster_failover_force", "latency=100ms"),
        ),
        _reproduction(
            "cluster-shared-client",
            Published(
                claim="One redis-py cluster client shared by an application writes some messages twice in a graceful "
                "failover: it closes connections with commands under way, and sends those again",
                source="redis/redis-py#4322",
                loses=True,
                counts="duplicated",
            ),
            ("--redis", "cluster", "--fault", "cluster_failover:redis:every=8s,hold=0s", "--think", "5ms"),
            "soak.scenarios.shared_cluster_client:SharedClusterClient",
        ),
        _reproduction(
            "redis-rdb-window",
            Published(
                claim="Snapshots alone lose everything since the last one in a crash",
                source="Redis documentation, persistence",
                loses=True,
            ),
            ("--fault", f"crash:redis:{EVERY}", *_options(appendonly="no", save="900 1"), *_NO_CRASH_LOSS),
            soak_seconds=_SHORT_SECONDS,
        ),
        _reproduction(
            "redis-waitaof-power-cut",
            Published(
                claim="WAITAOF on Valkey 9.1 under everysec answers before anything is synced, though it is documented "
                "to wait for that",
                source="soak, against the documentation of WAITAOF",
                loses=True,
            ),
            (
                *("--fault", f"power_cut:redis:{EVERY}", "--set", "stores.redis.wait_aof=true"),
                *("--allow-weaker-server", "--set", "contract.redis-list.power_loss_seconds=0s"),
            ),
            soak_seconds=_SHORT_SECONDS,
        ),
        _reproduction(
            "postgres-standby-restart",
            Published(
                claim="A standby that restarts after a crash answers reads before it has replayed to where it had "
                "been: for a moment it shows an old state",
                source="soak",
                loses=True,
                counts="stale",
            ),
            (
                *("--fault", "crash:postgres-replica:every=8s,hold=0s"),
                *("--set", "contract.postgres-replica.replica_reads=strict"),
                *("--set", "contract.postgres-replica.staleness_seconds=0.5s"),
            ),
            "postgres-replica",
        ),
    )
}
