"""The reference judge itself: each rule on a history small enough to judge by hand, then on many random ones.

Times are milliseconds. In these histories a plain number is a message of writer 1; (2, 1) is writer 2's first.
"""

from __future__ import annotations

import ast
import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.reference import judge as judge_module
from tests.reference.adapter import Way, compare, explain, shrink
from tests.reference.findings import Verdict
from tests.reference.flaws import FLAWS
from tests.reference.generator import correct, flawed
from tests.reference.history import (
    MILLISECOND,
    VERIFIER,
    Attempt,
    Contract,
    Event,
    Excuse,
    Expiry,
    Fault,
    Forget,
    History,
    Item,
    MessageId,
    Order,
    Outcome,
    Read,
    ReadReturned,
    Source,
    Unreadable,
    events,
)
from tests.reference.judge import DECISIONS, judge
from tests.reference.simulation import CONTRACTS

pytestmark = pytest.mark.no_cover

OK, FAILED, UNKNOWN = Outcome.OK, Outcome.FAILED, Outcome.UNKNOWN
REPLICA = Source.REPLICA
SETTLE = 100
STRICT = Contract()
CRASH_TAIL = Contract(crash_loss=1000 * MILLISECOND)
CACHE = Contract(crash_loss=None)
BOUNDED = Contract(staleness=500 * MILLISECOND)
EVENTUAL = Contract(staleness=None)
PER_WRITER = Contract(order=Order.PER_WRITER)
UNORDERED = Contract(order=Order.NONE)
LAST_TWO = Contract(retained=2)
SLIDING = Contract(ttl=1000 * MILLISECOND, expiry=Expiry.SLIDING)
ABSOLUTE = Contract(ttl=1000 * MILLISECOND, expiry=Expiry.ABSOLUTE)

Happened = Attempt | Forget | Read | Fault
Name = int | tuple[int, int] | tuple[int, int, int]


def name(message: Name) -> MessageId:
    """Return a message's id from (session, writer, seq), (writer, seq) or seq."""
    parts = message if isinstance(message, tuple) else (message,)
    return MessageId(*(*(1, 1)[: 3 - len(parts)], *parts))


def wrote(
    message: Name, sent: int, ended: int | None = None, outcome: Outcome = OK, delivered: int | str | None = "soon"
) -> Attempt:
    end = sent + 10 if ended is None else ended
    at = end + 5 if delivered == "soon" else delivered
    assert not isinstance(at, str)
    return Attempt(
        name(message), sent * MILLISECOND, end * MILLISECOND, outcome, at if at is None else at * MILLISECOND
    )


def forgot(sent: int, ended: int, outcome: Outcome = OK, delivered: int | str | None = "soon") -> Forget:
    at = ended + 5 if delivered == "soon" else delivered
    assert not isinstance(at, str)
    return Forget(1, sent * MILLISECOND, ended * MILLISECOND, outcome, at if at is None else at * MILLISECOND)


def read(at: int, *messages: Name | Unreadable | Item, source: Source = Source.PRIMARY, session: int = 1) -> Read:
    return Read(session, VERIFIER, source, at * MILLISECOND, (at + 2) * MILLISECOND, _items(messages))


def swept(at: int, *messages: Name) -> tuple[Read, Read]:
    """Every session is read once; the first of them shows these messages."""
    return read(at, *messages), read(at, session=2)


def raised(at: int) -> Read:
    return Read(1, VERIFIER, Source.PRIMARY, at * MILLISECOND, (at + 2) * MILLISECOND, None)


def window(at: int, last: int, *messages: Name | Item, reader: int = 1, source: Source = Source.PRIMARY) -> Read:
    return Read(1, reader, source, at * MILLISECOND, (at + 2) * MILLISECOND, _items(messages), last)


def _items(messages: tuple[Name | Unreadable | Item, ...]) -> tuple[Item | Unreadable, ...]:
    return tuple(m if isinstance(m, Item | Unreadable) else Item(name(m)) for m in messages)


def altered(message: Name) -> Item:
    return Item(name(message), intact=False)


def crash(
    started: int,
    ended: int,
    *,
    injected: int | None = None,
    excuse: Excuse = Excuse.CRASH,
    target: Source = Source.PRIMARY,
    caught_up: int | None = None,
    leaves_old: bool = False,
) -> Fault:
    effect = started if injected is None else injected
    caught = None if caught_up is None else caught_up * MILLISECOND
    return Fault(excuse, started * MILLISECOND, effect * MILLISECOND, ended * MILLISECOND, target, caught, leaves_old)


def history(*happened: Happened, contract: Contract = STRICT) -> History:
    attempts = sorted((x for x in happened if isinstance(x, Attempt)), key=lambda a: a.sent)
    reads = sorted((x for x in happened if isinstance(x, Read)), key=lambda r: r.invoked)
    return History(
        contract=contract,
        settle=SETTLE * MILLISECOND,
        attempts=tuple(attempts),
        forgets=tuple(x for x in happened if isinstance(x, Forget)),
        reads=tuple(reads),
        faults=tuple(x for x in happened if isinstance(x, Fault)),
        sessions=(1, 2),
        planted="by hand",
    )


def demanded(*happened: Happened, contract: Contract = STRICT) -> set[str]:
    """Return what must be reported: kinds and messages, alternatives with "or"."""
    return {
        " or ".join(sorted(f"{f.kind} {_short(f.message)}".strip() for f in obligation))
        for obligation in judge(history(*happened, contract=contract)).must
    }


def verdict(*happened: Happened, contract: Contract = STRICT) -> Verdict:
    return judge(history(*happened, contract=contract)).verdict


def reasons(*happened: Happened, contract: Contract = STRICT) -> set[str]:
    return set().union(*judge(history(*happened, contract=contract)).may.values())


def _short(message: MessageId) -> str:
    if message.writer == 0:
        return ""
    if message.session != 1:
        return f"{message.session}/{message.writer}/{message.seq}"
    return str(message.seq) if message.writer == 1 else f"{message.writer}/{message.seq}"


# ---------------------------------------------------------------------------------------------------------------------
# Absence


