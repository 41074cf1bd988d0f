"""Every setting of soak, in one tree: flags over environment (`SOAK_LOAD__USERS=10`) over `soak.toml`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, model_validator

from soak import cron, quiet_hours
from soak.duration import parse_seconds
from soak.hosts import hosts_of, is_cluster, is_sentinel, parse_cluster, parse_sentinel
from soak.servers import kinds, versions
from soak.sqlite_address import parse_sqlite
from soak.thresholds import Limits, check_limits

Seconds = Annotated[float, BeforeValidator(parse_seconds)]
PositiveSeconds = Annotated[Seconds, Field(gt=0)]


def _none_is_zero(text: str | float) -> str | float:
    return 0.0 if isinstance(text, str) and text.strip().lower() == "none" else text


SecondsOrNone = Annotated[Seconds, BeforeValidator(_none_is_zero)]
"""A time, where none (or 0) switches something off."""


def _redis_address(address: SecretStr) -> SecretStr:
    checked = _address(address, kinds.REDIS.schemes)
    url = address.get_secret_value()
    if is_sentinel(url):
        parse_sentinel(url)
    elif is_cluster(url):
        parse_cluster(url)
    return checked


def _postgres_address(address: SecretStr) -> SecretStr:
    return _address(address, kinds.POSTGRES.schemes)


def _http_address(address: SecretStr) -> SecretStr:
    return _address(address, kinds.HTTP.schemes)


def _sqlite_file(address: SecretStr) -> SecretStr:
    return SecretStr(parse_sqlite(address.get_secret_value()).url)


def _address(address: SecretStr, schemes: tuple[str, ...]) -> SecretStr:
    try:
        parts = urlsplit(address.get_secret_value())
        hosts = hosts_of(address.get_secret_value())
    except ValueError as error:
        raise ValueError(f"is not an address ({error}); write one like {schemes[0]}://host:port") from None
    if parts.scheme not in schemes or not (hosts or parts.scheme == "unix"):
        raise ValueError(f"is not an address of this kind; write one like {schemes[0]}://host:port")
    return address


def _readable_cron(text: str) -> str:
    cron.parse(text)
    return text


def _readable_quiet_hours(text: str) -> str:
    quiet_hours.parse(text)
    return text


CronText = Annotated[str, AfterValidator(_readable_cron)]
QuietHoursText = Annotated[str, AfterValidator(_readable_quiet_hours)]

RedisAddress = Annotated[SecretStr, AfterValidator(_redis_address)]
LedgerAddress = Annotated[SecretStr, AfterValidator(_redis_address)]
PostgresAddress = Annotated[SecretStr, AfterValidator(_postgres_address)]
HttpServiceAddress = Annotated[SecretStr, AfterValidator(_http_address)]
SqliteFile = Annotated[SecretStr, AfterValidator(_sqlite_file)]


def _login(login: SecretStr) -> SecretStr:
    user, separator, _ = login.get_secret_value().partition(":")
    if not user or not separator:
        raise ValueError("is not a login; write user:password")
    return login


Login = Annotated[SecretStr, AfterValidator(_login)]


def _redis_version(text: str | float) -> str:
    return versions.redis_version(str(text)).name


def _postgres_version(text: str | float) -> str:
    return versions.postgres_version(str(text)).name


RedisVersion = Annotated[str, BeforeValidator(_redis_version)]
PostgresVersion = Annotated[str, BeforeValidator(_postgres_version)]


class Section(BaseModel):
    """A part of the tree; a key that is not in it is an error, not a silent default."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class LoadSettings(Section):
    """What the simulated chat participants do."""

    users: int = Field(default=50, ge=1, description="Simulated participants.")
    spawn_rate: float = Field(default=50.0, gt=0, description="Participants started per second.")
    processes: int = Field(default=1, ge=1, le=256, description="Locust processes on this machine.")
    think: Seconds = Field(default=1.0, description="Mean pause between two turns of a participant.")
    context_messages: int = Field(default=10, ge=1, le=1000, description="Messages read as context before each turn.")
    session_messages: int = Field(
        default=60, ge=1, le=100_000, description="Median length of a session; some are 30 times longer."
    )
    writers_per_session: int = Field(default=4, ge=1, le=64, description="Participants that share a shared session.")
    shared_share: float = Field(default=0.1, ge=0, le=1, description="Share of sessions that have several writers.")
    recall_share: float = Field(default=0.02, ge=0, le=1, description="Chance per turn to recall an earlier session.")
    forget_share: float = Field(
        default=0.1, ge=0, le=1, description="Share of sessions that are forgotten at their end."
    )
    reread_share: float = Field(default=0.1, ge=0, le=1, description="Chance to read again right after an append.")
    search_share: float = Field(
        default=0.2, ge=0, le=1, description="Chance per turn to search for an earlier message, in stores that can."
    )
    similar_share: float = Field(
        default=0.125,
        ge=0,
        le=1,
        description="Share of sessions in pairs whose names differ only in case, a blank, a slash or the like.",
    )
    mix: Literal["chat", "short", "long", "hard"] = Field(default="chat", description="Texts of the messages.")
    drain: Seconds = Field(default=10.0, description="Time for participants to finish their turn at the end.")
    browser_users: int = Field(
        default=0, ge=0, le=16, description="Further participants, who type into a chat page in a real Chromium."
    )
    browser: Path | None = Field(default=None, description="Path of the Chromium for them; none: the one found here.")


