"""The cells of the matrix: configurations by faults, and how one of them is made."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import NamedTuple, get_args

import msgspec

from soak.checker.faults import FaultWindow
from soak.checker.outcome import Attempt, Outcome
from soak.checker.telemetry import ServerSample
from soak.checker.text import MessageGenerator
from soak.clock import now_us
from soak.contracts.presets import PRESETS
from soak.errors import ServerUnreachableError, SoakError, UsageError
from soak.faults import catalogue
from soak.faults.fault import Fault, FaultUnavailableError
from soak.scenarios.recovery_matrix.judgement import Reads, RecoveryCell, judge, promise_of
from soak.scenarios.recovery_matrix.writers import SESSIONS, Writers, first_success, read_back, session_name
from soak.scenarios.scenario import BedName, PostgresName, RedisName, Scenario, ScenarioFault, ServerSetup
from soak.scenarios.servers import ScenarioServers
from soak.scenarios.terminal import chosen
from soak.servers.inspect import inspect
from soak.servers.kinds import POSTGRES, REDIS
from soak.servers.power_cut import PowerCutWay
from soak.servers.servers import Servers
from soak.stores import registry
from soak.stores.protocol import MemoryStore, StoreContext
from soak.stores.registry import open_store
from soak.tasks import end_tasks


class ServerConfiguration(msgspec.Struct, frozen=True, kw_only=True):
    """One way to run a server, and the store whose memory it keeps."""

    name: str
    server: str
    """The kind of server the options are for: `redis` or `postgres`."""
    store: str
    options: dict[str, str]
    description: str
    load_seconds_min: float = 0.0
    """Less load than this would end before the configuration has done what it is there for."""


def _redis(name: str, description: str, *, load_seconds_min: float = 0.0, **options: str) -> ServerConfiguration:
    return ServerConfiguration(
        name=name,
        server=REDIS.name,
        store="redis-list",
        options=options,
        description=description,
        load_seconds_min=load_seconds_min,
    )


def _postgres(name: str, description: str, **options: str) -> ServerConfiguration:
    return ServerConfiguration(
        name=name, server=POSTGRES.name, store="postgres", options=options, description=description
    )


_SNAPSHOT_SECONDS = 7.0
"""The first snapshot of `save 5 1` is begun five seconds after the start, and there should be something after it."""

CONFIGURATIONS: dict[str, ServerConfiguration] = {
    configuration.name: configuration
    for configuration in (
        _redis("aof-everysec", "AOF, synced every second", appendonly="yes", appendfsync="everysec", save=""),
        _redis("aof-always", "AOF, synced before each reply", appendonly="yes", appendfsync="always", save=""),
        _redis("aof-no", "AOF, synced when the kernel likes", appendonly="yes", appendfsync="no", save=""),
        _redis("rdb-5", "RDB, save 5 1", appendonly="no", save="5 1", load_seconds_min=_SNAPSHOT_SECONDS),
        _redis("rdb-900", "RDB, save 900 1", appendonly="no", save="900 1"),
        _redis(
            "aof-rdb",
            "AOF everysec and RDB save 5 1",
            appendonly="yes",
            appendfsync="everysec",
            save="5 1",
            load_seconds_min=_SNAPSHOT_SECONDS,
        ),
        _redis("none", "neither AOF nor RDB", appendonly="no", save=""),
        _postgres("postgres-sync", "synchronous_commit on", synchronous_commit="on"),
        _postgres("postgres-async", "synchronous_commit off", synchronous_commit="off"),
    )
}


SIDE_BY_SIDE = 3
"""On two cores: one cell waits where another one works."""
CELL_SECONDS_MAX = 150.0
"""For one try at a cell, besides its load."""
FAULTS = ("restart", "crash", "shutdown_nosave", "power_cut")
"""The faults a server has to recover its data from, the mildest first."""

POWER_CUTS: tuple[PowerCutWay, ...] = get_args(PowerCutWay)
BEDS: tuple[BedName, ...] = get_args(BedName)
REDISES: tuple[RedisName, ...] = get_args(RedisName)
POSTGRESES: tuple[PostgresName, ...] = get_args(PostgresName)


class RecoveryExpectation(msgspec.Struct, frozen=True, kw_only=True):
    """What the loss is compared with: what the server promises as configured, or a preset that it is held to."""

    configuration: str
    preset: str | None = None


class RecoveryScenario(Scenario[float, RecoveryExpectation, RecoveryCell], frozen=True, kw_only=True):
    """One cell: a server so configured is written to, broken, brought back and read, and what is gone is judged.

    Its load is the time in seconds that writers have before the fault.
    """

    result = RecoveryCell

    fault: ScenarioFault

    async def run(self, folder: Path) -> RecoveryCell:
        return await _measure(self, folder)

    def not_made(self, reason: str, *, is_unreachable: bool = False) -> RecoveryCell:
        return RecoveryCell(
            configuration=self.expectation.configuration,
            fault=self.fault.fault,
            not_made=reason,
            is_unreachable=is_unreachable,
        )


def plan_cells(
    configurations: Sequence[str],
    faults: Sequence[str],
    servers: ServerSetup,
    load_seconds: float,
    preset: str | None = None,
) -> list[RecoveryScenario]:
    """Return the cells of these configurations and faults, all where none are named; raises `UsageError`."""
    names = chosen("configuration", configurations, CONFIGURATIONS)
    faults = chosen("fault of the matrix", faults, FAULTS)
    if preset is not None:
        chosen("preset", [preset], PRESETS)
    cells = [
        _cell(CONFIGURATIONS[name], fault, servers, load_seconds, preset)
        for name in names
        for fault in faults
        if CONFIGURATIONS[name].server in catalogue.ALL[fault].targets
    ]
    if not cells:
        raise UsageError(f"{', '.join(faults)} cannot happen to {', '.join(names)}; choose another fault")
    return cells


def _cell(
    configuration: ServerConfiguration, fault: str, servers: ServerSetup, load_seconds: float, preset: str | None
) -> RecoveryScenario:
    options = "redis_options" if configuration.server == REDIS.name else "postgres_options"
    return RecoveryScenario(
        name=f"{configuration.name} × {fault}",  # noqa: RUF001  it is a product
        stores=(configuration.store,),
        servers=msgspec.structs.replace(servers, **{options: configuration.options}),
        load=max(load_seconds, configuration.load_seconds_min),
        fault=ScenarioFault(fault=fault, target=configuration.server),
        expectation=RecoveryExpectation(configuration=configuration.name, preset=preset),
        seconds_max=load_seconds + CELL_SECONDS_MAX,
        weight=configuration.load_seconds_min,
    )


# -- one cell --

ACKNOWLEDGED_MIN = 100
"""A server that was hardly written to proves nothing."""
LATE_SECONDS_MAX = 30.0
"""So much longer may it take to be written to, where the machine has other work to do."""
OPERATION_SECONDS_MAX = 10.0
CONNECTIONS_MAX = 16
RECOVERY_SECONDS_MAX = 60.0
SETTLE_SECONDS = 0.5
"""What is missing is looked for once more after this time."""
SETTLE_SLACK = 1.1
_POLL_SECONDS = 0.05


class _Broken(NamedTuple):
    """What is known of the fault itself."""

    window: FaultWindow
    recovered: int
    attempts: list[Attempt]


async def _measure(scenario: RecoveryScenario, folder: Path) -> RecoveryCell:
    author = MessageGenerator("m" + secrets.token_hex(4), secrets.randbits(63))
    fault, target = catalogue.ALL[scenario.fault.fault], scenario.fault.target
    [store] = scenario.stores
    servers = ScenarioServers(scenario.servers, folder, [fault.name])
    async with servers.started([target]) as urls:
        context = StoreContext(
            servers=urls,
            namespace="matrix",
            timeout_seconds=OPERATION_SECONDS_MAX,
            connections_max=CONNECTIONS_MAX,
        )
        reason = fault.unavailable(servers.bed, target)
        if reason is not None:
            raise FaultUnavailableError(reason)
        sample = await inspect(target, urls[target], timeout_seconds=OPERATION_SECONDS_MAX)
        own = registry.find(store).contract_for(context)
        promise = promise_of(sample, own, scenario.expectation.preset)
        broken = await _write_and_break(scenario, servers.bed, context, author)
        rounds = await _read(store, context, broken.attempts)
    if servers.deaths:
        raise SoakError(f"the server died by itself, not by the fault ({servers.deaths[0].detail})")
    return RecoveryCell(
        configuration=scenario.expectation.configuration,
        fault=fault.name,
        server=_title(sample, scenario.servers),
        origin=promise.origin,
        measured=judge(
            _by_session(broken.attempts), rounds, broken.window, promise.contract, author, int(SETTLE_SECONDS * 1e6)
        ),
        recovery_seconds=(broken.recovered - broken.window.started) / 1e6,
        repairs=servers.repairs,
    )


async def _write_and_break(
    scenario: RecoveryScenario, bed: Servers, context: StoreContext, author: MessageGenerator
) -> _Broken:
    fault, target = catalogue.ALL[scenario.fault.fault], scenario.fault.target
    [store] = scenario.stores
    async with _opened(store, context) as memory, _opened(store, context) as probe:
        writers = Writers(memory, author)
        writers.begin()
        try:
            await _load(writers, scenario.load)
            started = now_us()
            await fault.inject(bed, target)
        finally:
            await writers.leave()
        # It is down and its last reply is read: whatever is acknowledged from here on is the word of the next one.
        ended = now_us()
        # Started again at once, as a supervisor would.
        recovered = await _recover(bed, fault, target, probe, author)
    window = FaultWindow(
        fault=fault.name,
        kind=fault.kind,
        target=target,
        excuses=fault.excuses,
        promotes=fault.promotes,
        serves=fault.serves,
        down=fault.down,
        started=started,
        ended=ended,
    )
    return _Broken(window, recovered, writers.attempts)


async def _load(writers: Writers, seconds: float) -> None:
    begun = now_us()
    acknowledged = 0
    while (lasted := (now_us() - begun) / 1e6) < seconds or acknowledged < ACKNOWLEDGED_MIN:
        if lasted >= seconds + LATE_SECONDS_MAX:
            raise SoakError(
                f"only {acknowledged} messages were acknowledged in {lasted:.0f} s; try it on a machine with less to do"
            )
        await asyncio.sleep(_POLL_SECONDS)
        writers.check()
        if acknowledged < ACKNOWLEDGED_MIN:
            acknowledged = sum(1 for attempt in writers.attempts if attempt.outcome == Outcome.OK)


async def _recover(bed: Servers, fault: Fault, server: str, probe: MemoryStore, author: MessageGenerator) -> int:
    try:
        async with asyncio.timeout(RECOVERY_SECONDS_MAX):
            probing = asyncio.create_task(first_success(probe, author))
            try:
                await fault.heal(bed, server)
                return await probing
            finally:
                await end_tasks([probing])
    except TimeoutError:
        raise ServerUnreachableError(
            f"{server} did not serve again within {RECOVERY_SECONDS_MAX:.0f} s after the fault"
        ) from None


async def _read(store: str, context: StoreContext, attempts: list[Attempt]) -> list[Reads]:
    """Read everything over new connections; if something is missing, a second read after a while is the last word."""
    async with _opened(store, context) as memory:
        first = await read_back(memory, attempts)
        await asyncio.sleep(SETTLE_SECONDS * SETTLE_SLACK)
        return [first, await read_back(memory, attempts)]


def _by_session(attempts: list[Attempt]) -> dict[str, list[Attempt]]:
    sessions: dict[str, list[Attempt]] = {session_name(number): [] for number in range(SESSIONS)}
    for attempt in attempts:
        sessions[session_name(attempt.session)].append(attempt)
    return sessions


@contextlib.asynccontextmanager
async def _opened(store: str, context: StoreContext) -> AsyncIterator[MemoryStore]:
    memory = await open_store(store, context)
    try:
        yield memory
    finally:
        await memory.close()


def _title(sample: ServerSample, servers: ServerSetup) -> str:
    if sample.server == POSTGRES.name:
        return f"PostgreSQL {sample.telemetry.get('server_version', servers.postgres)}"
    return f"{'Valkey' if servers.redis == 'valkey' else 'Redis'} {sample.telemetry.get('version', servers.redis)}"
