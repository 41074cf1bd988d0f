"""One cell: a server so configured is written to, broken, brought back and read, and what is gone is judged."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

from soak.checker.attempt import Attempt
from soak.checker.faults import FaultWindow
from soak.checker.outcome import Outcome
from soak.checker.telemetry import ServerSample
from soak.checker.text import MessageGenerator
from soak.clock import now_us
from soak.errors import ServerUnreachableError, SoakError
from soak.faults import catalogue
from soak.faults.fault import Fault, FaultUnavailableError
from soak.matrix import configurations
from soak.matrix.configurations import Configuration
from soak.matrix.measured import Reads, judge
from soak.matrix.plan import CellPlan
from soak.matrix.promise import promise_of
from soak.matrix.result import CellResult
from soak.matrix.writers import SESSIONS, Writers, first_success, read_back, session_name
from soak.servers import versions
from soak.servers.inspect import inspect
from soak.servers.kinds import POSTGRES, REDIS
from soak.servers.local import LocalServers
from soak.servers.server import EventListener, ServerEvent
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


async def measure(plan: CellPlan, folder: Path) -> CellResult:
    """Make one cell; raises `SoakError` where it cannot be made."""
    configuration = configurations.ALL[plan.configuration]
    fault = catalogue.ALL[plan.fault]
    author = MessageGenerator("m" + secrets.token_hex(4), secrets.randbits(63))
    repairs: list[str] = []
    async with _serving(plan, configuration, folder, repairs) as (bed, context):
        reason = fault.unavailable(bed, configuration.server)
        if reason is not None:
            raise FaultUnavailableError(reason)
        url = context.servers[configuration.server]
        sample = await inspect(configuration.server, url, timeout_seconds=OPERATION_SECONDS_MAX)
        promise = promise_of(sample, registry.find(configuration.store).contract_for(context), plan.preset)
        seconds = max(plan.load_seconds, configuration.load_seconds_min)
        broken = await _write_and_break(bed, configuration, fault, context, author, seconds)
        rounds = await _read(configuration, context, broken.attempts)
    return CellResult(
        configuration=plan.configuration,
        fault=plan.fault,
        server=_title(sample, plan),
        origin=promise.origin,
        measured=judge(
            _by_session(broken.attempts), rounds, broken.window, promise.contract, author, int(SETTLE_SECONDS * 1e6)
        ),
        recovery_seconds=(broken.recovered - broken.window.started) / 1e6,
        repairs=repairs,
    )


@contextlib.asynccontextmanager
async def _serving(
    plan: CellPlan, configuration: Configuration, folder: Path, repairs: list[str]
) -> AsyncIterator[tuple[Servers, StoreContext]]:
    deaths: list[ServerEvent] = []

    def take_note(event: ServerEvent) -> None:
        if event.what == "repaired":
            repairs.append(event.detail)
        else:
            deaths.append(event)

    bed = _make_bed(plan, configuration, folder, take_note)
    try:
        urls = await bed.start([configuration.server])
        yield (
            bed,
            StoreContext(
                servers=urls,
                namespace="matrix",
                timeout_seconds=OPERATION_SECONDS_MAX,
                connections_max=CONNECTIONS_MAX,
            ),
        )
    finally:
        await bed.stop()
        await bed.discard()
    if deaths:
        raise SoakError(f"the server died by itself, not by the fault ({deaths[0].detail})")


def _make_bed(plan: CellPlan, configuration: Configuration, folder: Path, on_event: EventListener) -> Servers:
    """Return a testbed for the servers of one cell, not yet started."""
    is_redis = configuration.server == REDIS.name
    redis_options = configuration.options if is_redis else None
    postgres_options = None if is_redis else configuration.options
    if plan.testbed == "docker":
        # Imported only where it is used: the client of Docker is a heavy one.
        from soak.servers.docker.servers import DockerServers  # noqa: PLC0415

        return DockerServers(
            folder,
            redis_version=versions.redis_version(plan.redis),
            postgres_version=versions.postgres_version(plan.postgres),
            redis_image=plan.redis_image,
            postgres_image=plan.postgres_image,
            redis_options=redis_options,
            postgres_options=postgres_options,
            power_cuts=plan.fault == "power_cut",
            power_cut_by=plan.power_cut,
            on_event=on_event,
        )
    return LocalServers(
        folder,
        redis_version=versions.redis_version(plan.redis),
        postgres_version=int(plan.postgres),
        redis_options=redis_options,
        postgres_options=postgres_options,
        # Only where it is needed: it costs a compilation, or a file system.
        power_cuts=plan.fault == "power_cut",
        power_cut_by=plan.power_cut,
        on_event=on_event,
    )


async def _write_and_break(
    bed: Servers,
    configuration: Configuration,
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


async def _read(configuration: Configuration, context: StoreContext, attempts: list[Attempt]) -> list[Reads]:
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
async def _opened(configuration: Configuration, context: StoreContext) -> AsyncIterator[MemoryStore]:
    memory = await open_store(configuration.store, context)
    try:
        yield memory
    finally:
        await memory.close()


def _title(sample: ServerSample, plan: CellPlan) -> str:
    if sample.server == POSTGRES.name:
        return f"PostgreSQL {sample.telemetry.get('server_version', plan.postgres)}"
    return f"{'Valkey' if plan.redis == 'valkey' else 'Redis'} {sample.telemetry.get('version', plan.redis)}"