class RedisStoreSettings(Section):
    """How the Redis stores use a group of servers."""

    read_from: Literal["primary", "replica"] = Field(
        default="primary", description="Which servers are read, with Sentinel or Cluster; writes go to the primary."
    )
    wait_replicas: int = Field(
        default=0, ge=0, le=16, description="Replicas that must have a write before it counts as done (WAIT)."
    )
    wait_aof: bool = Field(
        default=False,
        description="Whether a write counts as done only when the server says that it is on disk (WAITAOF).",
    )


class StoreSettings(Section):
    """The memory under test."""

    names: list[str] = Field(
        default=["redis-list", "postgres"],
        min_length=1,
        description="Stores, by name or package.module:Class.",
    )
    timeout: Seconds = Field(default=5.0, gt=0, description="Limit for every single operation.")
    connections: int = Field(default=16, ge=1, le=1024, description="Connections per process and server.")
    ttl: PositiveSeconds | None = Field(default=None, description="Time to live for stores that expire sessions.")
    redis: RedisStoreSettings = RedisStoreSettings()
    namespace: str | None = Field(
        default=None, pattern=r"^[a-z][a-z0-9_]{0,39}$", description="Prefix of everything written."
    )


class ServerSettings(Section):
    """Addresses of servers that already run, and versions of those that are not given and so are started."""

    redis: RedisAddress | None = Field(
        default=None,
        description="redis://[:password@]host:port/db under test, or redis+sentinel://…/name, redis+cluster://…",
    )
    postgres: PostgresAddress | None = Field(
        default=None, description="postgresql://user[:password@]host:port/database under test."
    )
    postgres_replica: PostgresAddress | None = Field(
        default=None, description="A streaming replica of servers.postgres."
    )
    pgbouncer: kinds.PoolMode | None = Field(
        default=None, description="A pgbouncer that is started before PostgreSQL: transaction or session."
    )
    chroma: HttpServiceAddress | None = Field(default=None, description="http://host:port of a Chroma server.")
    http: HttpServiceAddress | None = Field(default=None, description="https://host/path of a memory behind HTTP.")
    http_token: SecretStr | None = Field(default=None, description="Bearer token for servers.http.")
    sqlite: SqliteFile | None = Field(
        default=None, description="A SQLite file: its path, or sqlite:///folder/file.db?synchronous=normal."
    )
    sqlite_synchronous: Literal["off", "normal", "full", "extra"] = Field(
        default="full", description="PRAGMA synchronous of writers to the SQLite file that soak makes."
    )
    redis_version: RedisVersion = Field(
        default=versions.VALKEY.name, description="Redis or Valkey to start: 6.2, 7.0, 7.4, valkey-9 …"
    )
    redis_topology: kinds.RedisTopology = Field(
        default=kinds.RedisTopology.SINGLE,
        description="Topology of the started Redis: single, sentinel (1 + 2 and three sentinels) or cluster (3 + 3).",
    )
    postgres_version: PostgresVersion = Field(
        default=versions.POSTGRES.name, description="PostgreSQL to start: 16, 18 …"
    )
    postgres_topology: kinds.PostgresTopology = Field(
        default=kinds.PostgresTopology.SINGLE,
        description="Topology of the started PostgreSQL: single, sync-standby (1 + 1) or patroni (3, and three etcd).",
    )
    postgres_replication: kinds.Replication = Field(
        default=kinds.Replication.AUTO,
        description="What commits of that group wait for: async (nobody), sync (a standby has them) or remote_apply "
        "(a standby shows them). auto: sync for sync-standby, async for patroni.",
    )


