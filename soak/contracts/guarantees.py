"""What a server guarantees as it is configured: read from its effective configuration, never assumed.

The figures are what real servers were measured to lose (acknowledged writes, in seconds before the fault):

- AOF everysec: up to 1.8 s when the process dies while a sync is pending, for the server holds the write back in its
  own memory for up to two seconds; 0.1 to 1.1 s in a power cut.
- AOF always: nothing. AOF without sync: nothing when the process dies, anything in a power cut.
- RDB alone: everything since the last save began. Only a rule that fires after a single change bounds that in time.
- PostgreSQL without synchronous commit: up to three rounds of its log writer.
- Redis Sentinel, Cluster: replication is asynchronous, so a failover takes what the new primary had not received, and
  all that the old one acknowledges until it is demoted. `min-replicas-to-write` narrows that and does not end it: a
  silent partition still took 1.9 s with a maximal lag of one second, and 5.7 s with one of ten. A cluster ends it:
  2.8 s with a cluster-node-timeout of 2 s, 15.1 s with one of 15 s.
- PostgreSQL on several hosts: the same, unless commits wait for a standby (`synchronous_standby_names`): then nothing.
"""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from soak.checker.telemetry import ServerSample
from soak.servers.kinds import (
    KINDS,
    MAXIMUM_LAG,
    OF_THE_GROUP,
    POSTGRES,
    REDIS,
    SQLITE,
    STANDBY_NAMES,
    STRICT_MODE,
    SYNCHRONOUS_MODE,
    UNDER_TEST,
    Protocol,
    RedisTopology,
)
from soak.sqlite_address import WAL

EVERYSEC_LOSS_SECONDS = 2.0
ASYNC_REPLICATION_LOSS_SECONDS = 2.0
"""No setting bounds how far a replica is behind; one that is healthy is well within this."""
DEMOTION_SLACK_SECONDS = 1.0
"""A primary of a cluster that is cut off stops that much after cluster-node-timeout: measured were 0.1 to 0.8 s."""
REPLICA_LAG_SLACK_SECONDS = 2.0
"""Replicas report once a second, and a primary looks once a second: with a maximal lag of 1 s, 1.9 s were measured."""
RDB_SLACK_SECONDS = 10.0
RDB_SLACK_SHARE = 0.1
"""A save takes time, and what changes after it has begun waits for the next one."""
WAL_WRITER_ROUNDS = 3
WAL_WRITER_DELAY_SECONDS = 0.2
WAL_WRITER_SLACK_SECONDS = 0.4
"""The log writer is a process among others: on a busy machine it wakes up late."""

WATCHED_SETTINGS = {kind.name: kind.watched_settings for kind in UNDER_TEST if kind.watched_settings}
"""The settings by kind of server that decide what it can promise."""

KEEPS_DATA = tuple(kind.name for kind in UNDER_TEST if kind.keeps_data)
"""Servers whose configuration decides what survives."""

_WAITS_FOR_STANDBY = frozenset({"on", "remote_write", "remote_apply"})
"""What `synchronous_commit` is where a commit waits until a standby has it; `local` and `off` wait for none."""
_SYNCHRONOUS_MODES = frozenset({"true", "quorum"})
_DURATION = re.compile(r"([\d.]+)\s*(us|ms|s|min)?")
_UNIT_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, None: 1e-3}


class Loss(msgspec.Struct, frozen=True, kw_only=True):
    """How much acknowledged tail one kind of fault may take, as far as the configuration says."""

    seconds: float | None = 0.0
    """None: anything. Where it is not known: at least so much."""
    is_known: bool = True
    because: str = ""
    """The settings that say so."""

    @property
    def words(self) -> str:
        if self.seconds is None:
            return "anything may be lost"
        if not self.is_known:
            return f"at least {self.seconds:g}s may be lost" if self.seconds else "unknown"
        return "nothing lost" if self.seconds == 0 else f"at most {self.seconds:g}s lost"

    def is_weaker_than(self, promised_seconds: float | None) -> bool:
        """Whether it is known that more may be lost than is promised."""
        if promised_seconds is None:
            return False
        return self.seconds is None or self.seconds > promised_seconds

    @property
    def rank(self) -> float:
        """The higher, the more may be lost for certain."""
        return math.inf if self.seconds is None else self.seconds


class EvictionScope(enum.Enum):
    """Which keys a server may drop to make room."""

    NONE = "none"
    EXPIRING = "keys with a time to live"
    ANY = "any key"
    UNKNOWN = "unknown"


