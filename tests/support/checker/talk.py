"""One session, written and read by hand, and what the checker makes of it."""

from __future__ import annotations

from soak.checker.absorb import absorb
from soak.checker.contract import Contract
from soak.checker.expected_session import ExpectedSession
from soak.checker.judge import judge
from soak.checker.kinds import Kind
from soak.checker.outcome import Attempt, Outcome
from soak.checker.read import Judgement, Read, Rules
from soak.checker.retention import end_forget, extend
from tests.support.checker.correct_store import AUTHOR, SESSION

SECOND = 1_000_000
STRICT = Rules(contract=Contract())


class Talk:
    """A book and a clock; acknowledgements come in as they would from the ledger."""

    def __init__(self, rules: Rules = STRICT, writers: int = 1) -> None:
        self.rules = rules
        self.book = ExpectedSession(SESSION, "redis-list")
        for writer in range(writers):
            self.book.lease(writer, 1_000)

    def ack(self, seq: int, at: float, *, writer: int = 0, sent: float | None = None) -> bool:
        begun = at - 0.01 if sent is None else sent
        attempt = Attempt(1, writer, seq, 0, int(begun * SECOND), int(at * SECOND))
        if self.rules.contract.ttl_seconds is not None:
            extend(self.book, attempt)
        return self.book.acknowledge(attempt)

    def forget(self, outcome: Outcome | None, sent: float, ended: float) -> None:
        self.book.intend_forget(int(sent * SECOND))
        if outcome is not None:
            epsilon = self.rules.clock_epsilon_us
            end_forget(self.book, outcome, int(sent * SECOND), int(ended * SECOND), clock_epsilon_us=epsilon)

    def read(self, at: float, *places: int | tuple[int, int] | object) -> Read:
        items = [self._item(place) for place in places]
        acked = self.book.acked_now()
        return Read(invoked=int(at * SECOND), returned=int((at + 0.01) * SECOND), acked=acked, items=items)  # type: ignore[arg-type]

    @staticmethod
    def _item(place: int | tuple[int, int] | object) -> object:
        if isinstance(place, int):
            return AUTHOR.write(SESSION, 0, place)
        return AUTHOR.write(SESSION, *place) if isinstance(place, tuple) else place

    def judge(self, at: float, *places: int | tuple[int, int] | object) -> Judgement:
        read = self.read(at, *places)
        judgement = judge(self.book, read, self.rules, AUTHOR)
        absorb(self.book, judgement, read, self.rules, remember_us=60 * SECOND)
        return judgement


def kinds(judgement: Judgement) -> set[Kind]:
    return {finding.kind for finding in judgement.findings}


def absent(judgement: Judgement) -> dict[int, list[int]]:
    return {writer: list(seqs) for writer, seqs in judgement.absent.items() if seqs}


def told(*seqs: int, rules: Rules = STRICT) -> Talk:
    """Return a talk in which these were acknowledged, one each second, and read back."""
    talk = Talk(rules)
    for seq in seqs:
        talk.ack(seq, float(seq))
    assert talk.judge(max(seqs) + 0.1, *seqs).is_clean
    return talk
