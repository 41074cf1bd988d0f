"""Asking any server what it is configured to and how it fares: one we started, or one that was given.

What a server refuses to say (managed services deny `CONFIG GET`) is left out, and no default replaces it.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import Mapping
from typing import Any

import asyncpg
from redis import DriverInfo
from redis.exceptions import InvalidResponse, RedisClusterException, RedisError

from soak import redis_sentinel
from soak.answer_bounds import BoundedParser
from soak.checker.telemetry import ServerSample
from soak.clock import now_us
from soak.errors import ServerUnreachableError
from soak.hosts import each_host, hosts_of, is_cluster, is_sentinel
from soak.postgres_bounds import bounded_answers
from soak.redis_sentinel import redis_at
from soak.servers.kinds import STANDBY_NAMES, Protocol, RedisTopology, ServerKind, kind_of
from soak.sqlite_address import SYNCHRONOUS, SqliteAddress, parse_sqlite
from soak.stores import redis_cluster
from soak.stores.redis_cluster import cluster_addresses
from soak.stores.sqlite_file import connect

Told = tuple[dict[str, str], dict[str, str]]
"""Configuration and telemetry."""
REDIS_SETTINGS = (
    "save",
    "appendonly",
    "appendfsync",
    "no-appendfsync-on-rewrite",
    "maxmemory",
    "maxmemory-policy",
    "min-replicas-to-write",
    "min-replicas-max-lag",
    "cluster-node-timeout",
)
POSTGRES_SETTINGS = (*("synchronous_commit", STANDBY_NAMES, "fsync", "full_page_writes", "wal_writer_delay"),)
NODES_MAX = 128
"""So many nodes of a group are asked."""
SEVERAL_HOSTS = "several hosts"

_REDIS_COUNTERS = (
    "aof_buffer_length",
    "aof_current_size",
    "aof_delayed_fsync",
    "aof_last_write_status",
    "aof_pending_bio_fsync",
    "connected_clients",
    "connected_slaves",
    "evicted_keys",
    "expired_keys",
    "loading",
    "master_link_status",
    "maxclients",
    "maxmemory",
    "rdb_changes_since_last_save",
    "rdb_last_bgsave_status",
    "rdb_last_bgsave_time_sec",
    "rdb_last_save_time",
    "rejected_connections",
    "role",
    "run_id",
    "server_time_usec",
    "total_connections_received",
    "uptime_in_seconds",
    "used_memory",
)
_SUMMED = ("connected_clients", "connected_slaves", "evicted_keys", "expired_keys", "keys", "used_memory")
"""Counters of the nodes of a cluster that make sense together."""
_DRIVER = DriverInfo()
"""Made once: redis-py looks its version up in its package's files for every connection that is given none."""
_SILENT = (
    RedisError,
    RedisClusterException,
    sqlite3.Error,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
)
_ROLES = {"master": "primary", "slave": "replica"}