class Guarantees(msgspec.Struct, frozen=True, kw_only=True):
    """The strongest promise that a server as configured allows."""

    server: str
    crash: Loss
    power: Loss
    failover: Loss | None = None
    """Where several nodes act as one server; None: a failover is a crash."""
    alone: Loss | None = None
    """For how long a primary that is being replaced acknowledges what is lost with it; None: it is not known."""
    eviction: EvictionScope = EvictionScope.NONE
    eviction_because: str = ""
    is_replica: bool = False

    @property
    def words(self) -> str:
        """Say it in one line, such as `AOF everysec: at most 2s lost after a crash or a power cut; never evicts`."""
        if not (self.crash.because or self.power.because):
            kept = "does not say how it keeps its data"
        elif (self.crash.because, self.crash.words) == (self.power.because, self.power.words):
            kept = f"{self.crash.because}: {self.crash.words} after a crash or a power cut"
        else:
            because = dict.fromkeys(filter(None, (self.crash.because, self.power.because)))
            kept = f"{', '.join(because)}: {self.crash.words} after a crash, {self.power.words} after a power cut"
        may_drop = {
            EvictionScope.NONE: "never evicts",
            EvictionScope.UNKNOWN: "does not say whether it evicts",
        }.get(self.eviction, f"may evict {self.eviction.value} ({self.eviction_because})")
        if self.failover is not None:
            why = f"{self.failover.because}: " if self.failover.because else ""
            kept = f"{kept}; {why}{self.failover.words} before a failover{self._words_alone}"
        words = f"{kept}; {may_drop}" if KINDS[self.server].protocol is Protocol.REDIS else kept
        return f"{words}; is a replica" if self.is_replica else words

    @property
    def _words_alone(self) -> str:
        if self.alone is None:
            return ""
        until = "and what the old primary acknowledges until it is demoted"
        if self.alone.seconds is None:
            return f", {until}, which no setting bounds ({self.alone.because})"
        return f", {until}, for at most {self.alone.seconds:g}s ({self.alone.because})"

    def evicts(self, *, expiring_keys: bool) -> bool:
        """Whether it is known that it may drop keys of this sort."""
        return self.eviction is EvictionScope.ANY or (self.eviction is EvictionScope.EXPIRING and expiring_keys)


def keeper_of(needs: Iterable[str]) -> str | None:
    """Return the server that keeps a store's data, if it is one and only one."""
    keepers = [kind for kind in needs if kind in KEEPS_DATA]
    return keepers[0] if len(keepers) == 1 else None


def guarantees_of(sample: ServerSample) -> Guarantees:
    """Return what the server that gave this sample can promise."""
    derive = _DERIVE[KINDS[sample.server].protocol]
    return derive(sample.configuration, server=sample.server)


def guarantees_given(
    server: str, configuration: Mapping[str, str], nodes: Mapping[str, Mapping[str, str]]
) -> Guarantees:
    """Return what a server can promise that reports this as one, and of each of its nodes that; none: it is alone."""
    shared = {name: configuration[name] for name in OF_THE_GROUP if name in configuration}
    return weakest_of(server, [{**node, **shared} for node in nodes.values()] or [configuration])


def weakest_of(server: str, configurations: Sequence[Mapping[str, str]]) -> Guarantees:
    """Return what a group of these nodes can promise: of each clause the worst, for each node can become the primary.

    A node that tells nothing makes unknown what no other one is known to break.
    """
    derive = _DERIVE[KINDS[server].protocol]
    given = [derive(configuration, server=server) for configuration in configurations]
    evicting = max(given, key=lambda one: _WORSE_EVICTION.index(one.eviction))
    failovers = [one.failover for one in given if one.failover is not None]
    return Guarantees(
        server=server,
        crash=_worst([one.crash for one in given]),
        power=_worst([one.power for one in given]),
        failover=_worst(failovers) if failovers else None,
        alone=_longest_alone([one.alone for one in given]),
        eviction=evicting.eviction,
        eviction_because=evicting.eviction_because,
        is_replica=all(one.is_replica for one in given),
    )


_WORSE_EVICTION = (EvictionScope.NONE, EvictionScope.UNKNOWN, EvictionScope.EXPIRING, EvictionScope.ANY)
"""What is not known hides nothing that is."""


def _worst(losses: Sequence[Loss]) -> Loss:
    worst = max(losses, key=lambda one: (one.rank, one.is_known))
    if worst.seconds is None or all(one.is_known for one in losses):
        return worst
    because = f"{worst.because}, not known of every node" if worst.because else ""
    return Loss(seconds=worst.seconds, is_known=False, because=because)


def _longest_alone(found: Sequence[Loss | None]) -> Loss | None:
    known = [one for one in found if one is not None]
    worst = max(known, key=lambda one: one.rank, default=None)
    # Any of them may be the primary that is cut off: what is not known of one bounds nothing.
    return worst if worst is not None and (worst.seconds is None or len(known) == len(found)) else None


# Redis -----------------------------------------------------------------------------------------------------


