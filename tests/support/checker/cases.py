"""Cases made of what a correct store was asked and answered."""

from __future__ import annotations

import msgspec
from hypothesis import strategies as st

from soak.checker.case import Basis, Case, Derived, found_of, writable
from soak.checker.events import Confirmed, Observed
from soak.checker.expected_session import ExpectedSession
from soak.checker.faults import FaultHistory
from soak.checker.kinds import Kind
from soak.checker.message import Garbled, Message
from soak.checker.session import SessionChecker, StoreJudging
from soak.checker.text import MessageGenerator
from tests.support.checker.correct_store import AUTHOR, RULES, SESSION, CorrectStore, step

Plan = list[tuple[str, int]]
STRANGE: list[object] = [
    Garbled(b"\xc1\x00", "no message"),
    Garbled(b"", ""),
    AUTHOR.write("w1-2-chat", 0, 1),
    MessageGenerator("r2", 7).write(SESSION, 0, 1),
    AUTHOR.write(SESSION, 0, 5_000),
    AUTHOR.write(SESSION, 77, 1),
    msgspec.structs.replace(AUTHOR.write(SESSION, 0, 1), content="half a \ud83d character"),
    msgspec.structs.replace(AUTHOR.write(SESSION, 0, 2), role="\udcff"),
    msgspec.structs.replace(AUTHOR.write(SESSION, 0, 1), checksum=0),
    msgspec.structs.replace(AUTHOR.write(SESSION, 0, 1), seq=2**80),
    msgspec.structs.replace(AUTHOR.write(SESSION, 0, 1), session="elsewhere\x1b[2J\udc80"),
    Message("r1", SESSION, 0, 1, None, b"bytes", 0),  # type: ignore[arg-type]
    Message("r1", SESSION, "0", 1.5, "user", "text", 0),  # type: ignore[arg-type]
    None,
    {"role": "user"},
    "text",
]
STORE, SERVER = "redis-list", "redis"


def checker_of(store: CorrectStore, settle_us: int = 0) -> SessionChecker:
    faults = FaultHistory({STORE: [SERVER]})
    judging = StoreJudging(rules=RULES, author=AUTHOR, faults=faults, targets=[SERVER], settle_us=settle_us)
    return SessionChecker(judging, store.book)


def grow(plan: Plan, writers: int) -> CorrectStore:
    store = CorrectStore(writers)
    for what, writer in plan:
        if what == "read":
            checker_of(store).observe(store.read())
        else:
            step(store, what, writer)
    return store


def kept(case: Case) -> Case:
    """Return a case as it comes back from the disk."""
    return msgspec.json.decode(msgspec.json.encode(case), type=Case)


def case_of(book: ExpectedSession, basis: Basis, settle_us: int = 0) -> Case:
    return Case(
        run=AUTHOR.run,
        seed=7,
        store=STORE,
        session=SESSION,
        rules=RULES,
        settle_us=settle_us,
        targets={STORE: [SERVER]},
        book=book,
        basis=basis,
        found=found_of(Kind.LOST, [(f"{SESSION}/0/1", (0, 1), "gone")]),
    )


def confirmed(observed: Observed) -> list[Derived]:
    return [
        Derived(event.kind, writable(wrong.message), writable(wrong.detail))
        for event in observed.events
        if isinstance(event, Confirmed)
        for wrong in event.wrong
    ]


@st.composite
def mangled(draw: st.DrawFn, items: list[Message]) -> list[object]:
    """Drop, move, repeat and replace what a store would have shown."""
    made: list[object] = list(items)
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, max(0, len(made) - 1)))
        change = draw(st.sampled_from(["drop", "swap", "repeat", "strange", "alter"]))
        if change == "strange" or not made:
            made.insert(at, draw(st.sampled_from(STRANGE)))
        elif change == "drop":
            del made[at]
        elif change == "swap":
            made[at], made[0] = made[0], made[at]
        elif change == "repeat":
            made.append(made[at])
        elif isinstance(made[at], Message):
            made[at] = msgspec.structs.replace(made[at], content="altered")  # type: ignore[type-var]
    return made