_POSTGRES_SETTINGS_QUERY = "select name, setting || coalesce(unit, '') as value from pg_settings where name = any($1)"
_POSTGRES_COUNTERS_QUERY = """
with here as (select pg_is_in_recovery() as recovering),
     -- Starts over with every life of the server's memory. To an ordinary user its row shows nothing.
     checkpointer as (select max(backend_start) as backend_start
                        from pg_stat_activity where backend_type = 'checkpointer')
select recovering::text as pg_is_in_recovery,
       current_setting('server_version') as server_version,
       pg_postmaster_start_time()::text as pg_postmaster_start_time,
       extract(epoch from pg_postmaster_start_time())::text as postmaster_started,
       extract(epoch from checkpointer.backend_start)::text as checkpointer_started,
       extract(epoch from clock_timestamp() - checkpointer.backend_start)::text as checkpointer_uptime_seconds,
       case when not recovering then pg_current_wal_lsn()::text end as pg_current_wal_lsn,
       case when recovering then pg_last_wal_receive_lsn()::text end as pg_last_wal_receive_lsn,
       case when recovering then pg_last_wal_replay_lsn()::text end as pg_last_wal_replay_lsn,
       case when recovering then pg_wal_lsn_diff(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn())
            else (select max(pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn)) from pg_stat_replication)
       end::text as replication_lag_bytes,
       case when recovering then coalesce(
                case when pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn() then 0 end,
                extract(epoch from clock_timestamp() - pg_last_xact_replay_timestamp()))
       end::text as replication_lag_seconds,
       (select count(*) from pg_stat_replication)::text as replicas,
       pg_wal_lsn_diff(case when recovering then pg_last_wal_replay_lsn() else pg_current_wal_lsn() end, '0/0')::text
           as wal_bytes,
       extract(epoch from clock_timestamp() - pg_postmaster_start_time())::text as uptime_seconds,
       (select sum(numbackends) from pg_stat_database)::text as connections,
       current_setting('max_connections') as max_connections,
       {checkpoints} as checkpoints,
       {size} as database_bytes,
       stats.numbackends::text as numbackends,
       stats.xact_commit::text as xact_commit,
       stats.xact_rollback::text as xact_rollback,
       stats.tup_deleted::text as tup_deleted,
       stats.deadlocks::text as deadlocks
  from here, checkpointer, pg_stat_database stats
 where stats.datname = current_database()
"""


# The views were parted in PostgreSQL 17.
_CHECKPOINTS = "(select num_timed + num_requested from pg_stat_checkpointer)::text"
_CHECKPOINTS_BEFORE_17 = "(select checkpoints_timed + checkpoints_req from pg_stat_bgwriter)::text"
_SIZE = "pg_database_size(current_database())::text"


async def inspect(name: str, url: str, *, timeout_seconds: float, with_size: bool = False) -> ServerSample:
    """Ask a server of the kind of this name."""
    return await inspect_server(kind_of(name), url, timeout_seconds=timeout_seconds, with_size=with_size)


async def inspect_server(
    kind: ServerKind, url: str, *, timeout_seconds: float, with_size: bool = False
) -> ServerSample:
    """Ask one server; raises `ServerUnreachableError` if it gives no answer in time.

    PostgreSQL stats every file of a database to know its size, so that is asked for separately.
    """
    if not kind.can_be_inspected:
        raise ServerUnreachableError(f"{kind.name} cannot be asked for its configuration")
    try:
        async with asyncio.timeout(timeout_seconds):
            configuration, telemetry = await _ASK[kind.protocol](url, timeout_seconds, with_size)
    except (*_SILENT, OSError, TimeoutError) as error:
        raise ServerUnreachableError(
            f"{kind.name} does not report its configuration ({type(error).__name__}); check that it runs"
        ) from error
    return ServerSample(server=kind.name, at=now_us(), configuration=configuration, telemetry=telemetry)


async def _ask_redis(url: str, timeout_seconds: float, with_size: bool) -> Told:  # noqa: FBT001, ARG001  one form for all
    if is_cluster(url):
        return await _ask_cluster(url, timeout_seconds)
    client = redis_at(
        url,
        timeout_seconds=timeout_seconds,
        parser_class=BoundedParser,
        decode_responses=True,
        driver_info=_DRIVER,
    )
    try:
        async with client.pipeline(transaction=False) as pipe:
            pipe.info()
            for name in REDIS_SETTINGS:
                pipe.config_get(name)  # one by one: Redis 6.2 takes no list of names
            try:
                answers: list[Any] = await pipe.execute(raise_on_error=False)
            except (AttributeError, TypeError, ValueError, LookupError) as error:
                # redis-py parses the reply without checking that it can be parsed.
                raise InvalidResponse(f"its answers are not understood: {error}") from error
        database = client.connection_pool.connection_kwargs.get("db") or 0
    finally:
        with contextlib.suppress(RedisError, OSError):
            # Shielded: a cancellation during the close would leave the connection open.
            await asyncio.shield(client.aclose())
    info: Mapping[str, Any] = answers[0] if isinstance(answers[0], Mapping) else {}
    configuration = configuration_in(info)
    if is_sentinel(url):
        configuration |= {"topology": RedisTopology.SENTINEL.value, "replicas": str(info.get("connected_slaves", ""))}
    for answer in answers[1:]:
        if isinstance(answer, Mapping):
            configuration |= {str(name): str(value) for name, value in answer.items()}
    telemetry = {name: str(info[name]) for name in _REDIS_COUNTERS if name in info}
    if info:
        keyspace = info.get(f"db{database}")
        telemetry["keys"] = str(keyspace.get("keys", 0) if isinstance(keyspace, Mapping) else 0)
        telemetry["version"] = str(info.get("valkey_version") or info.get("redis_version") or "unknown")
        telemetry |= _replication_lag(info)
    return configuration, telemetry


