"""Flaws in motion, one for each rule of the consistency model that needs one: in flight, racing, told late."""

from __future__ import annotations

from typing import cast

from soak.checker.contract import Contract
from soak.checker.kinds import Kind
from soak.checker.outcome import Outcome
from soak.verifier.tracked_session import TrackedSession
from tests.support.checker.every_flaw import LENIENT, STALE, Flaw, drop, swap, talk
from tests.support.checker.simulated import SECOND, Row, Simulation

LAST = Contract(retained_messages=4)


def in_flight(simulation: Simulation, writer: int = 0) -> tuple[int, int]:
    """Send a message that is applied and not answered."""
    simulation.send(writer)
    simulation.apply(writer)
    return writer, simulation.sent[writer]


async def take_back_what_was_seen_in_flight(simulation: Simulation) -> None:
    await talk(simulation)
    place = in_flight(simulation)
    await simulation.look(1)
    drop(simulation, place)
    await simulation.look(1)
    simulation.answer(0, Outcome.UNKNOWN)
    simulation.late = []
    await simulation.look(2)


async def show_and_hide_what_is_in_flight(simulation: Simulation) -> None:
    await talk(simulation)
    place = in_flight(simulation)
    await simulation.look(1)
    simulation.hidden = {place}
    await simulation.look(1)
    simulation.hidden = set()
    await simulation.look(1)
    simulation.answer(0, Outcome.OK)
    await simulation.look(2)


async def take_back_and_refuse(simulation: Simulation) -> None:
    await talk(simulation)
    place = in_flight(simulation)
    await simulation.look(1)
    drop(simulation, place)
    await simulation.examine(whole=True)
    simulation.answer(0, Outcome.FAILED)
    await simulation.look(2)


async def swap_two_that_are_in_flight(simulation: Simulation) -> None:
    await talk(simulation)
    one, other = in_flight(simulation, 0), in_flight(simulation, 1)
    await simulation.look(1)
    swap(simulation, one, other)
    await simulation.look(1)
    simulation.answer(0, Outcome.OK)
    simulation.answer(1, Outcome.OK)
    await simulation.look(2)


async def show_a_participant_what_is_taken_back(simulation: Simulation) -> None:
    await talk(simulation)
    await simulation.look(1)
    place = in_flight(simulation)
    simulation.observe(None, simulation.shown())
    drop(simulation, place)
    await simulation.look(2)
    simulation.answer(0, Outcome.UNKNOWN)
    simulation.late = []
    await simulation.look(2)


async def hide_what_the_ledger_tells_late(simulation: Simulation) -> None:
    """Hide what is acknowledged for less time than the ledger needs to tell of it."""
    await talk(simulation)
    await simulation.look(1)
    place = simulation.say(0)
    simulation.hidden = {place}
    await simulation.examine(whole=True)  # the verifier has not heard of it yet
    simulation.hidden = set()
    simulation.deliver()
    await simulation.look(2)


async def stand_in_front_of_what_was_acknowledged_before(simulation: Simulation) -> None:
    first = simulation.say(0)
    simulation.deliver()
    await simulation.look(1)
    second = simulation.say(1)
    simulation.send(0)
    simulation.answer(0, Outcome.UNKNOWN)
    simulation.late = []
    simulation.rows.insert(1, Row((0, simulation.sent[0]), simulation.now))
    assert [row.place for row in simulation.rows] == [first, (0, simulation.sent[0]), second]
    await simulation.look(2)


async def crash(simulation: Simulation, lost: list[tuple[int, int]], *, meanwhile: int = 0) -> list[tuple[int, int]]:
    """Announce a crash, go on for a while, die and lose some, and come back."""
    simulation.faults += 1
    simulation.fault = f"crash-{simulation.faults}"
    simulation._note_fault("start", "crash")
    said = await talk(simulation, meanwhile) if meanwhile else []
    drop(simulation, *lost, *(said[at] for at in range(len(said)) if at == 0))
    simulation._note_fault("injected", "crash")
    simulation.now += SECOND // 10
    simulation._note_fault("end", "crash")
    simulation.fault = None
    simulation.deliver()
    return said


