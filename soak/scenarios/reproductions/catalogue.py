"""All published results that are shown again."""

from __future__ import annotations

from collections.abc import Sequence

from soak.scenarios.reproductions.library import LibraryReproduction
from soak.scenarios.reproductions.scenario import SOAK_SECONDS, UNDER_WAY_SECONDS, Published, ReproductionScenario
from soak.scenarios.scenario import ServerSetup

SIDE_BY_SIDE = 4
"""They wait more than they compute."""
SECONDS_MAX = 480.0
EVERY = "every=10s,hold=1s"


def _reproduction(
    name: str, published: Published, load: Sequence[str], *stores: str, soak_seconds: int = SOAK_SECONDS
) -> ReproductionScenario:
    return ReproductionScenario(
        soak_seconds=soak_seconds,
        weight=float("patroni" in load),  # it takes longest to form, and to fail over
        name=name,
        stores=stores or ("redis-list",),
        servers=ServerSetup(),
        load=tuple(load),
        expectation=published,
        seconds_max=SECONDS_MAX,
    )


def _library(name: str, subject: str, trial: str, published: Published) -> LibraryReproduction:
    return LibraryReproduction(
        name=name,
        stores=(subject,),
        servers=ServerSetup(),
        load=(trial,),
        expectation=published,
        seconds_max=SECONDS_MAX,
    )


_ANALYSES = "soak, What libraries keep"
_STRICT = ("--set", "contract.redis-list.failover_loss_seconds=0s", "--allow-weaker-server")