async def _ask_cluster(url: str, timeout_seconds: float) -> Told:
    """Ask every primary. The cluster is as old as its youngest one, and another one if one of them is."""
    primaries = await cluster_addresses(url, timeout_seconds=timeout_seconds, replicas=False)
    answers = await asyncio.gather(*(_ask_redis(one, timeout_seconds, with_size=False) for one in primaries))
    telemetries = [telemetry for _, telemetry in answers]
    replicas = max(int(one.get("connected_slaves", 0)) for one in telemetries)
    configuration = {**answers[0][0], "topology": RedisTopology.CLUSTER.value, "replicas": str(replicas)}
    telemetry = {**telemetries[0]}
    for name in _SUMMED:
        if all(name in one for one in telemetries):
            telemetry[name] = str(sum(int(one[name]) for one in telemetries))
    telemetry["run_id"] = "+".join(sorted(one.get("run_id", "") for one in telemetries))
    telemetry["uptime_in_seconds"] = str(min(int(one.get("uptime_in_seconds", 0)) for one in telemetries))
    return configuration, telemetry


async def inspect_nodes(kind: ServerKind, url: str, *, timeout_seconds: float) -> dict[str, dict[str, str] | None]:
    """Return by its place the configuration of every node of a group that keeps data; None: it gives no answer.

    Raises `ServerUnreachableError` if nobody names the nodes.
    """
    try:
        async with asyncio.timeout(timeout_seconds):
            addresses = await _addresses_of_nodes(kind, url, timeout_seconds)
    except (*_SILENT, OSError, TimeoutError) as error:
        raise ServerUnreachableError(f"nobody names the nodes of {kind.name} ({type(error).__name__})") from error
    addresses = addresses[:NODES_MAX]
    answers = await asyncio.gather(*(_ask_node(kind, address, timeout_seconds) for address in addresses))
    return {str(hosts_of(address)[0]): answer for address, answer in zip(addresses, answers, strict=True)}


async def _addresses_of_nodes(kind: ServerKind, url: str, timeout_seconds: float) -> list[str]:
    if kind.protocol is Protocol.POSTGRES:
        return each_host(url, target_session_attrs="any")
    if is_cluster(url):
        return await redis_cluster.server_addresses(url, timeout_seconds=timeout_seconds)
    return await redis_sentinel.server_addresses(url, timeout_seconds=timeout_seconds)


async def _ask_node(kind: ServerKind, url: str, timeout_seconds: float) -> dict[str, str] | None:
    # Each has a time of its own: one that is silent hides no other.
    try:
        async with asyncio.timeout(timeout_seconds):
            configuration, _ = await _ASK[kind.protocol](url, timeout_seconds, False)  # noqa: FBT003  one form for all
    except (*_SILENT, OSError, TimeoutError):
        return None
    return configuration


