"""The checks of the contract suite over stores in this process: what is retried, and how much a failure says."""

from __future__ import annotations

from collections import defaultdict

import pytest

from soak.checker.contract import Contract
from soak.checker.message import Message
from soak.contract_suite import order, sessions
from soak.contract_suite.comparison import LINE_CHARACTERS_MAX, ContractBrokenError
from soak.contract_suite.memory import RETRIES_MAX, Memory
from soak.contract_suite.suite import CHECKS
from soak.pytest_plugin.options import GROUPS, marker_of
from soak.pytest_plugin.suite import MemoryContract
from soak.stores import NotApplied, StoreContext
from soak.stores.protocol import MemoryStore


class Refusing:
    """Keeps everything, after it has honestly refused each message so many times."""

    def __init__(self, refusals: int, *, loses: bool = False) -> None:
        self.kept: dict[str, list[Message]] = defaultdict(list)
        self._refusals = refusals
        self._loses = loses
        self._tries: dict[object, int] = defaultdict(int)

    async def append(self, session: str, message: Message) -> None:
        self._tries[message.name] += 1
        if self._tries[message.name] <= self._refusals:
            raise NotApplied("could not serialize access due to concurrent update")
        if not self._loses:
            self.kept[session].append(message)

    async def history(self, session: str, last: int | None = None) -> list[Message]:
        return self.kept[session][-last:] if last else [] if last == 0 else list(self.kept[session])

    async def forget(self, session: str) -> None:
        self.kept.pop(session, None)

    async def close(self) -> None:
        """Nothing is open."""


def memory_over(store: Refusing) -> Memory:
    async def opener(_context: StoreContext) -> MemoryStore:
        return store

    return Memory(opener, lambda _context: Contract(), {})


async def test_what_a_store_honestly_did_not_apply_is_said_again() -> None:
    for check in (order.turns_stand_in_the_order_they_were_said, sessions.a_forgotten_session_begins_anew):
        await check(memory_over(Refusing(2)))


async def test_a_store_that_refuses_for_ever_does_not_pass() -> None:
    with pytest.raises(ContractBrokenError, match="could not serialize access"):
        await order.turns_stand_in_the_order_they_were_said(memory_over(Refusing(RETRIES_MAX + 1)))


async def test_a_failure_lists_no_more_than_fits_a_line() -> None:
    memory = memory_over(Refusing(0, loses=True))
    store = await memory.open()
    session = memory.session("long")
    said = [memory.message(session, seq, f"a long sentence about nothing, number {seq} " * 3) for seq in range(1, 30)]
    await memory.say(store, said)
    with pytest.raises(ContractBrokenError) as caught:
        await memory.expect("A user who comes back", store, session, said)
    sentence, listed, read = str(caught.value).splitlines()
    assert sentence.startswith("A user who comes back misses 29 of 29 messages")
    assert listed.startswith("said: 29 messages: #1 of writer 0")
    assert listed.endswith("…")
    assert len(listed) <= LINE_CHARACTERS_MAX + len("said: …")
    assert read == "read: nothing"


def test_every_check_has_the_marker_of_its_group() -> None:
    for name, check in CHECKS.items():
        marks = {mark.name for mark in getattr(MemoryContract, f"test_{name}").pytestmark}
        assert marker_of(check.run.__module__) in marks
        assert marker_of(check.run.__module__).removeprefix("soak_") in GROUPS
    groups = {marker_of(check.run.__module__).removeprefix("soak_") for check in CHECKS.values()}
    assert groups | {"compatibility"} == set(GROUPS)
