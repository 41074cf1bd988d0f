"""One cell: a server so configured is written to, broken, brought back and read, and what is gone is judged."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from soak.checker.faults import FaultWindow
from soak.checker.outcome import Attempt, Outcome
from soak.checker.telemetry import ServerSample
from soak.checker.text import MessageGenerator
from soak.clock import now_us
from soak.errors import ServerUnreachableError, SoakError
from soak.faults import catalogue
from soak.faults.fault import Fault, FaultUnavailableError
from soak.scenarios.recovery_matrix.judgement import Reads, judge, promise_of
from soak.scenarios.recovery_matrix.scenario import (
    CONFIGURATIONS,
    RecoveryCell,
    RecoveryScenario,
    ServerConfiguration,
    not_made,
    worst_of,
)
from soak.scenarios.recovery_matrix.writers import SESSIONS, Writers, first_success, read_back, session_name
from soak.scenarios.runner import ScenarioKind, run_all
from soak.scenarios.servers import ScenarioServers
from soak.scenarios.terminal import ScenarioProgress
from soak.servers.inspect import inspect
from soak.servers.kinds import POSTGRES, REDIS
from soak.servers.servers import Servers
from soak.stores import registry
from soak.stores.protocol import MemoryStore, StoreContext
from soak.stores.registry import open_store
from soak.tasks import end_tasks

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


async def measure(plan: RecoveryScenario, folder: Path) -> RecoveryCell:
    """Make one cell; raises `SoakError` where it cannot be made."""
    configuration = CONFIGURATIONS[plan.configuration]
    fault = catalogue.ALL[plan.fault]
    author = MessageGenerator("m" + secrets.token_hex(4), secrets.randbits(63))
    is_redis = configuration.server == REDIS.name
    options = {"redis_options" if is_redis else "postgres_options": configuration.options}
    servers = ScenarioServers(msgspec.structs.replace(plan, **options), folder, [plan.fault])
    bed = servers.bed
    async with servers.started([configuration.server]) as urls:
        context = StoreContext(
            servers=urls,
            namespace="matrix",
            timeout_seconds=OPERATION_SECONDS_MAX,
            connections_max=CONNECTIONS_MAX,
        )
        reason = fault.unavailable(bed, configuration.server)
        if reason is not None:
            raise FaultUnavailableError(reason)
        url = context.servers[configuration.server]
        sample = await inspect(configuration.server, url, timeout_seconds=OPERATION_SECONDS_MAX)
        promise = promise_of(sample, registry.find(configuration.store).contract_for(context), plan.preset)
        seconds = max(plan.load_seconds, configuration.load_seconds_min)
        broken = await _write_and_break(bed, configuration, fault, context, author, seconds)
        rounds = await _read(configuration, context, broken.attempts)
    if servers.deaths:
        raise SoakError(f"the server died by itself, not by the fault ({servers.deaths[0].detail})")
    return RecoveryCell(
        configuration=plan.configuration,
        fault=plan.fault,
        server=_title(sample, plan),
        origin=promise.origin,
        measured=judge(
            _by_session(broken.attempts), rounds, broken.window, promise.contract, author, int(SETTLE_SECONDS * 1e6)
        ),
        recovery_seconds=(broken.recovered - broken.window.started) / 1e6,
        repairs=servers.repairs,
    )


async def _write_and_break(
    bed: Servers,
    configuration: ServerConfiguration,
    fault: Fault,
    context: StoreContext,
    author: MessageGenerator,
    load_seconds: float,
) -> _Broken:
    async with _opened(configuration, context) as memory, _opened(configuration, context) as probe:
        writers = Writers(memory, author)
        writers.begin()
        try:
            await _load(writers, load_seconds)
            started = now_us()
            await fault.inject(bed, configuration.server)
        finally:
            await writers.leave()
        # It is down and its last reply is read: whatever is acknowledged from here on is the word of the next one.
        ended = now_us()
        # Started again at once, as a supervisor would.
        recovered = await _recover(bed, fault, configuration.server, probe, author)
    window = FaultWindow(
        fault=fault.name,
        kind=fault.kind,
        target=configuration.server,
        excuses=fault.excuses,
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


async def _read(configuration: ServerConfiguration, context: StoreContext, attempts: list[Attempt]) -> list[Reads]:
    """Read everything over new connections; if something is missing, a second read after a while is the last word."""
    async with _opened(configuration, context) as memory:
        first = await read_back(memory, attempts)
        await asyncio.sleep(SETTLE_SECONDS * SETTLE_SLACK)
        return [first, await read_back(memory, attempts)]


def _by_session(attempts: list[Attempt]) -> dict[str, list[Attempt]]:
    sessions: dict[str, list[Attempt]] = {session_name(number): [] for number in range(SESSIONS)}
    for attempt in attempts:
        sessions[session_name(attempt.session)].append(attempt)
    return sessions


@contextlib.asynccontextmanager
async def _opened(configuration: ServerConfiguration, context: StoreContext) -> AsyncIterator[MemoryStore]:
    memory = await open_store(configuration.store, context)
    try:
        yield memory
    finally:
        await memory.close()


def _title(sample: ServerSample, plan: RecoveryScenario) -> str:
    if sample.server == POSTGRES.name:
        return f"PostgreSQL {sample.telemetry.get('server_version', plan.postgres)}"
    return f"{'Valkey' if plan.redis == 'valkey' else 'Redis'} {sample.telemetry.get('version', plan.redis)}"


SIDE_BY_SIDE = 3
"""On two cores: one cell waits where another one works."""

KIND = ScenarioKind(
    name="matrix",
    module=__name__,
    plan=RecoveryScenario,
    result=RecoveryCell,
    make=measure,
    not_made=lambda plan, reason, is_unreachable: not_made(plan, reason, is_unreachable=is_unreachable),
)


async def make_cells(
    plans: Sequence[RecoveryScenario], progress: ScenarioProgress, *, repeats: int, side_by_side: int = SIDE_BY_SIDE
) -> list[RecoveryCell]:
    """Make these cells, each so many times; the worst of each comes in the order of the plans."""
    return await run_all(
        KIND,
        plans,
        progress,
        side_by_side,
        takes_long=lambda plan: CONFIGURATIONS[plan.configuration].load_seconds_min,
        tries=repeats,
        worst_of=worst_of,
    )