def _replication_lag(info: Mapping[str, Any]) -> dict[str, str]:
    """Return how far replication is behind: on a primary that of the slowest replica, on a replica its own."""
    if str(info.get("role")) == "slave":
        received, applied = info.get("slave_read_repl_offset"), info.get("slave_repl_offset")
        behind = {} if received is None or applied is None else {"replication_lag_bytes": str(received - applied)}
        # -1: the link is down, and nobody knows.
        silent = info.get("master_last_io_seconds_ago", -1)
        return behind | ({"replication_lag_seconds": str(silent)} if silent >= 0 else {})
    replicas = [info.get(f"slave{number}") for number in range(int(info.get("connected_slaves", 0)))]
    known = [one for one in replicas if isinstance(one, Mapping) and {"offset", "lag"} <= one.keys()]
    if not known or "master_repl_offset" not in info:
        return {}
    return {
        "replication_lag_bytes": str(max(info["master_repl_offset"] - one["offset"] for one in known)),
        "replication_lag_seconds": str(max(one["lag"] for one in known)),
    }


def configuration_in(info: Mapping[str, Any]) -> dict[str, str]:
    """Return what `INFO` says of the configuration, for servers that answer no `CONFIG GET`."""
    known: dict[str, str] = {}
    # A replica that is being filled writes no log for that long, whatever it is set to.
    if "aof_enabled" in info and not info.get("master_sync_in_progress"):
        known["appendonly"] = "yes" if str(info["aof_enabled"]) == "1" else "no"
    if "maxmemory" in info:
        known["maxmemory"] = str(info["maxmemory"])
    if "maxmemory_policy" in info:
        known["maxmemory-policy"] = str(info["maxmemory_policy"])
    if str(info.get("role")) in _ROLES:
        known["role"] = _ROLES[str(info["role"])]
    return known


async def _ask_postgres(url: str, timeout_seconds: float, with_size: bool) -> Told:  # noqa: FBT001  one form for all
    with bounded_answers():
        connection = await asyncpg.connect(
            url,
            timeout=timeout_seconds,
            command_timeout=timeout_seconds,
            statement_cache_size=0,  # a pooler in between knows no prepared statement of ours
            server_settings={"application_name": "soak inspect"},
        )
    try:
        settings = await connection.fetch(_POSTGRES_SETTINGS_QUERY, list(POSTGRES_SETTINGS))
        checkpoints = _CHECKPOINTS if connection.get_server_version().major >= 17 else _CHECKPOINTS_BEFORE_17
        query = _POSTGRES_COUNTERS_QUERY.format(checkpoints=checkpoints, size=_SIZE if with_size else "null")
        counters = await connection.fetchrow(query)
    finally:
        connection.terminate()
    configuration = {str(row["name"]): str(row["value"]) for row in settings}
    telemetry = {name: str(value) for name, value in (counters or {}).items() if value is not None}
    if "pg_is_in_recovery" in telemetry:
        configuration["role"] = "replica" if telemetry["pg_is_in_recovery"] == "true" else "primary"
    if len(hosts_of(url)) > 1:
        configuration["topology"] = SEVERAL_HOSTS
    return configuration, telemetry


async def _ask_web(url: str, timeout_seconds: float, with_size: bool) -> Told:  # noqa: FBT001, ARG001  one form for all
    return {}, {}  # it reports nothing


async def _ask_sqlite(url: str, timeout_seconds: float, with_size: bool) -> Told:  # noqa: FBT001, ARG001  one form for all
    return await asyncio.to_thread(_look_into, parse_sqlite(url), timeout_seconds)


def _look_into(address: SqliteAddress, timeout_seconds: float) -> Told:
    """Open the file as its writers do, and ask what that means."""
    with contextlib.closing(connect(address, timeout_seconds=timeout_seconds, reads_only=True)) as connection:

        def ask(name: str) -> str:
            return str(connection.execute(f"pragma {name}").fetchone()[0])

        configuration = {"journal_mode": ask("journal_mode"), "synchronous": SYNCHRONOUS[int(ask("synchronous"))]}
        size = int(ask("page_count")) * int(ask("page_size"))
    return configuration, {"version": sqlite3.sqlite_version, "database_bytes": str(size)}


_ASK = {
    Protocol.REDIS: _ask_redis,
    Protocol.POSTGRES: _ask_postgres,
    Protocol.HTTP: _ask_web,
    Protocol.SQLITE: _ask_sqlite,
}
