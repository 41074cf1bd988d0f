"""A correct memory and its honest load in one value, for properties: every history it makes is legal.

Writers append one message at a time. An append is acknowledged, refused, or unknown; an unknown one is applied at
once, or later, or never. Time moves with every step, so that what was acknowledged before something else was sent is
known. What the ledger would say is told to the book as soon as it would be.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import strategies as st

from soak.checker.contract import Contract
from soak.checker.expected_session import ExpectedSession
from soak.checker.message import Message
from soak.checker.outcome import Attempt, Outcome
from soak.checker.read import Read, Rules
from soak.checker.text import MessageGenerator

SESSION = "w1-1-chat"
RULES = Rules(contract=Contract())
AUTHOR = MessageGenerator("r1", 7)


@dataclass
class Flight:
    """An append that has been sent and not yet answered."""

    writer: int
    seq: int
    sent: int
    applied: bool = False


@dataclass
class CorrectStore:
    """The store, the book that follows it, and the clock."""

    writers: int
    book: ExpectedSession = field(default_factory=lambda: ExpectedSession(SESSION, "redis-list"))
    items: list[tuple[int, int]] = field(default_factory=list)
    now: int = 1_000
    next_seq: dict[int, int] = field(default_factory=dict)
    flights: dict[int, Flight] = field(default_factory=dict)
    late: list[tuple[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        for writer in range(self.writers):
            self.book.lease(writer, 1_000)
            self.next_seq[writer] = 1

    def tick(self) -> int:
        self.now += 1_000
        return self.now

    def send(self, writer: int) -> None:
        if writer not in self.flights:
            self.flights[writer] = Flight(writer, self.next_seq[writer], self.tick())
            self.next_seq[writer] += 1

    def apply(self, writer: int) -> None:
        flight = self.flights.get(writer)
        if flight is not None and not flight.applied:
            flight.applied = True
            self.items.append((writer, flight.seq))
            self.tick()

    def answer(self, writer: int, outcome: Outcome) -> None:
        flight = self.flights.get(writer)
        if flight is None or (outcome is Outcome.FAILED and flight.applied):
            return
        if outcome is Outcome.OK:
            self.apply(writer)
        del self.flights[writer]
        attempt = Attempt(1, writer, flight.seq, int(outcome), flight.sent, self.tick())
        if outcome is Outcome.OK:
            self.book.acknowledge(attempt)
        elif outcome is Outcome.FAILED:
            self.book.fail(writer, flight.seq)
        else:
            self.book.doubt(attempt)
            if not flight.applied:
                self.late.append((writer, flight.seq))

    def surface(self, index: int) -> None:
        """Let an unknown write come true late."""
        if self.late:
            self.items.append(self.late.pop(index % len(self.late)))
            self.tick()

    def messages(self) -> list[Message]:
        return [AUTHOR.write(SESSION, writer, seq) for writer, seq in self.items]

    def read(self, items: list[object] | None = None) -> Read:
        invoked = self.tick()
        shown = self.messages() if items is None else items
        return Read(invoked=invoked, returned=self.tick(), acked=self.book.acked_now(), items=shown)  # type: ignore[arg-type]


def step(store: CorrectStore, what: str, writer: int) -> None:
    writer %= store.writers
    if what == "send":
        store.send(writer)
    elif what == "apply":
        store.apply(writer)
    elif what == "surface":
        store.surface(writer)
    else:
        store.answer(writer, Outcome[what])


STEPS = st.sampled_from(
    ["send", "send", "send", "apply", "OK", "OK", "OK", "OK", "FAILED", "UNKNOWN", "surface", "read"]
)
PLANS = st.lists(st.tuples(STEPS, st.integers(0, 7)), min_size=1, max_size=80)