def redis_guarantees(configuration: Mapping[str, str], *, server: str = REDIS.name) -> Guarantees:
    """Derive the promise of a Redis-compatible server."""
    crash, power = _redis_losses(configuration)
    eviction, because = _eviction(configuration)
    return Guarantees(
        server=server,
        crash=crash,
        power=power,
        failover=_ASYNCHRONOUS if "topology" in configuration else None,
        alone=_time_alone(configuration) if "topology" in configuration else None,
        eviction=eviction,
        eviction_because=because,
        is_replica=configuration.get("role") == "replica",
    )


_ASYNCHRONOUS = Loss(seconds=ASYNC_REPLICATION_LOSS_SECONDS, because="asynchronous replication")


def _time_alone(configuration: Mapping[str, str]) -> Loss | None:
    """Return for how long a primary that is cut off goes on acknowledging: the shortest time that a setting gives."""
    found = [one for one in (_until_minority(configuration), _until_lag(configuration)) if one is not None]
    bounded = [one for one in found if one.seconds is not None]
    return min(bounded, key=lambda one: one.seconds or 0.0, default=next(iter(found), None))


def _until_minority(configuration: Mapping[str, str]) -> Loss | None:
    timeout = configuration.get("cluster-node-timeout", "")
    if configuration.get("topology") != RedisTopology.CLUSTER or not timeout.isdigit():
        return None
    return Loss(seconds=int(timeout) / 1000 + DEMOTION_SLACK_SECONDS, because=f"cluster-node-timeout {timeout}")


def _until_lag(configuration: Mapping[str, str]) -> Loss | None:
    names = ("min-replicas-to-write", "min-replicas-max-lag", "replicas")
    values = [configuration.get(name, "") for name in names]
    if not all(value.isdigit() for value in values):
        return None
    least, lag, replicas = map(int, values)
    if not least or not lag:
        return Loss(seconds=None, because="min-replicas-to-write 0")
    because = f"min-replicas-to-write {least} of {replicas}, min-replicas-max-lag {lag}"
    # One that stays on the side of the old primary is enough where not all are asked for.
    return Loss(seconds=None if least < replicas else lag + REPLICA_LAG_SLACK_SECONDS, because=because)


def rdb_loss_seconds(rules: list[tuple[float, int]]) -> float | None:
    """Return how old an unsaved change can get; None: nothing bounds it.

    A rule that waits for several changes never fires for the last few of them, so it bounds nothing.
    """
    bounded = [seconds for seconds, changes in rules if changes <= 1]
    return round(min(bounded) * (1 + RDB_SLACK_SHARE) + RDB_SLACK_SECONDS, 3) if bounded else None


def save_rules(text: str) -> list[tuple[float, int]] | None:
    """Read `CONFIG GET save`, such as `3600 1 300 100`, as (seconds, changes); None if it is not understood."""
    words = text.split()
    if len(words) % 2 or not all(word.isdigit() for word in words):
        return None
    return [(float(seconds), int(changes)) for seconds, changes in zip(words[::2], words[1::2], strict=True)]


def _redis_losses(configuration: Mapping[str, str]) -> tuple[Loss, Loss]:
    appends = configuration.get("appendonly")
    if appends == "yes":
        return _aof_losses(configuration)
    if appends == "no":
        loss = _rdb_loss(configuration.get("save"))
        return loss, loss
    unknown = Loss(is_known=False)
    return unknown, unknown


def _aof_losses(configuration: Mapping[str, str]) -> tuple[Loss, Loss]:
    # What is saved besides does not help: with its append-only file on, the server starts from that alone.
    syncs = configuration.get("appendfsync")
    because = f"AOF {syncs}"
    if syncs == "always":
        crash = power = Loss(seconds=0.0, because=because)
    elif syncs == "everysec":
        crash = power = Loss(seconds=EVERYSEC_LOSS_SECONDS, because=because)
    elif syncs == "no":
        because = "AOF without sync"
        crash, power = Loss(seconds=0.0, because=because), Loss(seconds=None, because=because)
    else:
        # However it syncs, what the process has written outlives it.
        because = "AOF, synced nobody knows how often"
        return Loss(seconds=EVERYSEC_LOSS_SECONDS, because=because), Loss(is_known=False)
    if configuration.get("no-appendfsync-on-rewrite") == "yes":
        power = Loss(seconds=None, because=f"{because} and none during a rewrite")
    return crash, power


def _rdb_loss(save: str | None) -> Loss:
    rules = None if save is None else save_rules(save)
    if rules is None:
        return Loss(is_known=False)
    if not rules:
        return Loss(seconds=None, because="neither AOF nor save")
    return Loss(seconds=rdb_loss_seconds(rules), because=f"save {save} without AOF, all since the last save")


