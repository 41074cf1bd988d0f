"""Workloads of the analyses that disturb the library or its server: readers beside writers, outages, kills, time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

from soak.checker.faults import Excuse, FaultWindow, Promotion
from soak.checker.outcome import Outcome
from soak.clock import now_us
from soak.contract_suite.conversation import STORE, CheckedConversation
from soak.contract_suite.workloads import Held, speak
from soak.scenarios.analyses.rig import TTL_EPSILON_SECONDS, TTL_SECONDS, CannotBeTriedError, LibraryRig
from soak.tasks import end_tasks

GROWING_WRITERS = 4
GROWING_TURNS = 40
GROWING_ROUNDS_MAX = 5
"""A read has to come between two commits to see anything: what one round does not show, another may."""
READS_MIN = 5

SESSIONS = 4
DROPPED_TURNS = 25
ONE_IN = 7
"""Acknowledgements of writes per one that is lost; odd, so that it meets every step of a library that makes two."""
DROPPED_MIN = 3
READ_TURNS = 6
TURNS_BEFORE, TURNS_AWAY, TURNS_AFTER = 4, 2, 3

LIVING_TURNS = 9
PAUSE_SECONDS = TTL_SECONDS / 4

CRASH_SESSIONS = 8
CRASH_LOAD_SECONDS = 2.0
CRASH_LOAD_SECONDS_MAX = 30.0
CRASH_ACKNOWLEDGED_MIN = 40
LAST_REPLY_SECONDS_MAX = 12.0
CRASH_TURNS_MAX = 5_000
CRASH_ROUNDS_MAX = 3
"""A server has to go down between two steps of a library to show anything; another round may show what one did not."""
CRASH_ROUNDS_SECONDS_MAX = 45.0
"""After this no other round begins: some libraries wait for long when their server is away."""
KINDS = {Excuse.NOTHING: "process_kill", Excuse.CRASH: "crash", Excuse.POWER: "power_cut"}
"""What is broken, by what it excuses: the death of the process that the library is in excuses nothing."""
_POLL_SECONDS = 0.05


# -- a reader beside writers --


async def growing_prefix(rig: LibraryRig) -> Held:
    """Read while others write: each read must begin with what the one before has shown."""
    conversations: list[CheckedConversation] = []
    notes: list[str] = []
    reads = 0
    while len(conversations) < GROWING_ROUNDS_MAX and not any(one.found for one in conversations):
        conversation = rig.conversation(f"prefix{len(conversations)}")
        conversations.append(conversation)
        reads += await _read_while_written(rig, conversation)
        notes += await rig.settle([conversation])
    written = "it was" if len(conversations) == 1 else f"{len(conversations)} sessions were"
    note = f"{reads} reads while {written} written"
    return Held(conversations, [note, *notes], [f"only {note}"] if reads < READS_MIN else [])


async def _read_while_written(rig: LibraryRig, conversation: CheckedConversation) -> int:
    async def read_on() -> None:
        number = 0
        while True:
            await conversation.read(rig.store(number))
            number += 1
            await asyncio.sleep(0)

    reading = asyncio.create_task(read_on())
    try:
        await asyncio.gather(*(speak(rig, conversation, writer, GROWING_TURNS) for writer in range(GROWING_WRITERS)))
        return conversation.reads
    finally:
        await end_tasks([reading])


# -- the server is away, or its replies get lost; the library's own client decides what to do --


async def dropped_replies(rig: LibraryRig) -> Held:
    conversations = _conversations(rig, "dropped")
    before = rig.proxy.replies_dropped
    rig.proxy.drop_replies(1 / ONE_IN)
    try:
        # A session each: what is there twice or out of order then comes from no other writer.
        await asyncio.gather(*(speak(rig, one, number, DROPPED_TURNS, 0) for number, one in enumerate(conversations)))
    finally:
        rig.proxy.drop_replies(0)
    dropped = rig.proxy.replies_dropped - before
    notes = [f"{dropped} replies dropped", *await rig.settle(conversations)]
    return Held(conversations, notes, [f"only {dropped} replies could be dropped"] if dropped < DROPPED_MIN else [])


async def outage_reads(rig: LibraryRig) -> Held:
    """Read while the server is away: "no answer" and "nothing remembered" are different answers."""
    conversations = _conversations(rig, "away")
    await asyncio.gather(*(speak(rig, one, number, READ_TURNS, 0) for number, one in enumerate(conversations)))
    async with _server_away(rig):
        reads = (one.read(rig.store(number)) for number, one in enumerate(conversations))
        answered = sum(await asyncio.gather(*reads))
    note = f"{answered} of {SESSIONS} reads were answered while the server was away"
    return Held(conversations, [note, *await rig.settle(conversations)])


async def outage_writes(rig: LibraryRig) -> Held:
    """Write while the server is away: what is acknowledged then has to be there afterwards."""
    conversations = _conversations(rig, "writing")

    async def all_speak(turns: int) -> None:
        await asyncio.gather(*(_speak_alone(rig, one, number, turns) for number, one in enumerate(conversations)))

    await all_speak(TURNS_BEFORE)
    before = sum(one.outcomes[Outcome.OK] for one in conversations)
    async with _server_away(rig):
        await all_speak(TURNS_AWAY)
        meanwhile = sum(one.outcomes[Outcome.OK] for one in conversations) - before
    # A library that has just lost its connections may need a moment; what it refuses meanwhile is its own affair.
    notes = await rig.settle(conversations)
    await all_speak(TURNS_AFTER)
    notes += await rig.settle(conversations)
    return Held(conversations, [f"{meanwhile} writes were acknowledged while the server was away", *notes])


def _conversations(rig: LibraryRig, name: str) -> list[CheckedConversation]:
    return [rig.conversation(f"{name}{number}") for number in range(SESSIONS)]


@contextlib.asynccontextmanager
async def _server_away(rig: LibraryRig) -> AsyncIterator[None]:
    await rig.proxy.refuse()
    rig.proxy.reset_connections()
    try:
        yield
    finally:
        await rig.proxy.accept()


async def _speak_alone(rig: LibraryRig, conversation: CheckedConversation, number: int, turns: int) -> None:
    """Append as the only writer of a session, and nothing more once there was no answer at all.

    The library may still be at it when everything is back; going on would then make a second writer.
    """
    for _ in range(turns):
        if conversation.is_busy:
            return
        await conversation.say(rig.store(number))


# -- writers at work until something breaks: the processes of the library, its server, or the server's power --


async def process_crash(rig: LibraryRig) -> Held:
    """Kill all processes of the library while they serve: an acknowledgement must not be ahead of the store."""
    conversations = await _write_and_break(rig, "killed", Excuse.NOTHING, rig.deployment.kill)
    await rig.deployment.restart()
    return Held(conversations, await rig.settle(conversations))


async def server_crash(rig: LibraryRig) -> Held:
    return await _break_server(rig, "crash", Excuse.CRASH, rig.server.kill, "as shipped")


async def power_cut(rig: LibraryRig) -> Held:
    if rig.no_power_cuts is not None:
        raise CannotBeTriedError(rig.no_power_cuts)
    return await _break_server(rig, "power", Excuse.POWER, rig.server.cut_power, "as set")


async def _break_server(
    rig: LibraryRig, name: str, excuses: Excuse, break_it: Callable[[], Awaitable[object]], configured: str
) -> Held:
    """Break the server under the writers and bring it back, until something is found; read all to the end."""
    conversations: list[CheckedConversation] = []
    notes = [f"the server {configured} promises: {rig.contract.clauses()['durability']}"]
    begun = asyncio.get_running_loop().time()
    for number in range(CRASH_ROUNDS_MAX):
        broken = await _write_and_break(rig, f"{name}{number}-", excuses, break_it)
        await rig.server.start_again()
        notes += await rig.settle(broken)
        conversations += broken
        is_late = asyncio.get_running_loop().time() > begun + CRASH_ROUNDS_SECONDS_MAX
        if is_late or any(one.found for one in broken):
            break
    return Held(conversations, notes)


async def _write_and_break(
    rig: LibraryRig, name: str, excuses: Excuse, break_it: Callable[[], Awaitable[object]]
) -> list[CheckedConversation]:
    """Write to several sessions, break something, and return when every writer knows of its last message."""
    conversations = [rig.conversation(f"{name}{number}") for number in range(CRASH_SESSIONS)]
    is_over = asyncio.Event()
    writing = [asyncio.create_task(_write(rig, one, number, is_over)) for number, one in enumerate(conversations)]
    try:
        await _until_enough(conversations, writing)
        target = rig.subject.server or STORE
        window = FaultWindow(
            fault=name,
            kind=KINDS[excuses],
            target=target,
            excuses=excuses,
            promotes=Promotion.NONE,
            started=now_us(),
            down=True,
        )
        rig.faults.begin(window)
        await break_it()
        is_over.set()
        await asyncio.wait(writing, timeout=LAST_REPLY_SECONDS_MAX)
    finally:
        await end_tasks(writing)
    # Whatever is acknowledged from here on cannot have been by what is down.
    window.injected = window.ended = now_us()
    # In sessions of their own: a library may still be at an earlier message, also where it has raised an error, and
    # going on there would make a second writer.
    down = [rig.conversation(f"{name}down{number}") for number in range(CRASH_SESSIONS)]
    await asyncio.gather(*(one.say(rig.store(number)) for number, one in enumerate(down)))
    return [*conversations, *down]


async def _write(rig: LibraryRig, conversation: CheckedConversation, number: int, is_over: asyncio.Event) -> None:
    for _ in range(CRASH_TURNS_MAX):
        if is_over.is_set() or await conversation.say(rig.store(number)) is not Outcome.OK:
            return


async def _until_enough(conversations: list[CheckedConversation], writing: list[asyncio.Task[None]]) -> None:
    loop = asyncio.get_running_loop()
    begun = loop.time()
    while loop.time() < begun + CRASH_LOAD_SECONDS_MAX:
        acknowledged = sum(one.outcomes[Outcome.OK] for one in conversations)
        is_enough = loop.time() > begun + CRASH_LOAD_SECONDS and acknowledged >= CRASH_ACKNOWLEDGED_MIN
        if is_enough or all(task.done() for task in writing):
            return
        await asyncio.sleep(_POLL_SECONDS)


# -- time that runs out --


async def active_ttl(rig: LibraryRig) -> Held:
    """Go on with a conversation for longer than its time to live, and then leave it alone."""
    conversation = rig.conversation("living")
    for turn in range(LIVING_TURNS):
        await conversation.say(rig.store(turn))
        await conversation.read(rig.store(turn))
        await asyncio.sleep(PAUSE_SECONDS)
    notes = await rig.settle([conversation])
    conversation.close()
    await asyncio.sleep(TTL_SECONDS + 2 * TTL_EPSILON_SECONDS)
    await conversation.read(rig.store(0))
    return Held([conversation], notes)