_STRICT_POSTGRES = (
    *("--set", "contract.postgres.failover_loss_seconds=0s", "--allow-weaker-server"),
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
_LONG_SECONDS = 40
"""Only a third of the writes is for the primary that is broken: it is broken twice."""


ALL: dict[str, ReproductionScenario] = {
    one.name: one
    for one in (
        _reproduction(
            "sentinel-failover",
            Published(
                claim="SENTINEL FAILOVER with nothing broken: what the old primary acknowledges until it is demoted is "
                "lost, and no client sees an error",
                source="redis/redis#6062",
                number="the last 10 s",
                loses=True,
            ),
            _on("sentinel", "sentinel_failover"),
        ),
        _reproduction(
            "sentinel-coordinated-failover",
            Published(
                claim="SENTINEL FAILOVER ... COORDINATED loses nothing",
                source="Valkey 9.0, Sentinel documentation",
                number="0",
                loses=False,
            ),
            _on("sentinel", "coordinated_failover"),
        ),
        _reproduction(
            "sentinel-partition",
            Published(
                claim="A primary that is cut off from the majority goes on acknowledging; all of it is lost",
                source="Jepsen, Redis, 2013",
                number="56% of the acknowledged writes",
                loses=True,
            ),
            _on("sentinel", "partial_partition"),
        ),
        _reproduction(
            "sentinel-minority-partition",
            Published(
                claim="The same with all clients on the side of the old primary: what it acknowledges from the cut "
                "until it is demoted is lost, all of it",
                source="Jepsen, Redis, 2013",
                number="all of it",
                loses=True,
                is_of_window=True,
            ),
            _on("sentinel", "partial_partition", "clients=minority"),
        ),
        _reproduction(
            "cluster-partition",
            Published(
                claim="A primary in the minority goes on acknowledging for the node timeout; that is lost",
                source="Redis Cluster specification, write safety",
                number="about the node timeout (here 3 s)",
                loses=True,
            ),
            _on("cluster", "partial_partition"),
            soak_seconds=_LONG_SECONDS,
        ),
        _reproduction(
            "cluster-failover",
            Published(
                claim="CLUSTER FAILOVER loses nothing",
                source="Redis documentation, CLUSTER FAILOVER",
                number="0",
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
                number="0",
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
                number="0",
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
                number="0",
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
                number="1 s, or 2 s",
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
                number="0",
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
                number="min-replicas-max-lag (here 1 s)",
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
                under_way_seconds=UNDER_WAY_SECONDS,
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
            "sentinel-wait-all",
            Published(
                claim="WAIT for all replicas: whichever is promoted has what was acknowledged. What was not confirmed "
                "may have been read, and is gone",
                source="Redis documentation, WAIT",
                number="0",
                loses=False,
            ),
            _on("sentinel", "sentinel_failover", "", "--set", "stores.redis.wait_replicas=2"),
        ),
        _reproduction(
            "sentinel-partition-wait",
            Published(
                claim="A primary that is cut off with WAIT 1 confirms nothing: its replicas are on the other side",
                source="Redis documentation, WAIT",
                number="0",
                loses=False,
            ),
            _on("sentinel", "partial_partition", "", "--set", "stores.redis.wait_replicas=1"),
        ),
        _reproduction(
            "sentinel-min-replicas-all",
            Published(
                claim="min-replicas-to-write with all replicas: a primary that is being replaced refuses what they "
                "would not get, and loses at most what was under way",
                source="Redis documentation, replication, allow writes only with N attached replicas",
                loses=False,
                under_way_seconds=UNDER_WAY_SECONDS,
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
                number="everything",
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
            "cluster-takeover",
            Published(
                claim="CLUSTER FAILOVER TAKEOVER asks nobody: what was under way to the replica is lost",
                source="Redis documentation, CLUSTER FAILOVER",
                loses=True,
            ),
            _on("cluster", "cluster_takeover", "latency=100ms"),
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
            "soak.flaws.shared_cluster_client:SharedClusterClient",
        ),
        _reproduction(
            "redis-rdb-window",
            Published(
                claim="Snapshots alone lose everything since the last one in a crash",
                source="Redis documentation, persistence",
                number="everything since the last snapshot",
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
                number="0",
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
        _library(
            "agno-concurrent-writers",
            "agno-redis@2.6.4",
            "concurrent-writers",
            Published(
                claim="agno 2.6.4: eight writers of one session lose most of their messages to each other",
                source=_ANALYSES,
                number="333 of 400",
                loses=True,
            ),
        ),
        _library(
            "agno-outage",
            "agno-redis",
            "outage-writes",
            Published(
                claim="agno 3.1.10: what is acknowledged while Redis is away is lost",
                source=_ANALYSES,
                number="8 of 36",
                loses=True,
            ),
        ),
        _library(
            "langgraph-clock-skew",
            "langgraph-postgres",
            "clock-skew",
            Published(
                claim="langgraph 3.2.0: of two hosts whose clocks differ by 5 s, what the slower one writes is lost",
                source=_ANALYSES,
                number="10 of 20",
                loses=True,
            ),
        ),
        _library(
            "redisvl-long-session",
            "redisvl-messages",
            "long-session",
            Published(
                claim="redisvl 0.28.0: of a session of 1,050 messages the newest 50 are missing",
                source=_ANALYSES,
                number="50 of 1,050",
                loses=True,
            ),
        ),
        _library(
            "redisvl-colliding-sessions",
            "redisvl-messages",
            "colliding-sessions",
            Published(
                claim="redisvl 0.28.0: sessions whose ids differ in case or a comma see each other's messages",
                source=_ANALYSES,
                number="46",
                loses=True,
                counts="leaked",
            ),
        ),
        _library(
            "agent-framework-identical-turns",
            "agent-framework-redis@1.0.0b261002",
            "identical-turns",
            Published(
                claim='agent-framework-redis 1.0.0b261002: "continue" said sixteen times is kept once for each role',
                source=_ANALYSES,
                number="14 of 16",
                loses=True,
            ),
        ),
        _library(
            "chromadb-process-crash",
            "chromadb-duckdb",
            "process-crash",
            Published(
                claim="chromadb 0.3.29 with DuckDB: everything is lost when its process is killed",
                source=_ANALYSES,
                number="207 of 207",
                loses=True,
            ),
        ),
    )
}