def _eviction(configuration: Mapping[str, str]) -> tuple[EvictionScope, str]:
    memory, policy = configuration.get("maxmemory"), configuration.get("maxmemory-policy")
    # Without a limit nothing is ever dropped, whatever the policy.
    if memory == "0" or policy == "noeviction":
        return EvictionScope.NONE, ""
    if memory is None or policy is None:
        return EvictionScope.UNKNOWN, ""
    because = f"maxmemory {memory}, maxmemory-policy {policy}"
    return (EvictionScope.EXPIRING if policy.startswith("volatile-") else EvictionScope.ANY), because


# PostgreSQL ------------------------------------------------------------------------------------------------


def postgres_guarantees(configuration: Mapping[str, str], *, server: str = POSTGRES.name) -> Guarantees:
    """Derive the promise of a PostgreSQL server."""
    crash = _commit_loss(configuration)
    return Guarantees(
        server=server,
        crash=crash,
        power=_power_loss(configuration, crash),
        failover=_promotion_loss(configuration) if "topology" in configuration else None,
        is_replica=configuration.get("role") == "replica",
    )


def _commit_loss(configuration: Mapping[str, str]) -> Loss:
    commits = configuration.get("synchronous_commit")
    if commits is None:
        return Loss(is_known=False)
    if commits != "off":
        return Loss(seconds=0.0, because=f"synchronous_commit {commits}")
    delay = _seconds(configuration.get("wal_writer_delay"))
    seconds = round(WAL_WRITER_ROUNDS * delay + WAL_WRITER_SLACK_SECONDS, 3)
    return Loss(seconds=seconds, because="synchronous_commit off")


def _promotion_loss(configuration: Mapping[str, str]) -> Loss:
    """Return what a standby may lack that takes its primary's place. Patroni promotes only who was waited for."""
    commits, names = configuration.get("synchronous_commit"), configuration.get(STANDBY_NAMES)
    if commits is None or names is None:
        return Loss(is_known=False)
    if commits in _WAITS_FOR_STANDBY:
        if configuration.get(STRICT_MODE) == "true" and configuration.get(SYNCHRONOUS_MODE) in _SYNCHRONOUS_MODES:
            # Patroni lets no commit go without a standby, also while there is none.
            return Loss(seconds=0.0, because=f"{STRICT_MODE} true")
        if names:
            return Loss(seconds=0.0, because=f"{STANDBY_NAMES} {names}")
    if lag := configuration.get(MAXIMUM_LAG):
        # Patroni promotes nobody who is further behind, as far as it had heard when it last looked.
        because = f"{_ASYNCHRONOUS.because}, {MAXIMUM_LAG} {lag} bytes"
        return msgspec.structs.replace(_ASYNCHRONOUS, because=because)
    return _ASYNCHRONOUS


def _power_loss(configuration: Mapping[str, str], crash: Loss) -> Loss:
    for setting in ("fsync", "full_page_writes"):
        if configuration.get(setting) == "off":
            return Loss(seconds=None, because=f"{setting} off")
    return crash if "fsync" in configuration else Loss(is_known=False)


def _seconds(text: str | None) -> float:
    found = _DURATION.fullmatch(text or "")
    return WAL_WRITER_DELAY_SECONDS if found is None else float(found[1]) * _UNIT_SECONDS[found[2]]


# SQLite ----------------------------------------------------------------------------------------------------


def sqlite_guarantees(configuration: Mapping[str, str], *, server: str = SQLITE.name) -> Guarantees:
    """Derive the promise of a SQLite file.

    What a process has committed is in the kernel's hands, so a crash takes nothing; without a journal it may leave
    anything.
    """
    journal, syncs = configuration.get("journal_mode"), configuration.get("synchronous")
    if journal is None or syncs is None:
        return Guarantees(server=server, crash=Loss(is_known=False), power=Loss(is_known=False))
    because = f"journal_mode {journal}, synchronous {syncs}"
    nothing, anything = Loss(seconds=0.0, because=because), Loss(seconds=None, because=because)
    if journal in {"memory", "off"}:
        return Guarantees(server=server, crash=anything, power=anything)
    if journal == WAL:
        # With `normal` the log is synced before a checkpoint only, and no setting says when the next one is.
        power = nothing if syncs in {"full", "extra"} else anything
    elif syncs in {"normal", "full"}:
        # A journal that was deleted, and is there again because the folder was not synced, undoes the last commit.
        power = Loss(is_known=False)
    else:
        power = nothing if syncs == "extra" else anything
    return Guarantees(server=server, crash=nothing, power=power)


_DERIVE = {
    Protocol.REDIS: redis_guarantees,
    Protocol.POSTGRES: postgres_guarantees,
    Protocol.SQLITE: sqlite_guarantees,
}
