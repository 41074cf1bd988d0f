"""One wrong thing each, done to a simulated store that was right until then, and as what it must be found."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from soak.checker.contract import Contract, Expiry, Order, Reads
from soak.checker.kinds import Kind
from soak.checker.message import Garbled
from soak.checker.outcome import Outcome
from soak.checker.text import MessageGenerator
from tests.support.checker.simulated import AUTHOR, SECOND, SESSION, Row, Simulation, simulate

LOSS = {Kind.LOST, Kind.ROLLED_BACK}
LENIENT = Contract(crash_loss_seconds=1.0)
CACHE = Contract(crash_loss_seconds=None)
STALE = Contract(reads=Reads.BOUNDED_STALENESS, staleness_seconds=0.5)
SLIDING = Contract(ttl_seconds=2.0, expiry=Expiry.SLIDING)
ABSOLUTE = Contract(ttl_seconds=3.0, expiry=Expiry.ABSOLUTE)
LAST = Contract(retained_messages=6)

Deed = Callable[[Simulation], Awaitable[None]]


@dataclass
class Flaw:
    """A deed, and the kinds it may be found as."""

    name: str
    kinds: set[Kind]
    deed: Deed
    contract: Contract = field(default_factory=Contract)
    writers: int = 2
    steps: int = 40
    is_searched: bool = False

    def is_told(self, found: Counter[str]) -> bool:
        """Whether it was found as what it is, and as nothing else."""
        return bool(found) == bool(self.kinds) and set(found) <= {kind.value for kind in self.kinds}

    def found(self, source: random.Random) -> Counter[str]:
        """Live, come to rest, do it, and return what is found."""

        async def then(simulation: Simulation) -> None:
            assert not simulation.found()
            # A forget that is in doubt excuses everything for ever: begin with one that has happened for certain.
            await begin_anew(simulation)
            await self.deed(simulation)

        simulation = simulate(
            source, self.contract, then, steps=self.steps, writers=self.writers, is_searched=self.is_searched
        )
        return simulation.found()


async def begin_anew(simulation: Simulation) -> None:
    book = simulation.watched.book
    if book.forgets is not None:
        book.forgets = None
        for writer in book.writers:
            writer.excused = writer.acked.copy()
    simulation.rows, simulation.expires = [], 0
    simulation._change()
    book.replace_verified([])
    for writer in book.writers:
        writer.excuse(writer.acked)
    book.drop_excused()
    book.span = None
    simulation.late, simulation.late_forgets = [], 0
    simulation.now += 10 * SECOND


async def talk(simulation: Simulation, turns: int = 4) -> list[tuple[int, int]]:
    """Say some messages, one after the other."""
    said = []
    for turn in range(turns):
        said.append(simulation.say(turn % simulation.writers))
        simulation.tick()
    simulation.deliver()
    return said


def row_of(simulation: Simulation, place: tuple[int, int]) -> Row:
    return next(row for row in simulation.rows if row.place == place)


def drop(simulation: Simulation, *places: tuple[int, int]) -> None:
    simulation.rows = [row for row in simulation.rows if row.place not in places]
    simulation._change()


async def lose_unseen(simulation: Simulation) -> None:
    said = await talk(simulation)
    drop(simulation, said[1])
    await simulation.look(3)


async def lose_seen(simulation: Simulation) -> None:
    said = await talk(simulation)
    await simulation.look(1)
    drop(simulation, said[1])
    await simulation.look(3)


async def lose_everything(simulation: Simulation) -> None:
    said = await talk(simulation)
    await simulation.look(1)
    drop(simulation, *said)
    await simulation.look(3)


async def hide_unseen(simulation: Simulation) -> None:
    said = await talk(simulation)
    await hide_again(simulation, said[-1])


async def hide_seen(simulation: Simulation) -> None:
    said = await talk(simulation)
    await simulation.look(1)
    await hide_again(simulation, said[-1])


async def hide_again(simulation: Simulation, *places: tuple[int, int], looks: int = 1, later: int = 2) -> None:
    """Hide messages for so many looks, and show them for so many."""
    simulation.hidden = set(places)
    await simulation.look(looks)
    simulation.hidden = set()
    await simulation.look(later)


async def hide_longer_than_promised(simulation: Simulation) -> None:
    said = await talk(simulation)
    simulation.now += 2 * SECOND
    await hide_again(simulation, said[-1], later=3)


async def swap_of_one_writer(simulation: Simulation) -> None:
    said = await talk(simulation, 4)
    await simulation.look(simulation.source.randrange(2))
    swap(simulation, said[0], said[2])
    await simulation.look(2)


async def swap_of_two_writers(simulation: Simulation) -> None:
    said = await talk(simulation, 4)
    await simulation.look(simulation.source.randrange(2))
    swap(simulation, said[0], said[1])
    await simulation.look(2)


def swap(simulation: Simulation, one: tuple[int, int], other: tuple[int, int]) -> None:
    i, j = (next(i for i, row in enumerate(simulation.rows) if row.place == place) for place in (one, other))
    rows = simulation.rows
    rows[i], rows[j] = rows[j], rows[i]
    simulation._change()


async def appear_in_the_middle(simulation: Simulation) -> None:
    """Two appends overlap; the later one to be seen stands in front of the one seen first."""
    simulation.send(0)
    simulation.send(1)
    simulation.apply(0)
    simulation.apply(1)
    first, second = (0, simulation.sent[0]), (1, simulation.sent[1])
    simulation.answer(0, Outcome.OK)
    simulation.hidden = {second}
    await simulation.look(1)
    simulation.hidden = set()
    swap(simulation, first, second)
    simulation.answer(1, Outcome.OK)
    await simulation.look(2)


async def duplicate(simulation: Simulation) -> None:
    said = await talk(simulation)
    await simulation.look(simulation.source.randrange(2))
    simulation.rows.append(Row(said[1], simulation.now))
    await simulation.look(2)


async def corrupt(simulation: Simulation) -> None:
    said = await talk(simulation)
    await simulation.look(simulation.source.randrange(2))
    message = AUTHOR.write(SESSION, *said[1])
    change: dict[str, Any] = simulation.source.choice(
        [{"content": message.content + "!"}, {"role": "system"}, {"checksum": 1}]
    )
    row_of(simulation, said[1]).item = msgspec.structs.replace(message, **change)
    await simulation.look(2)


async def garble(simulation: Simulation) -> None:
    said = await talk(simulation)
    await simulation.look(simulation.source.randrange(2))
    row_of(simulation, said[1]).item = simulation.source.choice([Garbled(b"\xff", "bad"), 7, "text"])
    await simulation.look(2)


async def leak_of_another_session(simulation: Simulation) -> None:
    await talk(simulation)
    simulation.rows.append(Row((9, 9), simulation.now, AUTHOR.write("other-chat", 0, 1)))
    await simulation.look(2)


async def leak_of_another_run(simulation: Simulation) -> None:
    await talk(simulation)
    simulation.rows.append(Row((9, 9), simulation.now, MessageGenerator("r2", 7).write(SESSION, 0, 1)))
    await simulation.look(2)


async def never_sent(simulation: Simulation) -> None:
    await talk(simulation)
    simulation.rows.append(Row((0, 5_000), simulation.now))
    await simulation.look(2)


async def refused_and_there(simulation: Simulation) -> None:
    await talk(simulation)
    simulation.send(0)
    place = (0, simulation.sent[0])
    simulation.answer(0, Outcome.FAILED)
    simulation.rows.append(Row(place, simulation.now))
    await simulation.look(2)


def erase_for_certain(simulation: Simulation) -> None:
    simulation.forget()
    assert simulation.forgetting is not None
    simulation.forgetting = (simulation.forgetting[0], True)
    simulation._erase()
    simulation._answer_forget(Outcome.OK)


async def forget_for_certain(simulation: Simulation) -> list[tuple[int, int]]:
    said = await talk(simulation)
    await simulation.look(1)
    simulation.now += 5 * SECOND
    erase_for_certain(simulation)
    simulation.deliver()
    await simulation.look(1)
    return said


async def come_back_after_a_forget(simulation: Simulation) -> None:
    said = await forget_for_certain(simulation)
    simulation.rows.append(Row(said[0], simulation.now))
    await simulation.look(2)


async def show_a_participant_what_was_forgotten(simulation: Simulation) -> None:
    said = await forget_for_certain(simulation)
    simulation.rows.append(Row(said[0], simulation.now))
    simulation.take_part()
    drop(simulation, said[0])
    await simulation.look(2)


async def lose_what_was_said_after_a_forget(simulation: Simulation) -> None:
    await forget_for_certain(simulation)
    said = await talk(simulation)
    drop(simulation, said[1])
    await simulation.look(3)


async def expire_too_early(simulation: Simulation) -> None:
    await talk(simulation)
    simulation.rows, simulation.expires = [], 0
    simulation._change()
    await simulation.look(1)
    await simulation.look(2)


async def expire_never(simulation: Simulation) -> None:
    for writer in simulation.watched.book.writers:
        writer.unknown = writer.unknown.minus(writer.unknown)
    await talk(simulation)
    simulation.expires = 0
    simulation.end_session()
    simulation.now += 10 * SECOND
    await simulation.look(2)


async def read_with_a_hole(simulation: Simulation) -> None:
    said = await talk(simulation, 8)
    simulation.hidden = {said[-2]}
    take_part_of_the_last(simulation, 4)
    simulation.hidden = set()
    await simulation.look(2)


async def read_the_oldest(simulation: Simulation) -> None:
    said = await talk(simulation, 10)
    simulation.hidden = set(said[4:])
    take_part_of_the_last(simulation, 4)
    simulation.hidden = set()
    await simulation.look(2)


async def read_too_few(simulation: Simulation) -> None:
    said = await talk(simulation, 8)
    simulation.hidden = set(said[:-2])
    take_part_of_the_last(simulation, 4)
    simulation.hidden = set()
    await simulation.look(2)


async def read_too_many(simulation: Simulation) -> None:
    await talk(simulation, 8)
    take_part_of_the_last(simulation, 4, slack=1)
    await simulation.look(2)


async def read_an_earlier_end(simulation: Simulation) -> None:
    said = await talk(simulation, 8)
    simulation.hidden = set(said[-2:])
    take_part_of_the_last(simulation, 4)
    simulation.hidden = set()
    await simulation.look(2)


async def read_twice_the_same(simulation: Simulation) -> None:
    said = await talk(simulation, 8)
    simulation.rows.append(Row(said[-1], simulation.now))
    take_part_of_the_last(simulation, 4)
    simulation.rows.pop()
    await simulation.look(2)


async def read_in_another_order(simulation: Simulation) -> None:
    said = await talk(simulation, 8)
    swap(simulation, said[-1], said[-2])
    take_part_of_the_last(simulation, 4)
    swap(simulation, said[-1], said[-2])
    await simulation.look(2)


def take_part_of_the_last(simulation: Simulation, last: int, slack: int = 0) -> None:
    """Let a participant read the last so many, and tell the verifier."""
    simulation.observe(last, simulation.shown()[-last - slack :])
    simulation.deliver()


async def keep_too_few(simulation: Simulation) -> None:
    said = await talk(simulation, 12)
    await simulation.look(1)
    drop(simulation, said[-6])
    await simulation.look(3)


async def lose_the_newest_of_the_kept(simulation: Simulation) -> None:
    said = await talk(simulation, 12)
    drop(simulation, said[-1])
    simulation.rows.insert(0, Row(said[-7], simulation.now))
    await simulation.look(3)


def break_down_strictly(simulation: Simulation, kind: str, times: int = 1) -> None:
    """Begin, or end, a fault in which nothing is lost by itself, whatever the contract allows."""
    allowed, simulation.contract = simulation.contract, Contract()
    for _ in range(times):
        simulation.break_down(kind)
    simulation.contract = allowed


async def crash_and_lose(simulation: Simulation, *lost: int, before_us: int = 0, kind: str = "crash") -> None:
    said = await talk(simulation, 4)
    simulation.now += before_us
    simulation.fault = "given"
    simulation.fault = None
    break_down_strictly(simulation, kind)
    drop(simulation, *(said[at] for at in lost))
    simulation.now += SECOND // 10
    simulation.break_down(kind)
    await simulation.look(4)


async def lose_a_hole_in_a_crash(simulation: Simulation) -> None:
    await crash_and_lose(simulation, 1)


async def lose_too_much_in_a_crash(simulation: Simulation) -> None:
    await crash_and_lose(simulation, 0, 1, 2, 3, before_us=3 * SECOND)


async def lose_a_tail_in_a_pause(simulation: Simulation) -> None:
    await crash_and_lose(simulation, 3, kind="pause")


async def lose_a_tail_in_a_power_cut_that_allows_none(simulation: Simulation) -> None:
    await crash_and_lose(simulation, 3, kind="power_cut")


async def lose_what_was_said_after_the_recovery(simulation: Simulation) -> None:
    await crash_and_lose(simulation)
    (said,) = await talk(simulation, 1)
    drop(simulation, said)
    await simulation.look(3)


async def lose_what_had_survived(simulation: Simulation) -> None:
    said = await talk(simulation, 4)
    break_down_strictly(simulation, "crash", times=2)
    await simulation.look(2)
    drop(simulation, said[-1])
    await simulation.look(3)


async def lose_before_the_crash(simulation: Simulation) -> None:
    said = await talk(simulation, 4)
    drop(simulation, said[-1])
    await simulation.look(1)
    break_down_strictly(simulation, "crash", times=2)
    await simulation.look(4)


async def corrupt_unseen(simulation: Simulation) -> None:
    said = await talk(simulation)
    message = AUTHOR.write(SESSION, *said[1])
    row_of(simulation, said[1]).item = msgspec.structs.replace(message, content=message.content + "!")
    await simulation.look(2)


async def duplicate_unseen(simulation: Simulation) -> None:
    said = await talk(simulation)
    simulation.rows.append(Row(said[-1], simulation.now))
    await simulation.look(2)


async def swap_unseen_of_one_writer(simulation: Simulation) -> None:
    said = await talk(simulation, 4)
    swap(simulation, said[0], said[2])
    await simulation.look(2)


async def swap_unseen_of_two_writers(simulation: Simulation) -> None:
    said = await talk(simulation, 4)
    swap(simulation, said[2], said[3])
    await simulation.look(2)


async def swap_what_only_a_glance_has_seen(simulation: Simulation) -> None:
    await talk(simulation)
    await simulation.look(1)
    said = await talk(simulation)
    await simulation.examine(whole=False)
    swap(simulation, said[1], said[2])
    await simulation.look(2)


async def swap_what_was_seen_in_flight(simulation: Simulation) -> None:
    simulation.send(0)
    simulation.apply(0)
    place = (0, simulation.sent[0])
    await simulation.look(1)
    simulation.answer(0, Outcome.OK)
    said = simulation.say(0)
    swap(simulation, place, said)
    await simulation.look(2)


async def lose_an_unknown_one_that_was_seen(simulation: Simulation) -> None:
    await talk(simulation)
    simulation.send(0)
    simulation.apply(0)
    place = (0, simulation.sent[0])
    simulation.answer(0, Outcome.UNKNOWN)
    await simulation.look(2)
    drop(simulation, place)
    await simulation.look(3)


async def hide_in_the_middle(simulation: Simulation) -> None:
    said = await talk(simulation)
    await hide_again(simulation, said[1])


async def hide_from_two_quick_reads(simulation: Simulation) -> None:
    said = await talk(simulation)
    simulation.hidden = {said[-1]}
    await simulation.examine(whole=True)
    await simulation.examine(whole=True)
    simulation.hidden = set()
    await simulation.look(2)


async def hide_during_a_fault(simulation: Simulation) -> None:
    said = await talk(simulation)
    simulation.break_down("pause")
    simulation.is_down = False
    simulation.hidden = {said[-1]}
    await simulation.look(3)
    simulation.break_down("pause")
    simulation.hidden = set()
    await simulation.look(3)


async def hide_from_the_replica_for_long(simulation: Simulation) -> None:
    said = await talk(simulation)
    simulation.now += 2 * SECOND
    await hide_again(simulation, said[-1], looks=3)


async def let_an_unknown_one_appear_in_front(simulation: Simulation) -> None:
    """As where its place was given to it when it was sent, and it came true later: that is its right."""
    simulation.send(0)
    place = (0, simulation.sent[0])
    simulation.answer(0, Outcome.UNKNOWN)
    simulation.late = []
    said = await talk(simulation)
    await simulation.look(1)
    simulation.rows.insert(len(simulation.rows) - len(said), Row(place, simulation.now))
    await simulation.look(2)


async def interleave_writers(simulation: Simulation) -> None:
    """Put what one writer says in front of what another had said before: wrong in time, and right per writer."""
    first = simulation.say(0)
    await simulation.look(1)
    second = simulation.say(1)
    simulation.rows = [row_of(simulation, second), row_of(simulation, first)]
    await simulation.look(2)


async def tell_a_forget_and_what_came_after_at_once(simulation: Simulation) -> None:
    await talk(simulation)
    await simulation.look(1)
    erase_for_certain(simulation)
    simulation.tick()
    simulation.say(0)
    simulation.now += int(1.85 * SECOND)  # it may have expired by now, and has not
    simulation.say(0)
    simulation.deliver()
    await simulation.examine(whole=True)


async def expire_never_after_a_forget(simulation: Simulation) -> None:
    await talk(simulation)
    await simulation.look(1)
    erase_for_certain(simulation)
    simulation.tick()
    simulation.say(0)
    simulation.deliver()
    simulation.expires = 0
    simulation.end_session()
    simulation.now += 10 * SECOND
    await simulation.look(2)


def forget_now(simulation: Simulation, outcome: Outcome = Outcome.OK, *, done: bool = True) -> None:
    """Take a forget from its intent to its answer."""
    simulation.forget()
    assert simulation.forgetting is not None
    if done:
        simulation.forgetting = (simulation.forgetting[0], True)
        simulation._erase()
    simulation._answer_forget(outcome)
    simulation.tick()


async def show_in_flight_what_is_refused(simulation: Simulation) -> None:
    """Let a read show what is refused in the end: a dirty read."""
    simulation.send(0)
    simulation.apply(0)
    await simulation.look(1)
    drop(simulation, (0, simulation.sent[0]))
    simulation.answer(0, Outcome.FAILED)
    await simulation.look(3)


async def race_with_two_forgets(simulation: Simulation) -> None:
    await talk(simulation)
    simulation.send(0)
    forget_now(simulation)
    simulation.forget()
    assert simulation.forgetting is not None
    simulation.forgetting = (simulation.forgetting[0], True)
    simulation._erase()
    simulation.apply(0)
    simulation.answer(0, Outcome.OK)
    simulation._answer_forget(Outcome.OK)
    await simulation.look(2)


async def show_late_what_a_forget_has_erased(simulation: Simulation) -> None:
    await talk(simulation)
    simulation.send(0)
    simulation.apply(0)
    simulation.answer(0, Outcome.UNKNOWN)
    before = tuple(simulation.rows)
    forget_now(simulation)
    simulation.deliver()
    simulation._past = [(0, before, 0)]
    await simulation.examine(whole=True)
    simulation._past = [(0, (), 0)]
    await simulation.look(3)


async def live_on_after_a_forget(simulation: Simulation) -> None:
    simulation.say(0)
    simulation.now += SECOND
    forget_now(simulation)
    simulation.say(0)
    simulation.end_session()
    simulation.now += int(2.5 * SECOND)
    await simulation.examine(whole=True)


async def live_on_after_a_late_forget(simulation: Simulation) -> None:
    simulation.say(0)
    simulation.now += SECOND
    forget_now(simulation, Outcome.UNKNOWN, done=False)
    simulation.say(0)
    simulation.now += SECOND
    simulation._erase()
    simulation.say(0)
    simulation.end_session()
    simulation.now += int(2.5 * SECOND)
    await simulation.examine(whole=True)


async def live_on_by_a_late_append(simulation: Simulation) -> None:
    simulation.say(0)
    simulation.send(1)
    simulation.answer(1, Outcome.UNKNOWN)
    simulation.late = [(1, simulation.sent[1])]
    simulation.now += int(1.7 * SECOND)
    simulation.surface()
    simulation.end_session()
    simulation.now += SECOND
    await simulation.examine(whole=True)


async def swap_what_was_in_flight_for_long(simulation: Simulation) -> None:
    """Its outcome comes after nobody waits for it any more; it bears its order all the same."""
    simulation.send(0)
    simulation.apply(0)
    place = (0, simulation.sent[0])
    for _ in range(4):
        await simulation.look(1)
        simulation.now += 2 * SECOND
    simulation.answer(0, Outcome.OK)
    swap(simulation, place, simulation.say(0))
    await simulation.look(2)


async def hide_behind_one_in_flight(simulation: Simulation) -> None:
    said = await talk(simulation)
    simulation.send(0)
    simulation.apply(0)
    simulation.rows = [row for row in simulation.rows if row.place != said[-1]]
    await simulation.look(1)
    simulation.rows.append(Row(said[-1], simulation.now))
    await simulation.look(1)
    simulation.answer(0, Outcome.UNKNOWN)
    await simulation.look(1)


PER_WRITER = Contract(order=Order.PER_WRITER)

RIGHTS = [
    Flaw("race with two forgets", set(), race_with_two_forgets, steps=0),
    Flaw("late view of what a forget erased", set(), show_late_what_a_forget_has_erased, STALE, steps=0),
    Flaw("life after a forget", set(), live_on_after_a_forget, ABSOLUTE, steps=0),
    Flaw("life after a late forget", set(), live_on_after_a_late_forget, ABSOLUTE, steps=0),
    Flaw("life by a late append", set(), live_on_by_a_late_append, SLIDING, steps=0),
    Flaw("unknown one in front", set(), let_an_unknown_one_appear_in_front),
    Flaw("interleaved writers", set(), interleave_writers, PER_WRITER, steps=0),
    Flaw("forget and more at once", set(), tell_a_forget_and_what_came_after_at_once, SLIDING, steps=0),
]
"""What looks wrong and is not: nothing must be found."""

FLAWS = [
    Flaw("seen in flight and refused", {Kind.PHANTOM}, show_in_flight_what_is_refused, steps=0),
    Flaw("swap what was in flight for long", {Kind.REORDERED}, swap_what_was_in_flight_for_long, PER_WRITER, steps=0),
    Flaw("hide behind one in flight", {Kind.STALE, Kind.REORDERED}, hide_behind_one_in_flight, steps=0),
    Flaw("expire never after a forget", {Kind.RESURRECTED}, expire_never_after_a_forget, ABSOLUTE, steps=0),
    Flaw("corrupt unseen", {Kind.CORRUPTED}, corrupt_unseen),
    Flaw("duplicate unseen", {Kind.DUPLICATED}, duplicate_unseen),
    Flaw("swap unseen of one writer", {Kind.REORDERED}, swap_unseen_of_one_writer, PER_WRITER, steps=0),
    Flaw("swap unseen of two writers", {Kind.REORDERED}, swap_unseen_of_two_writers),
    Flaw("swap what only a glance has seen", {Kind.REORDERED}, swap_what_only_a_glance_has_seen),
    Flaw("swap what was seen in flight", {Kind.REORDERED}, swap_what_was_seen_in_flight, PER_WRITER, steps=0),
    Flaw("lose an unknown one that was seen", {Kind.ROLLED_BACK}, lose_an_unknown_one_that_was_seen),
    Flaw("hide in the middle", {Kind.STALE}, hide_in_the_middle),
    Flaw("hide from two quick reads", {Kind.STALE}, hide_from_two_quick_reads),
    Flaw("hide during a fault", {Kind.STALE}, hide_during_a_fault),
    Flaw("hide from the replica for long", {Kind.STALE}, hide_from_the_replica_for_long, STALE),
    Flaw("lose unseen", {Kind.LOST}, lose_unseen),
    Flaw("lose seen", {Kind.ROLLED_BACK}, lose_seen),
    Flaw("lose everything", {Kind.ROLLED_BACK}, lose_everything),
    Flaw("lose behind a replica", LOSS, lose_unseen, STALE),
    Flaw("hide unseen", {Kind.STALE}, hide_unseen),
    Flaw("hide seen", {Kind.NON_MONOTONIC}, hide_seen),
    Flaw("hide longer than promised", {Kind.STALE}, hide_longer_than_promised, STALE),
    Flaw("swap of one writer", {Kind.REORDERED}, swap_of_one_writer),
    Flaw("swap of two writers", {Kind.REORDERED}, swap_of_two_writers),
    Flaw("appear in the middle", {Kind.NON_MONOTONIC}, appear_in_the_middle),
    Flaw("duplicate", {Kind.DUPLICATED}, duplicate),
    Flaw("corrupt", {Kind.CORRUPTED}, corrupt),
    Flaw("garble", {Kind.UNDECODABLE}, garble),
    Flaw("leak of another session", {Kind.LEAKED}, leak_of_another_session),
    Flaw("leak of another run", {Kind.LEAKED}, leak_of_another_run),
    Flaw("never sent", {Kind.PHANTOM}, never_sent),
    Flaw("refused and there", {Kind.PHANTOM}, refused_and_there),
    Flaw("come back after a forget", {Kind.RESURRECTED}, come_back_after_a_forget),
    Flaw("show a participant what was forgotten", {Kind.RESURRECTED}, show_a_participant_what_was_forgotten),
    Flaw("lose what was said after a forget", {Kind.LOST}, lose_what_was_said_after_a_forget),
    Flaw("expire too early", LOSS, expire_too_early, SLIDING),
    Flaw("expire too early, absolute", LOSS, expire_too_early, ABSOLUTE),
    Flaw("expire never", {Kind.RESURRECTED}, expire_never, SLIDING, steps=0),
    Flaw("expire never, absolute", {Kind.RESURRECTED}, expire_never, ABSOLUTE, steps=0),
    Flaw("read with a hole", {Kind.WINDOW}, read_with_a_hole),
    Flaw("read the oldest", {Kind.WINDOW}, read_the_oldest),
    Flaw("read too few", {Kind.WINDOW}, read_too_few),
    Flaw("read too many", {Kind.WINDOW}, read_too_many),
    Flaw("read an earlier end", {Kind.STALE}, read_an_earlier_end),
    Flaw("read twice the same", {Kind.DUPLICATED}, read_twice_the_same),
    Flaw("read in another order", {Kind.REORDERED}, read_in_another_order),
    Flaw("keep too few", LOSS, keep_too_few, LAST, writers=1),
    Flaw("lose the newest of the kept", LOSS, lose_the_newest_of_the_kept, LAST, writers=1),
    Flaw("lose a hole in a crash", LOSS, lose_a_hole_in_a_crash, LENIENT, steps=0),
    Flaw("lose too much in a crash", LOSS, lose_too_much_in_a_crash, LENIENT, steps=0),
    Flaw("lose a tail in a pause", LOSS, lose_a_tail_in_a_pause, LENIENT, steps=0),
    Flaw("lose a tail in a power cut", LOSS, lose_a_tail_in_a_power_cut_that_allows_none, LENIENT, steps=0),
    Flaw("lose what was said after the recovery", LOSS, lose_what_was_said_after_the_recovery, LENIENT, steps=0),
    Flaw(
        "lose what was said after the recovery of a cache", LOSS, lose_what_was_said_after_the_recovery, CACHE, steps=0
    ),
    Flaw("lose what had survived", LOSS, lose_what_had_survived, LENIENT, steps=0),
    Flaw("lose before the crash", LOSS, lose_before_the_crash, LENIENT, steps=0),
]
