"""Every way in which a search can be wrong, and those that only look so, done to a simulated memory on purpose."""

from __future__ import annotations

from collections import Counter

import msgspec

from soak.checker.contract import Contract, Duplicates, Order, Searches
from soak.checker.intervals import Intervals
from soak.checker.kinds import Kind
from soak.checker.message import Garbled, Stored
from soak.checker.outcome import Outcome
from soak.checker.partial import NEAREST, is_missed
from soak.checker.read import Read
from soak.checker.text import MessageGenerator
from tests.support.checker.every_flaw import LENIENT, SLIDING, STALE, Deed, Flaw, drop, forget_now, talk
from tests.support.checker.simulated import AUTHOR, SECOND, SESSION, Simulation

APPROXIMATE = Contract(search=Searches.APPROXIMATE)

# -- searches --


async def index_never(simulation: Simulation) -> None:
    said = await talk(simulation)
    simulation.unindexed = {said[-1]}
    await simulation.look(4)


async def index_never_one_of_many(simulation: Simulation) -> None:
    said = await talk(simulation, 30)
    simulation.unindexed = {said[11]}
    await simulation.look(20)


async def index_late(simulation: Simulation) -> None:
    said = await talk(simulation)
    simulation.unindexed = set(said[-2:])
    await simulation.look(1)
    simulation.unindexed = set()
    await simulation.look(2)


async def index_late_for_two_quick_searches(simulation: Simulation) -> None:
    said = await talk(simulation)
    simulation.unindexed = set(said[-2:])
    for _ in range(2):
        simulation.deliver()
        await simulation.examine(whole=True)
    simulation.unindexed = set()
    await simulation.look(2)


async def index_late_because_of_a_fault(simulation: Simulation) -> None:
    said = await talk(simulation)
    simulation.unindexed = set(said[-2:])
    simulation.break_down("pause")
    simulation.is_down = False
    await simulation.look(3)
    simulation.is_down = True
    simulation.break_down("pause")
    simulation.unindexed = set()
    await simulation.look(3)


async def index_later_than_promised(simulation: Simulation) -> None:
    said = await talk(simulation)
    simulation.now += 2 * SECOND
    await index_again(simulation, *said[-2:])


async def index_as_late_as_is_promised(simulation: Simulation) -> None:
    said = await talk(simulation)
    simulation.now += SECOND // 5
    await index_again(simulation, *said[-2:])


async def index_again(simulation: Simulation, *places: tuple[int, int]) -> None:
    """Leave them out of the first wide search, and take them in before the second."""
    simulation.unindexed = set(places)
    simulation.deliver()
    await simulation.examine(whole=True)
    simulation.unindexed = set()
    await simulation.look(3)


async def forget_what_is_being_looked_for(simulation: Simulation) -> None:
    said = await talk(simulation)
    simulation.unindexed = set(said[-2:])
    await simulation.look(1)
    forget_now(simulation)
    await simulation.look(3)


async def lose_what_is_being_looked_for(simulation: Simulation) -> None:
    said = await talk(simulation)
    simulation.unindexed = set(said[-2:])
    await simulation.look(1)
    drop(simulation, *said[-2:])
    await simulation.look(3)


async def expire_while_it_is_being_looked_for(simulation: Simulation) -> None:
    said = await talk(simulation)
    simulation.unindexed = set(said)
    await simulation.look(1)
    simulation.now += 2 * SECOND
    simulation.unindexed = set()
    await simulation.look(3)


async def forget_half(simulation: Simulation) -> None:
    """Take everything out of the index, and leave the rows until the forget goes on."""
    said = await talk(simulation)
    simulation.forget()
    simulation.unindexed = set(said)
    await simulation.look(4)
    assert simulation.forgetting is not None
    simulation.forgetting = (simulation.forgetting[0], True)
    simulation._erase()
    simulation._answer_forget(Outcome.OK)
    await simulation.look(2)


async def say_half(simulation: Simulation) -> None:
    """Write the row and not the index, and never answer."""
    await talk(simulation)
    simulation.send(0)
    simulation.apply(0)
    simulation.unindexed = {(0, simulation.sent[0])}
    simulation.answer(0, Outcome.UNKNOWN)
    await simulation.look(6)


async def lose_vectors_in_a_crash(simulation: Simulation) -> None:
    """Let a crash take the newest vectors, and leave all the messages."""
    said = await talk(simulation)
    await crash_the_index(simulation, said)