async def lose_a_hole_between_announcement_and_crash(simulation: Simulation) -> None:
    """Say some more after the crash is announced; of those, the first is gone and the others are there."""
    await talk(simulation)
    await simulation.look(1)
    await crash(simulation, [], meanwhile=4)
    await simulation.look(4)


async def lose_an_unknown_one_that_was_seen_long_before_a_crash(simulation: Simulation) -> None:
    await talk(simulation)
    place = in_flight(simulation)
    simulation.answer(0, Outcome.UNKNOWN)
    await simulation.look(2)
    simulation.now += 30 * SECOND
    await crash(simulation, [place])
    await simulation.look(4)


async def notice_a_crash_late(simulation: Simulation) -> None:
    """Let a server restart by itself and lose what it may: nobody says so before it is asked who it is."""
    state = simulation.state
    state.faults.note_sample("redis", simulation.now)
    said = await talk(simulation)
    await simulation.look(1)
    fresh = await talk(simulation, 2)
    died = simulation.now
    drop(simulation, fresh[-1])
    await simulation.look(3)
    assert said
    simulation.faults += 1
    simulation.fault = f"crash-{simulation.faults}"
    # From the last time it was asked, and was the same, until it was another one.
    now, simulation.now = simulation.now, died - SECOND // 2
    simulation._note_fault("start", "crash")
    simulation.now = died
    simulation._note_fault("end", "crash")
    simulation.now, simulation.fault = now + SECOND, None
    simulation.deliver()
    await simulation.look(1)
    state.faults.note_sample("redis", simulation.now)
    await simulation.look(3)


async def be_behind_after_a_fault(simulation: Simulation) -> None:
    """Show an old snapshot while a fault is under way, and for a while after it."""
    said = await talk(simulation)
    await simulation.look(1)
    simulation.break_down("pause")
    simulation.is_down = False
    simulation.now += 2 * SECOND
    simulation.hidden = set(said[1:])
    await simulation.look(1)
    simulation.break_down("pause")
    simulation.hidden = set()
    await simulation.look(3)


async def be_behind_after_it_has_caught_up(simulation: Simulation) -> None:
    said = await talk(simulation)
    simulation.break_down("pause")
    simulation.break_down("pause")
    simulation.deliver()
    await simulation.look(3)
    simulation.now += 2 * SECOND
    simulation.hidden = set(said[-1:])
    await simulation.look(1)
    simulation.hidden = set()
    await simulation.look(2)


async def lose_what_a_forget_had_left(simulation: Simulation) -> None:
    """Say something while a forget is under way; a read behind it shows that it stayed; then lose it."""
    await talk(simulation)
    simulation.forget()
    simulation.send(0)
    assert simulation.forgetting is not None
    simulation.forgetting = (simulation.forgetting[0], True)
    simulation._erase()
    simulation.apply(0)
    place = (0, simulation.sent[0])
    simulation.answer(0, Outcome.OK)
    simulation._answer_forget(Outcome.OK)
    await simulation.look(2)
    drop(simulation, place)
    await simulation.look(3)


async def lose_during_a_refused_forget(simulation: Simulation) -> None:
    said = await talk(simulation)
    simulation.deliver()
    simulation.forget()
    drop(simulation, said[1])
    simulation.deliver()
    await simulation.examine(whole=True)
    simulation._answer_forget(Outcome.FAILED)
    await simulation.look(3)


async def lose_the_newest_of_several_writers(simulation: Simulation) -> None:
    """Keep the last four; the newest is gone, the first of its writer, and an older one stands in its place."""
    said = [simulation.say(0) for _ in range(6)]
    newest = simulation.say(1)
    drop(simulation, newest)
    simulation.rows.insert(0, Row(said[2], simulation.now))
    await simulation.look(3)


