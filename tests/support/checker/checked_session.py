"""One session under the real checker, driven by hand: what the ledger says, what reads show, what is reported."""

from __future__ import annotations

import msgspec

from soak.checker.contract import Contract
from soak.checker.events import Confirmed, Observed
from soak.checker.expected_session import ExpectedSession
from soak.checker.faults import Excuse, FaultHistory, FaultWindow, Promotion
from soak.checker.kinds import Kind
from soak.checker.message import Stored
from soak.checker.outcome import Attempt, Closed, ForgetBegun, ForgetEnded, LedgerEvent, Outcome
from soak.checker.read import Read, Rules
from soak.checker.session import SessionChecker, StoreJudging
from tests.support.checker.correct_store import AUTHOR, SESSION

SECOND = 1_000_000
STRICT = Contract()


class CheckedSession:
    """Times are in seconds; messages are of writer 0 unless they are named as (writer, seq)."""

    def __init__(self, contract: Contract = STRICT, *, asks_primary: bool = False, reads_replica: bool = False) -> None:
        self.faults = FaultHistory({"redis-list": ["redis"]})
        judging = StoreJudging(
            rules=Rules(contract=contract, ttl_epsilon_us=0),
            author=AUTHOR,
            faults=self.faults,
            targets=["redis"],
            settle_us=SECOND // 2,
            asks_primary=asks_primary,
            reads_replica=reads_replica,
        )
        self.book = ExpectedSession(SESSION, "redis-list")
        for writer in (0, 1):
            self.book.lease(writer, 100)
        self.checker = SessionChecker(judging, self.book)

    def apply(self, *events: LedgerEvent) -> None:
        for event in events:
            self.checker.apply(event)

    def told(self, message: int | tuple[int, int], sent: float, ended: float, outcome: Outcome = Outcome.OK) -> None:
        """Let the outcome of an append arrive."""
        writer, seq = message if isinstance(message, tuple) else (0, message)
        self.apply(Attempt(1, writer, seq, int(outcome), int(sent * SECOND), int(ended * SECOND)))

    def intends_forget(self, sent: float) -> None:
        self.apply(ForgetBegun(int(sent * SECOND)))

    def forgot(self, sent: float, ended: float, outcome: Outcome = Outcome.OK) -> None:
        """Let the outcome of a forget arrive."""
        self.apply(ForgetEnded(outcome, int(sent * SECOND), int(ended * SECOND)))

    def close(self) -> None:
        self.apply(Closed(is_certain=True))

    def crash(self, started: float, ended: float, *, caught_up: float | None = None) -> None:
        window = FaultWindow(
            fault=f"crash at {started}",
            kind="crash",
            target="redis",
            excuses=Excuse.CRASH,
            promotes=Promotion.NONE,
            down=True,
            started=int(started * SECOND),
            injected=int(started * SECOND),
            ended=int(ended * SECOND),
            caught_up=None if caught_up is None else int(caught_up * SECOND),
        )
        self.faults.begin(window)
        self.checker.doubt(window)

    def read(self, at: float, *messages: int | tuple[int, int] | Stored) -> Read:
        items = [self._stored(message) for message in messages]
        acked = self.book.acked_now()
        return Read(invoked=int(at * SECOND), returned=int((at + 0.01) * SECOND), acked=acked, items=items)

    @staticmethod
    def _stored(message: int | tuple[int, int] | Stored) -> Stored:
        if isinstance(message, int):
            return AUTHOR.write(SESSION, 0, message)
        return AUTHOR.write(SESSION, *message) if isinstance(message, tuple) else message

    def shows(self, at: float, *messages: int | tuple[int, int] | Stored) -> set[tuple[Kind, int]]:
        """Take in a full read; returns the kinds that are reported now, each with the seq it is about."""
        return self.reported(self.checker.observe(self.read(at, *messages)))

    @staticmethod
    def reported(observed: Observed) -> set[tuple[Kind, int]]:
        return {
            (event.kind, wrong.place[1] if wrong.place is not None else 0)
            for event in observed.events
            if isinstance(event, Confirmed)
            for wrong in event.wrong
        }

    def sweep(self) -> None:
        """Note that everything was read once since each fault."""
        self.faults.mark_swept("redis-list")


def altered(seq: int) -> Stored:
    return msgspec.structs.replace(AUTHOR.write(SESSION, 0, seq), content="other")