async def lose_older_vectors_in_a_crash(simulation: Simulation) -> None:
    said = await talk(simulation)
    simulation.now += 3 * SECOND
    await crash_the_index(simulation, said)


async def lose_vectors_long_before_a_crash(simulation: Simulation) -> None:
    said = await talk(simulation)
    simulation.unindexed = set(said[-2:])
    await simulation.look(1)
    await crash_the_index(simulation, said)


async def crash_the_index(simulation: Simulation, said: list[tuple[int, int]]) -> None:
    rows = simulation.rows
    simulation.break_down()
    simulation.break_down()
    simulation.rows = rows
    simulation._change()
    simulation.unindexed = set(said[-2:])
    await simulation.look(5)


async def search_about_right(simulation: Simulation) -> None:
    """Show some messages only to a wide search, as an index that is approximate does."""
    said = await talk(simulation, 20)
    simulation.only_far = set(said[::3])
    await simulation.look(12)


async def search_among_equals(simulation: Simulation) -> None:
    """Say the same so often that not all of them fit in: which are left out is nobody's promise."""
    while True:
        said = await talk(simulation, 30)
        texts = Counter(AUTHOR.write(SESSION, *place).content for place in said)
        text, count = texts.most_common(1)[0]
        if count > 1:
            break
    same = [place for place in said if AUTHOR.write(SESSION, *place).content == text]
    drop(simulation, *(place for place in said if place not in same))
    book = simulation.watched.book
    for place in said:
        if place not in same:
            book.writers[place[0]].excuse(Intervals([place[1], place[1]]))
    book.drop_excused()
    await simulation.look(1)
    asked, other = AUTHOR.write(SESSION, *same[0]), AUTHOR.write(SESSION, *same[1])
    full = simulation.watched.book
    read = Read(invoked=1, returned=2, acked=full.acked_now(), items=[other] * NEAREST)
    assert not is_missed(read, asked, NEAREST)
    assert is_missed(msgspec.structs.replace(read, items=[other] * (NEAREST - 1)), asked, NEAREST)


async def find_what_was_forgotten(simulation: Simulation) -> None:
    said = await talk(simulation)
    await simulation.look(1)
    forget_now(simulation)
    again = [AUTHOR.write(SESSION, *place) for place in said]
    simulation.spoil_search = lambda items: [*items, *again][:NEAREST]
    await simulation.look(2)


async def find_what_has_expired(simulation: Simulation) -> None:
    said = await talk(simulation)
    await simulation.look(1)
    simulation.end_session()
    simulation.now += 4 * SECOND
    simulation.spoil_search = lambda items: [*items, AUTHOR.write(SESSION, *said[0])]
    await simulation.look(2)


async def find_too_many(simulation: Simulation) -> None:
    said = await talk(simulation, NEAREST + 4)
    simulation.spoil_search = lambda _: [AUTHOR.write(SESSION, *place) for place in said]
    await simulation.look(1)


async def find_one_twice(simulation: Simulation) -> None:
    await talk(simulation)
    simulation.spoil_search = lambda items: [*items[:1], *items][:NEAREST]
    await simulation.look(1)


def find_besides(item: Stored) -> Deed:
    """Find something that is not in the session, next to what is."""

    async def deed(simulation: Simulation) -> None:
        await talk(simulation)
        simulation.spoil_search = lambda items: [item, *items][:NEAREST]
        await simulation.look(1)

    return deed


async def find_what_was_refused(simulation: Simulation) -> None:
    simulation.send(0)
    simulation.answer(0, Outcome.FAILED)
    await talk(simulation)
    refused = AUTHOR.write(SESSION, 0, simulation.sent[0] - 2)
    assert (0, refused.seq) in simulation.refused
    simulation.spoil_search = lambda items: [refused, *items][:NEAREST]
    await simulation.look(1)


async def find_it_altered(simulation: Simulation) -> None:
    await talk(simulation)

    def alter(items: list[Stored]) -> list[Stored]:
        return [msgspec.structs.replace(item, content="altered") for item in items]

    simulation.spoil_search = alter
    await simulation.look(1)


async def let_a_participant_find_what_was_forgotten(simulation: Simulation) -> None:
    said = await talk(simulation)
    await simulation.look(1)
    forget_now(simulation)
    simulation.observe(NEAREST, [AUTHOR.write(SESSION, *said[0])], asked=said[0])
    await simulation.look(1)