async def leak_beside_an_odd_end(simulation: Simulation) -> None:
    """Show, at the end only, a message of another session with a number that this one has, too."""
    from tests.support.checker.simulated import AUTHOR  # noqa: PLC0415  only here

    said = await talk(simulation)
    await simulation.look(1)
    await talk(simulation, 1)
    writer, seq = said[0]
    simulation.rows.append(Row((9, 9), simulation.now, AUTHOR.write("other-chat", writer, seq)))
    await simulation.examine(whole=False)
    await simulation.look(1)


async def raise_for_one_session(simulation: Simulation) -> None:
    await talk(simulation)
    await simulation.look(1)
    await fail_to_read(simulation, others_are_answered=True)


async def raise_for_all(simulation: Simulation) -> None:
    await talk(simulation)
    await simulation.look(1)
    await fail_to_read(simulation, others_are_answered=False)


async def fail_to_read(simulation: Simulation, *, others_are_answered: bool) -> None:
    examiner, other = simulation.examiner, cast("TrackedSession", object())
    examiner._answered.note(other, simulation.now)
    for turn in range(5):
        if others_are_answered or turn == 1:
            examiner._answered.note(other, simulation.now)
        else:
            examiner._failed.note(other, simulation.now)
        simulation.is_down = True  # and no fault is told of
        simulation.now += SECOND // 2
        await examiner.examine(simulation.watched, whole=True)
        simulation.is_down = False


RULES_KEPT = [
    Flaw("replica behind after a fault", set(), be_behind_after_a_fault, STALE, steps=0),
    Flaw("crash that is noticed late", set(), notice_a_crash_late, LENIENT, steps=0),
    Flaw("raise for all", set(), raise_for_all, steps=0),
    Flaw("replica behind what the ledger tells late", set(), hide_what_the_ledger_tells_late, STALE, steps=0),
]
"""What looks wrong and is not: nothing must be found."""

RULES_BROKEN = [
    Flaw("take back what was seen in flight", {Kind.ROLLED_BACK}, take_back_what_was_seen_in_flight, steps=0),
    Flaw("show and hide what is in flight", {Kind.NON_MONOTONIC}, show_and_hide_what_is_in_flight, steps=0),
    Flaw("take back and refuse", {Kind.PHANTOM}, take_back_and_refuse, steps=0),
    Flaw("swap two that are in flight", {Kind.REORDERED}, swap_two_that_are_in_flight, steps=0),
    Flaw("show a participant what is taken back", {Kind.ROLLED_BACK}, show_a_participant_what_is_taken_back, steps=0),
    Flaw("hide what the ledger tells late", {Kind.STALE}, hide_what_the_ledger_tells_late, steps=0),
    Flaw(
        "unknown one in front of what was acknowledged before",
        {Kind.REORDERED},
        stand_in_front_of_what_was_acknowledged_before,
        steps=0,
    ),
    Flaw(
        "lose a hole between announcement and crash",
        {Kind.LOST},
        lose_a_hole_between_announcement_and_crash,
        LENIENT,
        steps=0,
    ),
    Flaw(
        "lose an unknown one seen long before a crash",
        {Kind.ROLLED_BACK},
        lose_an_unknown_one_that_was_seen_long_before_a_crash,
        LENIENT,
        steps=0,
    ),
    Flaw(
        "replica behind after it has caught up", {Kind.NON_MONOTONIC}, be_behind_after_it_has_caught_up, STALE, steps=0
    ),
    Flaw("lose what a forget had left", {Kind.ROLLED_BACK}, lose_what_a_forget_had_left, steps=0),
    Flaw("lose during a refused forget", {Kind.LOST}, lose_during_a_refused_forget, steps=0),
    Flaw("lose the newest of several writers", {Kind.LOST}, lose_the_newest_of_several_writers, LAST, steps=0),
    Flaw("leak beside an odd end", {Kind.LEAKED}, leak_beside_an_odd_end, steps=0),
    Flaw("raise for one session", {Kind.UNDECODABLE}, raise_for_one_session, steps=0),
]