class ContainerSettings(Section):
    """Names of the Docker containers of given servers: only these may be broken through Docker."""

    redis: str | None = Field(default=None, min_length=1, description="The container of servers.redis.")
    postgres: str | None = Field(default=None, min_length=1, description="The container of servers.postgres.")
    postgres_replica: str | None = Field(
        default=None, min_length=1, description="The container of servers.postgres_replica."
    )


WorkloadName = Annotated[
    str, Field(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?/(statefulset|deployment)/[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
]


class WorkloadSettings(Section):
    """Kubernetes workloads of given servers: only these may be broken through the Kubernetes API."""

    redis: WorkloadName | None = Field(default=None, description="Of servers.redis: NAMESPACE/statefulset/NAME.")
    postgres: WorkloadName | None = Field(default=None, description="Of servers.postgres.")
    postgres_replica: WorkloadName | None = Field(default=None, description="Of servers.postgres_replica.")


class TestbedSettings(Section):
    """How soak starts servers that are not given, and what may happen to given ones."""

    kind: Literal["local", "docker"] = Field(
        default="local", description="Start servers as local processes, or in Docker."
    )
    subject: str | None = Field(
        default=None, min_length=1, description="The memory service to start for the store http: 'soak analyse --list'."
    )
    redis_binary: Path | None = Field(default=None, description="Path of the redis-server or valkey-server to start.")
    redis_options: dict[str, str] = Field(
        default={}, description="Settings of the started Redis: appendonly, min-replicas-to-write …"
    )
    redis_image: str | None = Field(default=None, description="Image in place of the official one of the version.")
    postgres_image: str | None = Field(default=None, description="Image in place of the official one of the version.")
    redis_upgrade: RedisVersion | None = Field(
        default=None, description="Version that the fault upgrade brings Redis to; none: the next one found here."
    )
    redis_upgrade_binary: Path | None = Field(default=None, description="Path of the program of that version.")
    redis_upgrade_image: str | None = Field(default=None, description="The image of that version.")
    memory: str = Field(
        default="1g", pattern=r"^[1-9][0-9]*[kmg]$", description="Memory of each container, such as 512m."
    )
    cpus: float = Field(default=1.0, gt=0, le=1024, description="Processors of each container.")
    proxied: bool = Field(default=False, description="Put a proxy in front of each started server, for network faults.")
    power_cuts: bool = Field(default=False, description="Start servers so that their power can be cut.")
    power_cut: Literal["auto", "shim", "filesystem"] = Field(
        default="auto",
        description="How power is cut: a shim under processes, or a file system for each server (needs root).",
    )
    disk: str = Field(
        default="4g", pattern=r"^[1-9][0-9]*[mg]$", description="Largest size of such a file system, such as 512m."
    )
    proxy_host: str = Field(
        default="127.0.0.1", description="Address that proxies in front of given servers listen on; 0.0.0.0: all."
    )
    allow_faults: list[str] = Field(default=[], description="Faults that may happen to given servers.")
    patroni: list[HttpServiceAddress] = Field(
        default=[], description="Where Patroni of a given PostgreSQL answers; none: http://HOST:8008 of each host."
    )
    restart_command: str | None = Field(
        default=None, description="Command that restarts a given server, without a shell; {server} stands for its kind."
    )
    restart_timeout: PositiveSeconds = Field(default=300.0, description="How long that command may take.")
    containers: ContainerSettings = ContainerSettings()
    workloads: WorkloadSettings = WorkloadSettings()
    kubeconfig: Path | None = Field(
        default=None,
        description="Account that breaks workloads; none: the service account of the pod that soak runs in.",
    )


class LedgerSettings(Section):
    """Where the independent record lives: never on a server under test."""

    url: LedgerAddress | None = Field(
        default=None,
        description="redis://…, redis+sentinel://… or redis+cluster://…, not under test; none: one is started here.",
    )
    flush: Seconds = Field(default=0.02, gt=0, description="How long outcomes may wait to be written together.")
    bytes_max: int = Field(
        default=256 * 1024 * 1024,
        ge=1024 * 1024,
        description="Size of the ledger, in bytes, at which writers wait for the verifier.",
    )
    batches_max: int = Field(
        default=200_000, ge=100, description="Deprecated, use bytes_max: batches in the ledger at which writers wait."
    )
    lease_messages: int = Field(default=32, ge=1, le=10_000, description="Sequence numbers leased in one intent.")


class ClockSettings(Section):
    """How well the clocks of several machines have to be known. On one machine nothing depends on it."""

    error_max: PositiveSeconds = Field(
        default=0.25, le=10.0, description="Hosts whose clock is known less exactly than this are not judged."
    )


class VerifierSettings(Section):
    """How closely the verifier watches the memory, and with which logins."""

    redis_login: Login | None = Field(
        default=None, description="user:password that the verifier reads Redis with; none: the load's."
    )
    postgres_login: Login | None = Field(
        default=None, description="user:password that it reads PostgreSQL with; none: the load's."
    )

    settle: Seconds = Field(default=2.0, description="Wait before a suspect is read again.")
    hot_interval: Seconds = Field(
        default=2.0, gt=0, description="How often sessions with new acknowledgements are read."
    )
    coverage: Seconds = Field(default=60.0, gt=0, description="Every live session is read in full within this time.")
    messages_per_second: int = Field(default=100_000, ge=1, description="Reading budget, in messages.")
    concurrency: int = Field(default=32, ge=1, le=1024, description="Sessions read at the same time, per store.")
    recall_ages: list[Seconds] = Field(
        default=[60.0, 3600.0, 86_400.0, 259_200.0], description="Ages at which closed sessions are read again."
    )
    closed_sessions_max: int = Field(
        default=2_000, ge=0, description="Closed sessions kept beyond the first recall age, per store, at most."
    )
    kept_share: float = Field(
        default=0.1, ge=0, le=1, description="Share of closed sessions kept to the last age when there are too many."
    )
    canary: SecondsOrNone = Field(
        default=60.0,
        description="Interval of the self-check (canary), a planted error to be detected; none: off.",
    )
    canary_deadline: PositiveSeconds = Field(
        default=30.0, description="Time to report it, beyond what settling and staleness take."
    )
    checkpoint: Seconds = Field(
        default=2.0, gt=0, description="How often the state is saved; a large one less often, up to every 5 seconds."
    )
    evidence_max: int = Field(
        default=1_000, ge=1, description="Full evidence files per kind; further ones are only counted."
    )
    history_sessions: int = Field(
        default=4, ge=0, le=1_000, description="Sessions per store recorded in full for 'soak export'."
    )
    minimum_verified: int = Field(default=1, ge=0, description="Fewer verified messages make the run inconclusive.")
    unread_max: int = Field(
        default=200_000, ge=1_000, description="Acknowledged messages not yet read at which the load is held back."
    )
    unverified_age_max: Seconds = Field(
        default=30.0,
        gt=0,
        description="An acknowledged message that stays unverified for longer makes the run inconclusive.",
    )
    shards: int = Field(default=1, ge=1, le=64, description="Verifiers that share the run; it can grow at a resume.")
    shards_elsewhere: int = Field(
        default=0,
        ge=0,
        le=63,
        description="How many of them are started elsewhere: soak verify --shard I/N, the last ones.",
    )
    ttl_epsilon: Seconds = Field(default=1.0, ge=0, description="Tolerance around every expiry.")
    drain: Seconds = Field(default=60.0, gt=0, description="Time for the last sweep.")

    @model_validator(mode="after")
    def _first_is_here(self) -> VerifierSettings:
        if self.shards_elsewhere >= self.shards:
            raise ValueError("shards_elsewhere must be less than shards: the first verifier is started here")
        return self


class FaultRule(Section):
    """Faults that happen to one server again and again."""

    fault: str | None = Field(default=None, description="The fault; 'soak faults' lists them.")
    faults: dict[str, Annotated[float, Field(gt=0)]] | None = Field(
        default=None, min_length=1, description="Several faults and their weights, in place of one."
    )
    target: str = Field(description="The server: redis, postgres, postgres-replica, chroma, http or sqlite.")
    every: PositiveSeconds | None = Field(default=None, description="Interval between two.")
    cron: CronText | None = Field(default=None, description="Cron expression in local time, in place of every.")
    jitter: Seconds = Field(default=0.0, description="Random delay of each, up to this.")
    hold: Seconds = Field(default=5.0, le=86_400, description="How long the fault lasts.")
    parameters: dict[str, str | float] = Field(
        default={}, description='Parameters of the fault: {delay = "500ms"}; "soak faults show NAME" lists them.'
    )

    @model_validator(mode="after")
    def _one_of_each(self) -> FaultRule:
        if (self.fault is None) == (self.faults is None):
            raise ValueError("set exactly one of fault = NAME and faults = {NAME = WEIGHT}")
        if (self.every is None) == (self.cron is None):
            raise ValueError("set exactly one of every = TIME and cron = EXPRESSION")
        if self.parameters and self.fault is None:
            raise ValueError("parameters belong to one fault; give each fault a rule of its own, with fault = NAME")
        if self.every is not None and self.jitter > self.every:
            raise ValueError("jitter is longer than every; make it shorter, or they would overtake each other")
        return self


class FaultSettings(Section):
    """What is broken on purpose while it runs, and when."""

    preset: Literal["none", "auto", "gentle", "recovery", "failover", "chaos"] = Field(
        default="none",
        description="A named set of rules. auto: recovery on servers that are started here, unless there are rules.",
    )
    every: PositiveSeconds | None = Field(
        default=None, description="Interval between the faults of a preset on each server."
    )
    rules: list[FaultRule] = Field(default=[], max_length=100, description="Rules of your own: [[faults.rules]].")
    quiet_hours: list[QuietHoursText] = Field(
        default=[], max_length=24, description="Times of the day without faults, such as 22:00-06:00."
    )
    concurrent_max: int = Field(default=1, ge=1, le=16, description="Most faults at the same time.")
    healthy_min: Seconds | None = Field(
        default=None,
        description="Time without any fault before the next; none: a quarter of the interval, at most 30s.",
    )
    seed: int | None = Field(default=None, ge=0, lt=2**63, description="Seed of the fault plan; none: the run's seed.")
    allow_by_hand: Literal["none", "simple", "all"] = Field(
        default="simple", description="What 'soak inject' may do; all: with proxies and power cuts, which cost speed."
    )
    abort_after_violations: int | None = Field(default=None, ge=1, description="End the run after so many violations.")
    recovery_max: PositiveSeconds | None = Field(
        default=60.0,
        description="End the run if a server does not serve again within this time after a fault. "
        "For a group, the time that its settings allow for a failover is added.",
    )


class HttpSettings(Section):
    """The daemon's HTTP server: status page, metrics, health."""

    host: str = Field(default="127.0.0.1", description="Address to listen on.")
    port: int = Field(default=9464, ge=0, le=65535, description="Port to listen on; 0: any free one.")
    runbook: str | None = Field(
        default=None,
        pattern=r"^https?://[!-~]+$",
        description="Address of your runbook, to which /runbook redirects; none: the built-in one.",
    )


class OtlpSettings(Section):
    """Metrics sent by OTLP over HTTP, in addition to /metrics; needs soak[otlp]."""

    endpoint: HttpServiceAddress | None = Field(
        default=None, description="Where metrics are sent: http://collector:4318/v1/metrics; none: nowhere."
    )
    interval: Annotated[Seconds, Field(ge=1)] = Field(default=15.0, description="How often they are sent.")
    token: SecretStr | None = Field(default=None, description="Bearer token for the endpoint.")


class SupervisionSettings(Section):
    """How the daemon treats a load or a verifier that dies."""

    backoff: Seconds = Field(
        default=0.5,
        gt=0,
        description="Pause before the second restart in the window; it doubles each time.",
    )
    backoff_max: Seconds = Field(default=15.0, gt=0, description="Longest pause before a restart.")
    restarts_max: int = Field(default=8, ge=0, description="Restarts within the window after which the run ends.")
    window: Seconds = Field(default=300.0, gt=0, description="Restarts longer ago than this no longer count.")


class LogSettings(Section):
    """What is logged. 'auto' writes the daemon's log only into the data folder."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Least severe level that is logged."
    )
    format: Literal["auto", "console", "json"] = Field(
        default="auto", description="Format of the log on standard error."
    )


class ReportSettings(Section):
    """Reports at the end of the run."""

    step_summary: bool = Field(
        default=True, description="'soak check' adds its report to the summary of a GitHub Actions step."
    )


class ContractSettings(BaseModel):
    """What the stores must keep: clauses by store, and the least that is accepted where none is declared."""

    model_config = ConfigDict(extra="allow", frozen=True)
    __pydantic_extra__: dict[str, dict[str, object]]

    floor: Seconds = Field(
        default=2.0,
        description="Longest tail that a server as configured may lose; a server that may lose more is refused.",
    )

    @property
    def stores(self) -> dict[str, dict[str, object]]:
        """The declared clauses by store."""
        return self.__pydantic_extra__


class SoakSettings(Section):
    """The whole tree. How it is read from flags, environment and file is in `soak.configuration`."""

    data_dir: Path = Field(
        default=Path(".soak"), description="Where servers, evidence and reports of this run are kept."
    )
    duration: PositiveSeconds | None = Field(default=None, description="End the run after this time.")
    seed: int | None = Field(default=None, ge=0, lt=2**63, description="Makes texts and choices reproducible.")
    load: LoadSettings = LoadSettings()
    stores: StoreSettings = StoreSettings()
    servers: ServerSettings = ServerSettings()
    testbed: TestbedSettings = TestbedSettings()
    ledger: LedgerSettings = LedgerSettings()
    clock: ClockSettings = ClockSettings()
    verifier: VerifierSettings = VerifierSettings()
    faults: FaultSettings = FaultSettings()
    http: HttpSettings = HttpSettings()
    otlp: OtlpSettings = OtlpSettings()
    supervision: SupervisionSettings = SupervisionSettings()
    log: LogSettings = LogSettings()
    report: ReportSettings = ReportSettings()
    thresholds: Annotated[Limits, BeforeValidator(check_limits)] = Field(
        default={},
        description='Limits of the run: append_p99 = "50ms", errors = "1%"; by store: [thresholds.STORE].',
    )
    contract: ContractSettings = Field(
        default=ContractSettings(),
        description="Promises by store, in place of the default ones; preset = NAME sets several at once.",
    )
    contract_mismatch: Literal["refuse", "allow"] = Field(
        default="refuse", description="What to do when a server as configured cannot keep what is promised."
    )
