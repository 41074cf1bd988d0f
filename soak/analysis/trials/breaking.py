"""Writers at work until something breaks: what trials of crashes have in common."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from soak.analysis.rig import Rig
from soak.analysis.talk import STORE, Talk, now_us
from soak.checker.faults import Excuse, FaultWindow
from soak.checker.outcome import Outcome
from soak.tasks import end_tasks

SESSIONS = 8
LOAD_SECONDS = 2.0
LOAD_SECONDS_MAX = 30.0
ACKNOWLEDGED_MIN = 40
LAST_REPLY_SECONDS_MAX = 12.0
TURNS_MAX = 5_000
ROUNDS_MAX = 3
ROUNDS_SECONDS_MAX = 45.0
"""After this no other round begins: some libraries wait for long when their server is away."""
"""A server has to go down between two steps of a library to show anything; another round may show what one did not."""
KINDS = {Excuse.NOTHING: "process_kill", Excuse.CRASH: "crash", Excuse.POWER: "power_cut"}
"""What is broken, by what it excuses: the death of the process that the library is in excuses nothing."""
_POLL_SECONDS = 0.05


async def server_broken(
    rig: Rig, name: str, excuses: Excuse, break_it: Callable[[], Awaitable[object]]
) -> tuple[list[Talk], list[str]]:
    """Break the server under the writers and bring it back, until something is found, and read everything to the end.

    Returns the sessions, and what is worth a note.
    """
    talks: list[Talk] = []
    notes: list[str] = []
    begun = asyncio.get_running_loop().time()
    for number in range(ROUNDS_MAX):
        broken = await written_and_broken(rig, f"{name}{number}-", excuses, break_it)
        await rig.server.start_again()
        notes += await rig.settle(broken)
        talks += broken
        is_late = asyncio.get_running_loop().time() > begun + ROUNDS_SECONDS_MAX
        if is_late or any(talk.found for talk in broken):
            break
    return talks, notes


async def written_and_broken(
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


async def speak_alone(rig: Rig, talk: Talk, number: int, turns: int) -> None:
    """Say so much as the only one in a session, and nothing more once there was no answer at all.

    The library may still be at it when everything is back; whoever spoke on would then be a second writer.
    """
    for _ in range(turns):
        if talk.is_busy:
            return
        await talk.say(rig.store(number))


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