async def let_a_participant_not_find_one(simulation: Simulation) -> None:
    """Leave one of many out whose turn would come much later."""
    said = sorted(await talk(simulation, 40))
    place = said[(simulation.watched.book.searched + 15) % len(said)]
    if place in (said[19], said[39]):  # the newest of a writer is asked for anyway
        place = said[said.index(place) - 1]
    simulation.unindexed = {place}
    simulation.observe(NEAREST, [], asked=place)
    await simulation.look(2)


SEARCHES = [
    Flaw("index never", {Kind.UNFINDABLE}, index_never),
    Flaw("index never, one of many", {Kind.UNFINDABLE}, index_never_one_of_many),
    Flaw("index never, no order", {Kind.UNFINDABLE}, index_never, Contract(order=Order.NONE)),
    Flaw("index never, at least once", {Kind.UNFINDABLE}, index_never, Contract(duplicates=Duplicates.AT_LEAST_ONCE)),
    Flaw("index never, stale", {Kind.UNFINDABLE}, index_never, STALE),
    Flaw("index never, as an approximate one may", set(), index_never, APPROXIMATE),
    Flaw("index late, as an approximate one may", set(), index_late, APPROXIMATE),
    Flaw("find what was forgotten, about", {Kind.RESURRECTED}, find_what_was_forgotten, APPROXIMATE),
    Flaw("index late", {Kind.STALE}, index_late),
    Flaw("index late for two quick searches", {Kind.STALE}, index_late_for_two_quick_searches),
    Flaw("index late because of a fault", {Kind.STALE}, index_late_because_of_a_fault, steps=0),
    Flaw("index later than promised", {Kind.STALE}, index_later_than_promised, STALE),
    Flaw("lose what is being looked for", {Kind.ROLLED_BACK}, lose_what_is_being_looked_for),
    Flaw("find what was forgotten", {Kind.RESURRECTED}, find_what_was_forgotten),
    Flaw("find what has expired", {Kind.RESURRECTED}, find_what_has_expired, SLIDING, steps=0),
    Flaw("find too many", {Kind.WINDOW}, find_too_many),
    Flaw("find one twice", {Kind.DUPLICATED}, find_one_twice),
    Flaw("find something of another session", {Kind.LEAKED}, find_besides(AUTHOR.write("other-chat", 0, 1))),
    Flaw("find something of another run", {Kind.LEAKED}, find_besides(MessageGenerator("r2", 7).write(SESSION, 0, 1))),
    Flaw("find what was never sent", {Kind.PHANTOM}, find_besides(AUTHOR.write(SESSION, 0, 9_999))),
    Flaw("find what was refused", {Kind.PHANTOM}, find_what_was_refused, steps=0),
    Flaw("find what is no message", {Kind.UNDECODABLE}, find_besides(Garbled(b"\xff", "no message"))),
    Flaw("find it altered", {Kind.CORRUPTED}, find_it_altered),
    Flaw("let a participant find what was forgotten", {Kind.RESURRECTED}, let_a_participant_find_what_was_forgotten),
    Flaw("let a participant not find one", {Kind.UNFINDABLE}, let_a_participant_not_find_one),
    Flaw("lose vectors in a crash", {Kind.UNFINDABLE}, lose_vectors_in_a_crash, steps=0),
    Flaw("lose older vectors in a crash", {Kind.UNFINDABLE}, lose_older_vectors_in_a_crash, LENIENT, steps=0),
    Flaw("lose vectors before a crash", {Kind.UNFINDABLE}, lose_vectors_long_before_a_crash, LENIENT, steps=0),
    Flaw("lose vectors in a crash that may take them", set(), lose_vectors_in_a_crash, LENIENT, steps=0),
    Flaw("forget half", set(), forget_half),
    Flaw("say half", set(), say_half),
    Flaw("search about right", set(), search_about_right),
    Flaw("search among equals", set(), search_among_equals, steps=0),
    Flaw("index as late as is promised", set(), index_as_late_as_is_promised, STALE),
    Flaw("forget what is being looked for", set(), forget_what_is_being_looked_for),
    Flaw("expire while it is being looked for", set(), expire_while_it_is_being_looked_for, SLIDING, steps=0),
]
"""In a store that can be searched: what is wrong with a search, and what only looks wrong."""

for _flaw in SEARCHES:
    _flaw.is_searched = True
