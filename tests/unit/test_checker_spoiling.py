"""What is done to a canary breaks its contract, and is judged as exactly what it is."""

from __future__ import annotations

import pytest

from soak.checker.contract import Contract, Duplicates, Order
from soak.checker.expected_session import ExpectedSession
from soak.checker.intervals import Intervals
from soak.checker.judge import judge
from soak.checker.kinds import Kind
from soak.checker.message import Message
from soak.checker.outcome import Attempt, Outcome
from soak.checker.read import Read, Rules
from soak.checker.spoiling import MESSAGES, Spoil, accused, length_for, spoiled, spoils_for
from soak.checker.text import MessageGenerator

AUTHOR = MessageGenerator("r1", 7)
SESSION = "canary-r1-0-1-chat"
INVENTED = AUTHOR.write(SESSION, 0, 1_000_000)


def written(count: int = MESSAGES) -> list[Message]:
    return [AUTHOR.write(SESSION, 0, seq + 1) for seq in range(count)]


def book_of(messages: list[Message]) -> ExpectedSession:
    book = ExpectedSession(SESSION, "redis-list")
    book.lease(0, len(messages))
    for message in messages:
        book.acknowledge(Attempt(1, 0, message.seq, int(Outcome.OK), message.seq * 10, message.seq * 10 + 5))
    return book


@pytest.mark.parametrize("way", list(Spoil))
def test_each_way_is_judged_as_what_it_is_and_names_the_message(way: Spoil) -> None:
    messages = written()
    book = book_of(messages)
    items = spoiled(messages, way, INVENTED)
    read = Read(invoked=1_000, returned=1_001, acked={0: Intervals([1, MESSAGES])}, items=items)
    found = judge(book, read, Rules(contract=Contract()), AUTHOR)
    named = accused(messages, way, INVENTED)
    if way is Spoil.REMOVED:
        assert not found.findings
        (missing,) = found.absent[0]
        assert {f"{SESSION}/0/{missing}"} == named
        assert way.kinds == {Kind.LOST, Kind.ROLLED_BACK}
    else:
        assert not found.absent
        (finding,) = found.findings
        assert finding.kind in way.kinds
        assert finding.message in named


@pytest.mark.parametrize(
    ("contract", "ways"),
    [
        (Contract(), list(Spoil)),
        (Contract(order=Order.PER_WRITER), list(Spoil)),
        (Contract(order=Order.NONE), [Spoil.REMOVED, Spoil.DUPLICATED, Spoil.INVENTED]),
        (Contract(duplicates=Duplicates.AT_LEAST_ONCE), [Spoil.REMOVED, Spoil.SWAPPED, Spoil.INVENTED]),
        (Contract(eviction_allowed=True), [Spoil.INVENTED]),
        (Contract(retained_messages=100), list(Spoil)),
        (Contract(retained_messages=4), list(Spoil)),
        (Contract(retained_messages=3), [Spoil.DUPLICATED, Spoil.INVENTED]),
        (Contract(retained_messages=1), [Spoil.INVENTED]),
    ],
)
def test_only_what_the_contract_forbids_is_chosen(contract: Contract, ways: list[Spoil]) -> None:
    assert spoils_for(contract, lasting=True, absence_is_confirmed=True) == ways
    assert length_for(contract) <= max(1, (contract.retained_messages or 100) - 1)


def test_nothing_is_removed_where_absence_can_never_be_confirmed() -> None:
    assert Spoil.REMOVED not in spoils_for(Contract(), lasting=True, absence_is_confirmed=False)


def test_what_may_expire_in_between_is_only_added_to() -> None:
    assert spoils_for(Contract(), lasting=False, absence_is_confirmed=True) == [Spoil.INVENTED]