def test_the_reference_shares_nothing_with_what_it_judges() -> None:
    """It would repeat a mistake that it imports."""
    for path in Path(judge_module.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                assert name.partition(".")[0] in {"__future__", "tests"} | sys.stdlib_module_names, (
                    f"{path.name}: {name}"
                )
                assert not name.startswith("tests.") or name.startswith("tests.reference"), f"{path.name}: {name}"


def test_a_history_that_shows_what_was_acknowledged_is_clean() -> None:
    assert verdict(wrote(1, 0), wrote(2, 20), read(50, 1, 2), read(300, 1, 2)) is Verdict.CLEAN


def test_an_acknowledged_message_that_two_reads_lack_is_lost() -> None:
    assert demanded(wrote(1, 0), wrote(2, 20), read(50, 1), read(300, 1)) == {"lost 2"}


def test_an_empty_list_is_an_answer() -> None:
    assert demanded(wrote(1, 0), read(50), read(300)) == {"lost 1"}


def test_a_read_that_raised_is_unavailability() -> None:
    assert verdict(wrote(1, 0), raised(50), read(300, 1)) is Verdict.CLEAN


def test_absence_without_a_second_look_is_no_finding() -> None:
    assert verdict(wrote(1, 0), read(50)) is Verdict.CLEAN


def test_a_second_look_before_the_settle_time_confirms_nothing() -> None:
    assert verdict(wrote(1, 0), read(50), read(120)) is Verdict.CLEAN


def test_a_second_look_during_a_fault_confirms_nothing() -> None:
    stall = crash(200, 400, excuse=Excuse.NOTHING)
    assert verdict(wrote(1, 0), read(50), read(300), stall) is Verdict.CLEAN
    assert demanded(wrote(1, 0), read(50), read(300), stall, *swept(450), read(600)) == {"lost 1"}


def test_a_second_look_before_every_session_was_read_since_the_fault_may_confirm_or_not() -> None:
    stall = crash(200, 400, excuse=Excuse.NOTHING)
    first_read: list[Happened] = [wrote(1, 0), read(50), stall, read(600)]
    for unswept in (first_read, [*first_read, read(450)], [*first_read, read(450, session=2)]):
        assert demanded(*unswept) == set()
        assert "swept-first" in reasons(*unswept)


def test_a_second_look_at_a_replica_confirms_nothing() -> None:
    assert verdict(wrote(1, 0), read(600), read(900, source=REPLICA), contract=BOUNDED) is Verdict.CLEAN


def test_a_message_acknowledged_during_a_read_may_be_absent_from_it() -> None:
    assert verdict(wrote(1, 0, 51), read(50), read(300, 1)) is Verdict.CLEAN


def test_a_message_that_was_shown_and_is_gone_is_rolled_back() -> None:
    assert demanded(wrote(1, 0), read(50, 1), read(100), read(300)) == {"rolled_back 1"}


def test_a_message_that_only_a_participant_saw_is_gone_under_either_name() -> None:
    assert demanded(wrote(1, 0), window(20, 5, 1), read(100), read(300)) == {"lost 1 or rolled_back 1"}


def test_a_message_that_is_shown_late_is_stale() -> None:
    assert demanded(wrote(1, 0), read(50), read(80, 1)) == {"stale 1"}


def test_staleness_is_judged_by_the_acknowledgement_however_late_its_record_arrives() -> None:
    assert demanded(wrote(1, 0, delivered=500), read(50), read(80, 1), read(600, 1)) == {"stale 1"}


def test_a_message_that_comes_back_after_its_loss_was_confirmed_is_one_or_the_other() -> None:
    assert demanded(wrote(1, 0), read(50), read(300), read(500, 1)) == {"lost 1 or stale 1"}


def test_a_message_that_was_shown_then_hidden_then_shown_is_non_monotonic() -> None:
    assert demanded(wrote(1, 0), read(50, 1), read(60), read(80, 1)) == {"non_monotonic 1"}


def test_an_unknown_write_that_nobody_saw_proves_no_loss() -> None:
    assert verdict(wrote(1, 0, outcome=UNKNOWN), read(50), read(300)) is Verdict.CLEAN


def test_an_unknown_write_may_appear_late_and_behind_what_was_sent_after_it() -> None:
    late: list[Happened] = [wrote(1, 0, outcome=UNKNOWN), wrote(2, 20), read(50, 2), read(300, 2, 1)]
    assert verdict(*late) is Verdict.CLEAN


def test_an_unknown_write_that_was_seen_and_taken_back_is_rolled_back() -> None:
    assert demanded(wrote(1, 0, outcome=UNKNOWN), read(50, 1), read(100), read(300)) == {"rolled_back 1"}


def test_a_message_seen_in_flight_and_taken_back_is_rolled_back_though_its_outcome_never_arrives() -> None:
    assert demanded(wrote(1, 0, 80, UNKNOWN, None), read(50, 1), read(100), read(300)) == {"rolled_back 1"}


def test_a_message_seen_in_flight_then_hidden_then_acknowledged_is_non_monotonic() -> None:
    assert demanded(wrote(1, 0, 200), read(50, 1), read(60), read(300, 1)) == {"non_monotonic 1"}


def test_an_acknowledgement_that_never_arrives_proves_no_loss() -> None:
    assert verdict(wrote(1, 0, delivered=None), read(50), read(300)) is Verdict.CLEAN


# ---------------------------------------------------------------------------------------------------------------------
# What stands in a read


def test_a_refused_message_that_is_visible_is_a_phantom() -> None:
    assert demanded(wrote(1, 0, outcome=FAILED), read(50, 1)) == {"phantom 1"}


def test_a_refused_message_that_was_visible_in_flight_only_is_a_phantom() -> None:
    assert demanded(wrote(1, 0, 200, FAILED), read(50, 1), read(300), read(600)) == {"phantom 1"}


def test_a_refusal_that_the_verifier_never_learns_of_makes_no_phantom() -> None:
    assert verdict(wrote(1, 0, outcome=FAILED, delivered=None), read(50, 1)) is Verdict.CLEAN


def test_a_message_beyond_every_lease_is_a_phantom() -> None:
    assert demanded(wrote(1, 0), read(50, 1, 99)) == {"phantom 99"}


def test_a_message_of_a_writer_that_does_not_exist_is_a_phantom() -> None:
    assert demanded(wrote(1, 0), read(50, 1, (7, 1))) == {"phantom 7/1"}


def test_a_leased_message_that_was_never_sent_is_undecided() -> None:
    assert verdict(wrote(1, 0), read(50, 1, 2)) is Verdict.UNDECIDED


def test_a_message_that_stands_twice_is_duplicated() -> None:
    assert demanded(wrote(1, 0), read(50, 1, 1)) == {"duplicated 1"}


def test_an_unknown_write_that_stands_twice_is_duplicated() -> None:
    assert demanded(wrote(1, 0, outcome=UNKNOWN), read(50, 1, 1)) == {"duplicated 1"}


def test_a_store_that_retries_may_show_a_message_twice() -> None:
    assert verdict(wrote(1, 0), read(50, 1, 1), contract=Contract(at_least_once=True)) is Verdict.CLEAN


def test_altered_content_is_corrupted_and_not_lost() -> None:
    assert demanded(wrote(1, 0), read(50, altered(1)), read(300, altered(1))) == {"corrupted 1"}


def test_an_unreadable_item_is_undecodable_and_what_it_replaced_is_undecided() -> None:
    bad = Unreadable("x")
    assert demanded(wrote(1, 0), read(50, bad), read(300, bad)) == {"undecodable"}
    assert "unreadable-in-its-place" in reasons(wrote(1, 0), read(50, bad), read(300, bad))


def test_a_session_that_raises_three_times_while_another_answers_is_undecodable() -> None:
    thrice: list[Happened] = [wrote(1, 0), raised(50), raised(150), raised(250)]
    others = [read(at, session=2) for at in (40, 100, 200)]
    assert demanded(*thrice, *others) == {"undecodable"}
    assert verdict(*thrice) is Verdict.CLEAN
    assert verdict(*thrice, *others, crash(60, 90)) is Verdict.CLEAN


def test_a_message_of_another_session_is_leaked() -> None:
    assert demanded(wrote((2, 1, 1), 0), read(50, (2, 1, 1)), read(60, (2, 1, 1), session=2)) == {"leaked 2/1/1"}


# ---------------------------------------------------------------------------------------------------------------------
# Order


def test_one_writers_messages_out_of_order_are_reordered() -> None:
    swapped: list[Happened] = [wrote(1, 0), wrote(2, 20), read(50, 2, 1)]
    assert demanded(*swapped) == {"reordered 1 or reordered 2"}
    assert demanded(*swapped, contract=PER_WRITER) == {"reordered 1 or reordered 2"}
    assert verdict(*swapped, contract=UNORDERED) is Verdict.CLEAN


def test_what_was_acknowledged_before_another_writers_message_was_sent_stands_before_it() -> None:
    swapped: list[Happened] = [wrote(1, 0), wrote((2, 1), 20), read(50, (2, 1), 1)]
    assert demanded(*swapped) == {"reordered 1 or reordered 2/1"}
    assert verdict(*swapped, contract=PER_WRITER) is Verdict.CLEAN


def test_concurrent_messages_may_stand_in_either_order() -> None:
    assert verdict(wrote(1, 0, 30), wrote((2, 1), 20), read(50, (2, 1), 1)) is Verdict.CLEAN


def test_an_unknown_write_in_front_of_what_was_acknowledged_before_it_was_sent_is_reordered() -> None:
    assert demanded(wrote(1, 0), wrote(2, 20, outcome=UNKNOWN), read(50, 2, 1)) == {"reordered 1 or reordered 2"}


def test_an_unknown_write_is_concurrent_with_what_was_sent_after_it() -> None:
    assert verdict(wrote(1, 0, outcome=UNKNOWN), wrote(2, 20), read(50, 2, 1)) is Verdict.CLEAN


def test_two_reads_that_order_a_pair_differently_are_a_finding_even_in_flight() -> None:
    racing: list[Happened] = [wrote(1, 0, 200), wrote((2, 1), 0, 200), read(50, 1, (2, 1)), read(100, (2, 1), 1)]
    assert len(demanded(*racing)) == 1
    assert "reordered 1" in next(iter(demanded(*racing)))
    assert reasons(*racing, contract=PER_WRITER) == {"pair-of-two-writers"}
    assert verdict(*racing, contract=UNORDERED) is Verdict.CLEAN


def test_an_order_whose_times_never_arrive_is_undecided() -> None:
    assert verdict(wrote(1, 0), wrote((2, 1), 20, delivered=None), read(50, (2, 1), 1)) is Verdict.UNDECIDED


def test_what_is_inserted_in_front_of_what_was_shown_may_be_reported() -> None:
    late: list[Happened] = [wrote(1, 0, 200), wrote((2, 1), 0), read(50, (2, 1)), read(300, 1, (2, 1))]
    assert reasons(*late) == {"late-insertion"}


# ---------------------------------------------------------------------------------------------------------------------
# Faults


def test_a_strict_store_loses_nothing_in_a_crash() -> None:
    assert demanded(wrote(1, 0), read(20, 1), crash(50, 100), *swept(200), read(400)) == {"rolled_back 1"}


def test_the_promised_tail_may_vanish_in_a_crash() -> None:
    assert verdict(
        wrote(1, 0), wrote(2, 2000), crash(2100, 2200), *swept(2400, 1), read(2700, 1), contract=CRASH_TAIL
    ) is (Verdict.CLEAN)


def test_a_crash_promise_excuses_no_power_cut_and_no_failover() -> None:
    for excuse in (Excuse.POWER, Excuse.FAILOVER, Excuse.CLEAN, Excuse.NOTHING):
        fault = crash(2100, 2200, excuse=excuse)
        assert demanded(wrote(1, 2000), fault, *swept(2400), read(2700), contract=CRASH_TAIL) == {"lost 1"}


def test_more_than_the_promised_tail_is_lost() -> None:
    tail: list[Happened] = [wrote(1, 0), wrote(2, 2000), crash(2100, 2200), *swept(2400), read(2700)]
    assert demanded(*tail, contract=CRASH_TAIL) == {"lost 1"}


def test_too_old_for_the_announcement_only_is_undecided() -> None:
    # 1 s before the injection is after, 1 s before the announcement is not.
    tail: list[Happened] = [wrote(1, 1150), crash(2100, 2300, injected=2250), *swept(2500), read(2700)]
    assert verdict(*tail, contract=CRASH_TAIL) is Verdict.UNDECIDED


def test_a_hole_in_the_tail_is_lost() -> None:
    tail: list[Happened] = [wrote(1, 2000), wrote(2, 2020), crash(2100, 2200), *swept(2400, 2), read(2700, 2)]
    assert demanded(*tail, contract=CRASH_TAIL) == {"lost 1"}
    assert verdict(*tail, contract=CACHE) is Verdict.CLEAN


def test_a_survivor_between_announcement_and_injection_proves_a_hole() -> None:
    tail: list[Happened] = [
        wrote(1, 2000),
        wrote(2, 2120),
        crash(2100, 2200, injected=2150),
        *swept(2400, 2),
        read(2700, 2),
    ]
    assert demanded(*tail, contract=CRASH_TAIL) == {"lost 1"}


def test_a_survivor_acknowledged_after_the_injection_proves_nothing() -> None:
    tail: list[Happened] = [
        wrote(1, 2000),
        wrote(2, 2160),
        crash(2100, 2200, injected=2150),
        *swept(2400, 2),
        read(2700, 2),
    ]
    assert verdict(*tail, contract=CRASH_TAIL) is Verdict.CLEAN


def test_a_survivor_of_another_session_proves_a_hole() -> None:
    tail: list[Happened] = [wrote(1, 2000), wrote((2, 1, 1), 2020), crash(2100, 2200), read(2400), read(2700)]
    assert demanded(*tail, read(2500, (2, 1, 1), session=2), contract=CRASH_TAIL) == {"lost 1"}


def test_a_concurrent_survivor_proves_no_hole() -> None:
    tail: list[Happened] = [
        wrote(1, 2000, 2030),
        wrote((2, 1), 2020),
        crash(2100, 2200),
        *swept(2400, (2, 1)),
        read(2700, (2, 1)),
    ]
    assert verdict(*tail, contract=CRASH_TAIL) is Verdict.CLEAN


def test_what_was_acknowledged_after_recovery_is_never_excused() -> None:
    tail: list[Happened] = [wrote(1, 2250), crash(2100, 2200), *swept(2400), read(2700)]
    assert demanded(*tail, contract=CRASH_TAIL) == {"lost 1"}
    assert demanded(*tail, contract=CACHE) == {"lost 1"}


def test_what_a_read_shows_after_a_fault_has_survived_it() -> None:
    tail: list[Happened] = [wrote(1, 2000), crash(2100, 2200), *swept(2300, 1), read(2400), read(2700)]
    assert demanded(*tail, contract=CRASH_TAIL) == {"rolled_back 1"}


def test_an_unknown_write_is_dated_by_the_last_read_that_showed_it() -> None:
    def seen(at: int) -> list[Happened]:
        return [wrote(1, 0, outcome=UNKNOWN), read(at, 1), crash(2100, 2200), *swept(2400), read(2700)]

    assert demanded(*seen(50), contract=CRASH_TAIL) == {"rolled_back 1"}
    assert verdict(*seen(2000), contract=CRASH_TAIL) is Verdict.CLEAN


def test_a_cache_loses_nothing_without_a_fault() -> None:
    assert demanded(wrote(1, 0), read(50), read(300), contract=CACHE) == {"lost 1"}


def test_eviction_may_take_anything_at_any_time() -> None:
    evicted: list[Happened] = [wrote(1, 0), wrote(2, 20), read(50, 1, 2), read(100, 2), read(300, 2)]
    assert verdict(*evicted, contract=Contract(eviction=True)) is Verdict.CLEAN


# ---------------------------------------------------------------------------------------------------------------------
# Freshness and replicas


def test_a_read_within_the_staleness_bound_may_lack_a_message() -> None:
    lagging: list[Happened] = [wrote(1, 0), read(400, source=REPLICA), read(900, 1, source=REPLICA)]
    assert verdict(*lagging, contract=BOUNDED) is Verdict.CLEAN


def test_a_read_beyond_the_staleness_bound_is_stale() -> None:
    lagging: list[Happened] = [wrote(1, 0), read(600, source=REPLICA), read(900, 1, source=REPLICA)]
    assert demanded(*lagging, contract=BOUNDED) == {"stale 1"}
    assert verdict(*lagging, contract=EVENTUAL) is Verdict.CLEAN


def test_an_eventual_store_loses_a_message_that_never_appears() -> None:
    assert demanded(wrote(1, 0), read(600), read(900), contract=EVENTUAL) == {"lost 1"}


def test_a_replica_that_goes_back_is_non_monotonic_within_the_bound() -> None:
    back: list[Happened] = [
        wrote(1, 0),
        read(50, 1, source=REPLICA),
        read(100, source=REPLICA),
        read(200, 1, source=REPLICA),
    ]
    assert demanded(*back, contract=BOUNDED) == {"non_monotonic 1"}


def test_a_replica_may_be_behind_what_the_primary_has_shown() -> None:
    behind: list[Happened] = [wrote(1, 0), read(50, 1), read(100, source=REPLICA), read(200, 1, source=REPLICA)]
    assert verdict(*behind, contract=BOUNDED) is Verdict.CLEAN


def test_late_reads_from_a_replica_are_tolerated_from_a_fault_until_it_has_caught_up() -> None:
    fault = crash(700, 800, target=REPLICA, caught_up=1000)
    older: list[Happened] = [wrote(1, 0), read(600, 1, source=REPLICA), fault]
    tolerated: list[Happened] = [*older, read(900, source=REPLICA), read(1100, 1, source=REPLICA)]
    assert verdict(*tolerated, contract=BOUNDED) is Verdict.CLEAN
    assert demanded(*tolerated, contract=replace(BOUNDED, strict_replica=True)) == {"non_monotonic 1"}
    too_late: list[Happened] = [*older, read(1050, source=REPLICA), read(1100, 1, source=REPLICA)]
    assert demanded(*too_late, contract=BOUNDED) == {"non_monotonic 1"}


def test_a_survivor_that_only_a_replica_shows_decides_nothing() -> None:
    contract = replace(CRASH_TAIL, staleness=500 * MILLISECOND)
    tail: list[Happened] = [
        wrote(1, 2000),
        wrote(2, 2020),
        crash(2100, 2200),
        read(2400, 1, 2, source=REPLICA),
        read(3000),
        read(3300),
    ]
    assert verdict(*tail, contract=contract) is Verdict.UNDECIDED


# ---------------------------------------------------------------------------------------------------------------------
# Forgets


def test_what_was_acknowledged_before_a_forget_must_be_gone() -> None:
    assert demanded(wrote(1, 0), forgot(50, 60), read(100, 1)) == {"resurrected 1"}
    assert verdict(wrote(1, 0), forgot(50, 60), read(100), read(300)) is Verdict.CLEAN


def test_an_unknown_write_that_was_seen_before_a_forget_must_be_gone() -> None:
    assert demanded(wrote(1, 0, outcome=UNKNOWN), read(20, 1), forgot(50, 60), read(100, 1)) == {"resurrected 1"}


def test_an_unknown_write_may_surface_after_a_forget() -> None:
    assert verdict(wrote(1, 0, outcome=UNKNOWN), forgot(50, 60), read(100, 1)) is Verdict.CLEAN


def test_what_raced_with_a_forget_may_be_there_or_not() -> None:
    racing: list[Happened] = [wrote(1, 40, 70), forgot(50, 60)]
    assert verdict(*racing, read(100, 1), read(300, 1)) is Verdict.CLEAN
    assert verdict(*racing, read(100), read(300)) is Verdict.CLEAN


def test_a_read_that_shows_it_behind_the_forget_ends_the_excuse() -> None:
    assert demanded(wrote(1, 40, 70), forgot(50, 60), read(100, 1), read(200), read(400)) == {"rolled_back 1"}


def test_a_store_that_retries_may_write_again_behind_a_forget_until_it_replies() -> None:
    retried: list[Happened] = [wrote(1, 0, 70), read(20, 1), forgot(50, 60), read(100, 1)]
    assert demanded(*retried) == {"resurrected 1"}
    assert demanded(*retried, contract=Contract(at_least_once=True)) == set()


def test_what_was_sent_after_a_forget_must_be_there() -> None:
    assert demanded(forgot(50, 60), wrote(1, 70), read(100), read(300)) == {"lost 1"}


def test_a_refused_forget_excuses_nothing() -> None:
    assert demanded(wrote(1, 0), forgot(50, 60, FAILED), read(100), read(300)) == {"lost 1"}
    assert verdict(wrote(1, 0), forgot(50, 60, FAILED), read(100, 1)) is Verdict.CLEAN


def test_a_forget_of_unknown_outcome_excuses_and_proves_nothing() -> None:
    assert verdict(wrote(1, 0), forgot(50, 60, UNKNOWN), read(100), read(300)) is Verdict.CLEAN
    assert verdict(wrote(1, 0), forgot(50, 60, UNKNOWN), read(100, 1)) is Verdict.CLEAN
    assert verdict(wrote(1, 0), forgot(50, 60, OK, None), read(100, 1)) is Verdict.CLEAN


def test_a_forget_that_a_crash_may_have_taken_leaves_it_open() -> None:
    undone: list[Happened] = [wrote(1, 0), forgot(2000, 2010), crash(2100, 2200), read(2400, 1)]
    assert verdict(*undone, contract=CRASH_TAIL) is Verdict.UNDECIDED
    assert demanded(*undone) == {"resurrected 1"}


# ---------------------------------------------------------------------------------------------------------------------
# Time to live


def test_an_expired_message_must_be_gone() -> None:
    for contract in (SLIDING, ABSOLUTE):
        assert demanded(wrote(1, 0), read(1050, 1), contract=contract) == {"resurrected 1"}


def test_between_send_and_acknowledgement_expiry_is_undecided_and_no_finding() -> None:
    for contract in (SLIDING, ABSOLUTE):
        assert verdict(wrote(1, 0, 100), read(1050, 1), contract=contract) is Verdict.CLEAN
        assert verdict(wrote(1, 0, 100), read(1050), read(1500), contract=contract) is Verdict.CLEAN


def test_a_message_must_exist_until_its_time() -> None:
    for contract in (SLIDING, ABSOLUTE):
        assert demanded(wrote(1, 0), read(500), read(900), contract=contract) == {"lost 1"}


def test_each_append_prolongs_a_sliding_life_only() -> None:
    twice: list[Happened] = [wrote(1, 0), wrote(2, 800), read(1100), read(1300)]
    assert demanded(*twice, contract=SLIDING) == {"lost 1", "lost 2"}
    assert verdict(*twice, contract=ABSOLUTE) is Verdict.CLEAN
    assert demanded(wrote(1, 0), wrote(2, 800), read(1100, 1, 2), contract=ABSOLUTE) == {
        "resurrected 1",
        "resurrected 2",
    }


def test_an_absolute_life_may_have_begun_with_an_unknown_write() -> None:
    begun: list[Happened] = [wrote(1, 0, outcome=UNKNOWN), wrote(2, 500), read(1100), read(1300)]
    assert verdict(*begun, contract=ABSOLUTE) is Verdict.CLEAN
    refused: list[Happened] = [wrote(1, 0, outcome=FAILED), wrote(2, 500), read(1100), read(1300)]
    assert demanded(*refused, contract=ABSOLUTE) == {"lost 2"}


def test_what_is_written_after_expiry_begins_a_new_life() -> None:
    again: list[Happened] = [wrote(1, 0), wrote(2, 1500), read(1800, 2), read(2200, 2)]
    assert demanded(*again, contract=ABSOLUTE) == set()
    assert reasons(*again, contract=ABSOLUTE) == {"straddles-lives"}
    assert demanded(wrote(1, 0), wrote(2, 1500), read(1800), read(2200), contract=ABSOLUTE) == {"lost 2"}


def test_a_forget_ends_an_absolute_life() -> None:
    again: list[Happened] = [wrote(1, 0), forgot(100, 110), wrote(2, 200), read(1050), read(1170)]
    assert demanded(*again, contract=ABSOLUTE) == {"lost 2"}


def test_a_fault_that_undoes_a_forget_brings_the_old_life_back() -> None:
    again: list[Happened] = [wrote(1, 0), forgot(100, 110), crash(120, 130), wrote(2, 200), read(1050), read(1170)]
    assert demanded(*again, contract=replace(ABSOLUTE, crash_loss=1000 * MILLISECOND)) == set()


def test_what_joined_a_life_begins_none() -> None:
    again: list[Happened] = [wrote(1, 0), wrote(2, 600), wrote(3, 1500), read(1800), read(2200)]
    assert demanded(*again, contract=ABSOLUTE) == {"lost 3"}


# ---------------------------------------------------------------------------------------------------------------------
# The last N


def test_only_the_last_n_need_to_be_there() -> None:
    three: list[Happened] = [wrote(1, 0), wrote(2, 20), wrote(3, 40)]
    assert verdict(*three, read(100, 2, 3), read(300, 2, 3), contract=LAST_TWO) is Verdict.CLEAN
    assert demanded(*three, read(100, 3), read(300, 3), contract=LAST_TWO) == {"lost 2"}


def test_the_newest_lost_with_an_older_one_in_its_place_is_lost_whoever_wrote_them() -> None:
    three: list[Happened] = [wrote(1, 0), wrote((2, 1), 20), wrote((3, 1), 40)]
    assert demanded(*three, read(100, 1, (2, 1)), read(300, 1, (2, 1)), contract=LAST_TWO) == {"lost 3/1"}


def test_an_older_one_in_its_place_is_proof_even_if_many_may_stand_behind() -> None:
    three: list[Happened] = [wrote(1, 0), wrote(2, 20), wrote((2, 1), 40), wrote((3, 1), 40)]
    shown: list[Happened] = [read(100, 1, (3, 1)), read(300, 1, (3, 1))]
    assert demanded(*three, *shown, contract=LAST_TWO) == {"lost 2", "lost 2/1"}


def test_a_window_that_is_the_last_n_is_right() -> None:
    assert verdict(wrote(1, 0), wrote((2, 1), 20), wrote(2, 40), window(60, 2, (2, 1), 2)) is Verdict.CLEAN


def test_a_window_with_a_hole_too_few_too_many_or_the_oldest_is_wrong() -> None:
    three: list[Happened] = [wrote(1, 0), wrote((2, 1), 20), wrote(2, 40)]
    full = read(100, 1, (2, 1), 2)
    for wrong in (window(60, 2, 1, 2), window(60, 3, 1, 2), window(60, 2, 1, (2, 1))):
        assert any("window" in each for each in demanded(*three, wrong, full)), wrong
    assert demanded(*three, window(60, 2, 1, (2, 1), 2), full) == {"window"}


def test_a_window_that_no_full_read_follows_in_the_same_life_is_not_judged() -> None:
    hole: list[Happened] = [wrote(1, 0), wrote((2, 1), 20), wrote(2, 40), window(60, 2, 1, 2)]
    for unjudged in (hole, [*hole, forgot(70, 80), read(100)]):
        assert demanded(*unjudged) == set()
        assert reasons(*unjudged) == {"gone-before-judged"}


def test_a_window_may_lack_what_was_not_yet_acknowledged() -> None:
    assert verdict(wrote(1, 0), wrote((2, 1), 20, 100), window(60, 2, 1), read(200, 1, (2, 1))) is Verdict.CLEAN


# ---------------------------------------------------------------------------------------------------------------------
# Comparing with another checker


class Silent:
    """A checker that never reports anything."""

    def begin(self, history: History) -> None:
        self.history = history
        self.fed: list[Event | Read] = []

    def feed(self, at: int, event: Event) -> None:  # noqa: ARG002  of the protocol
        self.fed.append(event)

    def observe(self, read: Read) -> None:
        self.fed.append(read)

    def found(self) -> set[tuple[str, MessageId]]:
        return set()


class Perfect(Silent):
    """A checker that reports one of each thing demanded, by asking the reference."""

    def found(self) -> set[tuple[str, MessageId]]:
        return {(min(obligation).kind, min(obligation).message) for obligation in judge(self.history).must}


class Hasty(Silent):
    """A checker that takes every absence for a loss."""

    def found(self) -> set[tuple[str, MessageId]]:
        return {
            ("lost", attempt.id)
            for read in self.history.reads
            if read.items is not None and read.last is None
            for attempt in self.history.attempts
            if attempt.id.session == read.session and Item(attempt.id) not in read.items
        }


def test_a_checker_that_agrees_has_no_disagreements() -> None:
    for seed in range(100):
        assert compare(flawed(seed), Perfect()) == []


def test_a_silent_checker_misses_and_a_hasty_one_raises_false_alarms() -> None:
    lost = history(wrote(1, 0), wrote(2, 20), read(50, 1), read(300, 1))
    (missed,) = compare(lost, Silent())
    assert missed.way is Way.MISSED
    assert "missed: lost s1/1/2 had to be reported" in explain(missed)
    in_flight = replace(history(wrote(1, 0, 100), read(50), read(300, 1)), planted=None)
    (alarm,) = compare(in_flight, Hasty())
    assert alarm.way is Way.FALSE_ALARM
    assert "verifier read primary" in explain(alarm)


def test_a_disagreement_is_shrunk_to_what_it_needs() -> None:
    seed = next(seed for seed in range(100) if flawed(seed, "drop", "strict").took_effect)
    small = shrink(flawed(seed, "drop", "strict"), Silent, Way.MISSED, "lost")
    assert len(small.reads) == 2
    assert len(small.attempts) <= 8


def test_events_come_in_order_of_time_and_a_read_returns_what_it_was_asked() -> None:
    for seed in range(50):
        found = list(events(correct(seed)))
        assert [at for at, _ in found] == sorted(at for at, _ in found)
        assert all(at == event.read.returned for at, event in found if isinstance(event, ReadReturned))


# ---------------------------------------------------------------------------------------------------------------------
# Failovers

FAILOVER = Contract(failover_loss=1000 * MILLISECOND)


def replaced(started: int, ended: int) -> Fault:
    """Return a failover, in which clients may stay with the old primary until it has ended."""
    return crash(started, ended, excuse=Excuse.FAILOVER, leaves_old=True)


def test_what_the_old_primary_acknowledged_until_it_was_demoted_is_excused() -> None:
    happened: list[Happened] = [replaced(2000, 3000), *swept(3100), read(3400)]
    assert "lost 1" in demanded(wrote(1, 900), *happened, contract=FAILOVER)
    assert verdict(wrote(1, 1100), *happened, contract=FAILOVER) is Verdict.CLEAN
    assert verdict(wrote(1, 2900), *happened, contract=FAILOVER) is Verdict.CLEAN
    assert "lost 1" in demanded(wrote(1, 3010), *happened, contract=FAILOVER)
    assert "lost 1" in demanded(wrote(1, 2900), *happened, contract=STRICT)


def test_a_survivor_of_a_failover_counts_up_to_its_start() -> None:
    happened: list[Happened] = [replaced(2000, 3000), *swept(3100, 2), read(3400, 2)]
    assert "lost 1" in demanded(wrote(1, 1500), wrote(2, 1600), *happened, contract=FAILOVER)
    assert verdict(wrote(1, 1500), wrote(2, 2100), *happened, contract=FAILOVER) is Verdict.CLEAN


def test_what_one_read_showed_together_stood_in_one_log() -> None:
    written: list[Happened] = [wrote(1, 2100), wrote(2, 2200)]
    happened: list[Happened] = [replaced(2000, 3000), *swept(3100, 2), read(3400, 2)]
    assert "rolled_back 1" in demanded(*written, read(2500, 1, 2), *happened, contract=FAILOVER)
    assert not demanded(*written, read(2500, 1, 2), *happened, contract=replace(FAILOVER, at_least_once=True))
    apart: list[Happened] = [read(2150, 1), read(2500, 2)]
    assert verdict(*written, *apart, *happened, contract=FAILOVER) is Verdict.CLEAN


def test_reads_of_a_primary_that_is_replaced_are_tolerated_unless_the_contract_is_strict() -> None:
    happened: list[Happened] = [
        wrote(1, 0),
        replaced(2000, 3000),
        read(100, 1),
        read(2500),
        *swept(3100, 1),
        read(3400, 1),
    ]
    assert verdict(*happened, contract=FAILOVER) is Verdict.CLEAN
    assert verdict(*happened, contract=replace(FAILOVER, strict_replica=True)) is Verdict.UNDECIDED
    assert "non_monotonic 1" in demanded(*happened, contract=Contract(strict_replica=True))


# ---------------------------------------------------------------------------------------------------------------------
# Where the page is silent

HIDDEN_BY_REPLICA = (read(50, 1, source=REPLICA), read(100, source=REPLICA), read(200, 1, source=REPLICA))
AT_ONCE = (wrote(1, 0), wrote((2, 1), 0), wrote((3, 1), 0))
EXAMPLES: dict[str, tuple[Contract, tuple[Happened, ...]]] = {
    "acknowledged-during-fault": (
        CRASH_TAIL,
        (crash(2100, 2300, injected=2150), wrote(1, 2140, 2200), read(2500), read(2800)),
    ),
    "begun-untold": (ABSOLUTE, (wrote(1, 0), wrote((2, 1), 100, delivered=2000), read(500), read(900))),
    "during-fault": (CRASH_TAIL, (wrote(1, 2000), crash(2100, 2500, injected=2150), read(2300), read(2700, 1))),
    "during-open-forget": (STRICT, (wrote(1, 0), forgot(50, 60, FAILED, delivered=500), read(100), read(300))),
    "eventual-late": (EVENTUAL, (wrote(1, 0), read(50), read(300), read(500, 1))),
    "eventual-monotonic": (EVENTUAL, (wrote(1, 0), *HIDDEN_BY_REPLICA)),
    "expired-in-fault": (
        replace(SLIDING, crash_loss=1000 * MILLISECOND),
        (wrote(1, 0), crash(100, 200), read(1500, 1)),
    ),
    "gone-before-judged": (STRICT, (wrote(1, 0), wrote(2, 20), window(60, 2, 2), forgot(70, 80), read(100))),
    "hole-by-order": (
        STRICT,
        (*AT_ONCE, window(60, 2, 1, (3, 1)), read(100, 1, (2, 1), (3, 1))),
    ),
    "late-forget": (STRICT, (forgot(50, 60, UNKNOWN), wrote(1, 100), read(200), read(400))),
    "late-insertion": (STRICT, (wrote(1, 0, 200), wrote((2, 1), 0), read(50, (2, 1)), read(300, 1, (2, 1)))),
    "late-life": (
        ABSOLUTE,
        (wrote(1, 0), wrote(2, 500, outcome=UNKNOWN), wrote(3, 1600), read(2000), read(2200)),
    ),
    "may-be-in-flight": (
        LAST_TWO,
        (wrote(1, 0), wrote((2, 1), 20, delivered=None), read(100, (2, 1)), read(300, (2, 1))),
    ),
    "new-primary": (
        FAILOVER,
        (
            *(wrote(1, 2100), wrote(2, 2200), window(2250, 2, 1, 2)),
            *(replaced(2000, 2300), *swept(2400, 2), read(2700, 2)),
        ),
    ),
    "order-not-promised": (PER_WRITER, (wrote(1, 0), wrote((2, 1), 20), wrote(2, 40), window(60, 2, 1, 2))),
    "order-over-forget": (
        BOUNDED,
        (*AT_ONCE, read(100, 1, (2, 1), source=REPLICA), forgot(150, 160), read(200, (2, 1), 1, source=REPLICA)),
    ),
    "other-reader": (
        LAST_TWO,
        (wrote(1, 0, outcome=UNKNOWN), window(20, 5, 1), read(100), read(2000), read(4000)),
    ),
    "pair-of-two-writers": (
        PER_WRITER,
        (wrote(1, 0, 200), wrote((2, 1), 0, 200), read(50, 1, (2, 1)), read(100, (2, 1), 1)),
    ),
    "participant-altered": (STRICT, (wrote(1, 0), window(20, 5, altered(1)), read(50, 1))),
    "raced-life": (SLIDING, (wrote(1, 40, 70), forgot(50, 60), read(1500, 1))),
    "refused-anyway": (STRICT, (wrote(1, 0, outcome=FAILED), read(50, 1, 1))),
    "retained-too-many": (LAST_TWO, (wrote(1, 0), wrote(2, 20), wrote(3, 40), read(100, 1, 2, 3))),
    "retries-fill-the-window": (
        replace(LAST_TWO, at_least_once=True),
        (wrote(1, 0), wrote(2, 20), read(100, 2, 2), read(300, 2, 2)),
    ),
    "sent-later": (STRICT, (wrote(1, 0), read(50, 1, 2))),
    "stale-and-seen": (STRICT, (wrote(1, 0), read(50, 1), read(60), read(80, 1))),
    "straddles-lives": (ABSOLUTE, (wrote(1, 0), wrote(2, 995), read(1100, 1, 2))),
    "swept-first": (STRICT, (wrote(1, 0), crash(50, 100), read(200), read(400))),
    "told-after-forget": (STRICT, (wrote(1, 0, delivered=80), read(20), read(40, 1), forgot(50, 60))),
    "told-after-life": (
        SLIDING,
        (wrote(1, 0), wrote(2, 900, delivered=1600), wrote(3, 1300), read(1500, 3), read(1550, 2, 3)),
    ),
    "told-after-shadow": (
        BOUNDED,
        (
            wrote(1, 0, delivered=1900),
            read(1000, source=REPLICA),
            crash(1100, 1200),
            read(1300, source=REPLICA),
            read(9000, 1, source=REPLICA),
        ),
    ),
    "two-forgets": (
        BOUNDED,
        (wrote(1, 0), forgot(50, 60), forgot(1000, 1010), read(1200, 1, source=REPLICA)),
    ),
    "under-way": (SLIDING, (wrote(1, 0, delivered=2000), read(1500, 1))),
    "undone-by-fault": (CRASH_TAIL, (wrote(1, 0), forgot(2000, 2010), crash(2100, 2200), read(2400, 1))),
    "unknown-in-life": (ABSOLUTE, (wrote(1, 0), wrote(2, 100, outcome=UNKNOWN), read(1200, 1))),
    "unreadable-in-its-place": (STRICT, (wrote(1, 0), read(50, Unreadable("x")), read(300, Unreadable("x")))),
    "wrong-anyway": (STRICT, (wrote(1, 0), wrote(2, 20), window(60, 2, 1), read(100, 1, 1, 2))),
}


@pytest.mark.parametrize("decision", DECISIONS)
def test_every_decision_has_an_example(decision: str) -> None:
    contract, happened = EXAMPLES[decision]
    assert decision in reasons(*happened, contract=contract)
    assert DECISIONS[decision].endswith(".")


def test_one_reader_of_a_replica_is_not_held_to_what_another_has_seen() -> None:
    seen: list[Happened] = [wrote(1, 0), window(20, 5, 1, source=REPLICA), read(100, source=REPLICA)]
    back = read(200, 1, source=REPLICA)
    assert not reasons(*seen, back, contract=BOUNDED)
    assert not demanded(*seen, back, contract=BOUNDED)
    late = (read(1000, source=REPLICA), read(1100, 1, source=REPLICA))
    assert demanded(*seen[:2], *late, contract=BOUNDED) == {"non_monotonic 1 or stale 1"}


def test_a_retention_without_a_promised_order_leaves_it_open() -> None:
    shown: list[Happened] = [read(100, 1, (3, 1)), read(300, 1, (3, 1))]
    several: list[Happened] = [wrote(1, 0), wrote((2, 1), 20), wrote((3, 1), 40), wrote((4, 1), 40), *shown]
    assert "lost 2/1" in demanded(*several, contract=LAST_TWO)
    assert "lost 2/1" not in demanded(*several, contract=replace(LAST_TWO, order=Order.PER_WRITER))
    assert "order-not-promised" in reasons(*several, contract=replace(LAST_TWO, order=Order.PER_WRITER))


# ---------------------------------------------------------------------------------------------------------------------
# Random histories

DETECTED_MIN = 0.95


@pytest.fixture
def seed() -> int:
    drawn = int(os.environ.get("SOAK_SEED", time.time_ns() % 10**9))
    print(f"SOAK_SEED={drawn}")
    return drawn


@pytest.fixture
def count() -> int:
    return int(os.environ.get("SOAK_HISTORIES", "150"))


def test_nothing_is_demanded_of_stores_that_keep_their_contract(seed: int, count: int) -> None:
    seen: Counter[str] = Counter()
    for number in range(seed, seed + 4 * count):
        judgement = judge(correct(number))
        seen[judgement.verdict.value] += 1
        assert not judgement.must, f"correct({number}): {judgement.must}"
    print(dict(seen))


def test_every_planted_flaw_is_seen(seed: int, count: int) -> None:
    planted: Counter[str] = Counter()
    demanded_: Counter[str] = Counter()
    seen: Counter[str] = Counter()
    missed: dict[str, int] = {}
    for number in range(seed, seed + count):
        found = flawed(number)
        if found.planted is None or not found.took_effect:
            continue
        judgement = judge(found)
        kinds = FLAWS[found.planted][1]
        is_demanded = any(finding.kind in kinds for obligation in judgement.must for finding in obligation)
        is_seen = is_demanded or any(finding.kind in kinds for finding in judgement.may)
        planted[found.planted] += 1
        demanded_[found.planted] += is_demanded
        seen[found.planted] += is_seen
        if not is_seen:
            missed[found.planted] = number
    for flaw, times in sorted(planted.items()):
        print(f"{flaw:22} {times:5} planted, {demanded_[flaw] / times:4.0%} demanded, {seen[flaw] / times:4.0%} seen")
    assert seen.total() >= DETECTED_MIN * planted.total(), missed


def _sees(flaw: str, contract: str) -> Callable[[int], bool]:
    def is_seen(number: int) -> bool:
        found = flawed(number, flaw, contract)
        return found.took_effect and bool(judge(found).must)

    return is_seen


@pytest.mark.parametrize("contract", CONTRACTS)
def test_flaws_that_no_contract_allows_are_demanded_in_every_contract(contract: str) -> None:
    for flaw in ("alter", "leak", "phantom", "refused_but_visible"):
        assert any(map(_sees(flaw, contract), range(20))), flaw
