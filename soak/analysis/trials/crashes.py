"""Writers at work until something breaks: the processes of the library, its server, or the power of that."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from soak.analysis.result import Tried, seen_in
from soak.analysis.rig import CannotBeTriedError, Rig
from soak.analysis.stage import Stage
from soak.analysis.talk import STORE, Talk
from soak.analysis.trial import Trial, without_server
from soak.checker.faults import Excuse, FaultWindow
from soak.checker.outcome import Outcome
from soak.clock import now_us
from soak.tasks import end_tasks

SESSIONS = 8
LOAD_SECONDS = 2.0
LOAD_SECONDS_MAX = 30.0
ACKNOWLEDGED_MIN = 40
LAST_REPLY_SECONDS_MAX = 12.0
TURNS_MAX = 5_000
ROUNDS_MAX = 3
"""A server has to go down between two steps of a library to show anything; another round may show what one did not."""
ROUNDS_SECONDS_MAX = 45.0
"""After this no other round begins: some libraries wait for long when their server is away."""
KINDS = {Excuse.NOTHING: "process_kill", Excuse.CRASH: "crash", Excuse.POWER: "power_cut"}
"""What is broken, by what it excuses: the death of the process that the library is in excuses nothing."""
_POLL_SECONDS = 0.05


async def _kill_library(rig: Rig) -> Tried:
    """Kill all processes of the library while they serve: an acknowledgement must not be ahead of the store."""
    talks = await _written_and_broken(rig, "killed", Excuse.NOTHING, rig.deployment.kill)
    await rig.deployment.restart()
    return seen_in(talks, notes=await rig.settle(talks))


async def _kill_server(rig: Rig) -> Tried:
    return await _break_server(rig, "crash", Excuse.CRASH, rig.server.kill, "as shipped")


async def _cut_power(rig: Rig) -> Tried:
    if rig.no_power_cuts is not None:
        raise CannotBeTriedError(rig.no_power_cuts)
    return await _break_server(rig, "power", Excuse.POWER, rig.server.cut_power, "as set")


async def _break_server(
    rig: Rig, name: str, excuses: Excuse, break_it: Callable[[], Awaitable[object]], configured: str
) -> Tried:
    """Break the server under the writers and bring it back, until something is found; read all to the end."""
    talks: list[Talk] = []
    notes: list[str] = []
    begun = asyncio.get_running_loop().time()
    for number in range(ROUNDS_MAX):
        broken = await _written_and_broken(rig, f"{name}{number}-", excuses, break_it)
        await rig.server.start_again()
        notes += await rig.settle(broken)
        talks += broken
        is_late = asyncio.get_running_loop().time() > begun + ROUNDS_SECONDS_MAX
        if is_late or any(talk.found for talk in broken):
            break
    promised = f"the server {configured} promises: {rig.contract.clauses()['durability']}"
    return seen_in(talks, notes=[promised, *notes])


async def _written_and_broken(
    rig: Rig, name: str, excuses: Excuse, break_it: Callable[[], Awaitable[object]]
) -> list[Talk]:
    """Write to several sessions, break something, and return when every writer has heard of its last message."""
    talks = [rig.talk(f"{name}{number}") for number in range(SESSIONS)]
    is_over = asyncio.Event()
    writing = [asyncio.create_task(_write(rig, talk, number, is_over)) for number, talk in enumerate(talks)]
    try:
        await _until_enough(talks, writing)
        target = rig.subject.server or STORE
        window = FaultWindow(
            fault=name, kind=KINDS[excuses], target=target, excuses=excuses, started=now_us(), down=True
        )
        rig.faults.begin(window)
        await break_it()
        is_over.set()
        await asyncio.wait(writing, timeout=LAST_REPLY_SECONDS_MAX)
    finally:
        await end_tasks(writing)
    # Whatever is acknowledged from here on cannot have been by what is down.
    window.injected = window.ended = now_us()
    # In sessions of their own: a library may still be at what it was told before, also where it has raised an error,
    # and whoever spoke on there would be a second writer.
    down = [rig.talk(f"{name}down{number}") for number in range(SESSIONS)]
    await asyncio.gather(*(talk.say(rig.store(number)) for number, talk in enumerate(down)))
    return [*talks, *down]


async def _write(rig: Rig, talk: Talk, number: int, is_over: asyncio.Event) -> None:
    for _ in range(TURNS_MAX):
        if is_over.is_set() or await talk.say(rig.store(number)) is not Outcome.OK:
            return


async def _until_enough(talks: list[Talk], writing: list[asyncio.Task[None]]) -> None:
    loop = asyncio.get_running_loop()
    begun = loop.time()
    while loop.time() < begun + LOAD_SECONDS_MAX:
        acknowledged = sum(talk.outcomes[Outcome.OK] for talk in talks)
        is_enough = loop.time() > begun + LOAD_SECONDS and acknowledged >= ACKNOWLEDGED_MIN
        if is_enough or all(task.done() for task in writing):
            return
        await asyncio.sleep(_POLL_SECONDS)


PROCESS_CRASH = Trial(
    name="process-crash",
    question="Is everything there that was acknowledged before all processes of the library were killed?",
    run=_kill_library,
    acknowledged_min=ACKNOWLEDGED_MIN,
)
SERVER_CRASH = Trial(
    name="server-crash",
    question="Is more gone after kill -9 of a server with its default settings than these allow?",
    run=_kill_server,
    stage=Stage.SHIPPED,
    acknowledged_min=ACKNOWLEDGED_MIN,
    unfit=without_server,
)
POWER_CUT = Trial(
    name="power-cut",
    question="Is more gone after a power cut than the server allows (AOF everysec, synchronous_commit on)?",
    run=_cut_power,
    stage=Stage.POWER,
    acknowledged_min=ACKNOWLEDGED_MIN,
    unfit=without_server,
)
