"""Turns stand in the order in which they were said, however many say something at once."""

from __future__ import annotations

import asyncio

from soak.checker.contract import Order
from soak.checker.message import Message
from soak.contract_suite.check import check
from soak.contract_suite.comparison import broken, compare, shown
from soak.contract_suite.memory import Memory
from soak.contract_suite.workloads import alternating_writers, concurrent_writers
from soak.stores.protocol import MemoryStore

WRITERS = 16
MESSAGES_EACH = 10
WINDOW = 5


@check()
async def turns_stand_in_the_order_they_were_said(memory: Memory) -> None:
    await memory.hold("A user who talks from two browser tabs in turn", alternating_writers)


@check()
async def concurrent_writers_lose_nothing(memory: Memory) -> None:
    await memory.hold("A user who talks while tools and other tabs do so too", concurrent_writers)


@check()
async def few_connections_lose_nothing(memory: Memory) -> None:
    store = await memory.open(connections_max=1, timeout_seconds=30.0)
    said = [
        memory.turns(memory.session(f"busy{number}"), 3, writer=writer) for number in range(8) for writer in range(5)
    ]
    await asyncio.gather(*(memory.say(store, turns) for turns in said))
    for session in {turns[0].session for turns in said}:
        spoken = [message for turns in said for message in turns if message.session == session]
        read = await _settled(memory, store, session, len(memory.kept(spoken)))
        _compare_concurrent(memory, "A user of a service that is short of connections", spoken, read)


@check()
async def a_reader_never_sees_a_gap_while_others_write(memory: Memory) -> None:
    session = memory.session("watched")
    writing, reading = await memory.open(), await memory.open()
    whole: list[list[object]] = []
    windows: list[list[object]] = []
    is_writing = True

    async def watch() -> None:
        while is_writing:
            whole.append(await memory.recall(reading, session))
            windows.append(await memory.recall(reading, session, WINDOW))
            await asyncio.sleep(0)

    watching = asyncio.gather(watch(), watch())
    try:
        said = await _all_at_once(memory, [writing], session)
    finally:
        is_writing = False
        await watching
    final = await _settled(memory, writing, session, len(memory.kept(said)))
    if memory.contract.retained_messages is None and memory.contract.order is not Order.NONE:
        _compare_reads(final, whole, windows)


async def _all_at_once(memory: Memory, stores: list[MemoryStore], session: str) -> list[Message]:
    said = [memory.turns(session, MESSAGES_EACH, writer=writer) for writer in range(WRITERS)]
    await asyncio.gather(*(memory.say(stores[writer % len(stores)], turns) for writer, turns in enumerate(said)))
    return [message for turns in said for message in turns]


async def _settled(memory: Memory, store: MemoryStore, session: str, count: int) -> list[object]:
    """Read a whole session, again as long as it may lag by contract and is too short."""
    read = await memory.recall(store, session)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + memory.staleness_seconds
    while len(read) < count and loop.time() < deadline:
        await asyncio.sleep(0.02)
        read = await memory.recall(store, session)
    return read


def _compare_concurrent(memory: Memory, who: str, said: list[Message], read: list[object]) -> None:
    """Compare what several said at once: no order between writers, the order of each writer's own words."""
    order = Order.NONE if memory.contract.order is Order.NONE else Order.PER_WRITER
    if memory.contract.retained_messages is not None:
        # Which of them are the last is known only afterwards.
        said = [message for message in said if message in read]
        if len(read) != min(memory.contract.retained_messages, WRITERS * MESSAGES_EACH):
            broken(f"{who} finds {len(read)} messages, not the last {memory.contract.retained_messages}")
    compare(who, said, read, order=order, duplicates=memory.contract.duplicates)


def _compare_reads(final: list[object], whole: list[list[object]], windows: list[list[object]]) -> None:
    places = {_key(item): place for place, item in enumerate(final)}
    for read in whole:
        if read != final[: len(read)]:
            wrong = next(place for place, item in enumerate(read) if place >= len(final) or item != final[place])
            broken(
                f"A user who reloads the page while others write sees {shown(read[wrong])} in place {wrong + 1}, "
                f"where later {shown(final[wrong]) if wrong < len(final) else 'nothing'} stands",
            )
    for read in windows:
        start = places.get(_key(read[0]), -1) if read else 0
        if read and (start < 0 or read != final[start : start + len(read)]):
            broken(
                "An assistant that reads the last few messages while others write gets a context with a gap: "
                + ", ".join(shown(item) for item in read)
            )


def _key(item: object) -> object:
    return item.name if isinstance(item, Message) else repr(item)
