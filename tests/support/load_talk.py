"""One session as a participant knows it, for what it makes of its reads."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from soak.checker.contract import Contract
from soak.checker.message import Message
from soak.checker.outcome import Outcome
from soak.checker.text import MessageGenerator
from soak.load.conversation import Conversation
from soak.load.reading import Expectation, ParticipantRead, ReadProblem, suspicion

AUTHOR = MessageGenerator("run", 11)
STRICT = Expectation.of(Contract())
WINDOW = 5


def a_conversation(writers: int = 1) -> Conversation:
    return Conversation(
        number=1,
        session="w1-1-chat",
        store="redis-list",
        writers=writers,
        length=1_000,
        leased=1_000,
        ends_forgotten=False,
        window=WINDOW,
    )


@dataclass
class Talk:
    """A conversation and what a correct store would hold of it; time goes on by ten with every step."""

    conversation: Conversation
    stored: list[Message] = field(default_factory=list)
    now: int = 1_000

    def say(self, outcome: Outcome = Outcome.OK, writer: int = 0, *, is_stored: bool = True) -> Message:
        sent, ended = self.now, self.now + 5
        self.now += 10
        seq = self.conversation.begin(writer)
        message = AUTHOR.write(self.conversation.session, writer, seq)
        self.conversation.end(writer, seq, outcome, sent, ended, hash(message))
        if is_stored and outcome is not Outcome.FAILED:
            self.stored.append(message)
        return message

    def read(self, items: list[object] | None = None, last: int | None = WINDOW) -> ParticipantRead:
        if items is None:
            items = list(self.stored if last is None else self.stored[-last:])
        return ParticipantRead(items, last, self.now, self.now + 5, self.conversation.acked_total)

    def suspicion(
        self, items: list[object] | None = None, last: int | None = WINDOW, expectation: Expectation = STRICT
    ) -> ReadProblem | None:
        return suspicion(self.conversation, self.read(items, last), AUTHOR, expectation)


def talk_of(count: int, writers: int = 1) -> Talk:
    talk = Talk(a_conversation(writers))
    for number in range(count):
        talk.say(writer=number % writers)
    return talk


def altered(message: Message) -> Message:
    return msgspec.structs.replace(message, content=message.content + " ")


FOREIGN = AUTHOR.write("w1-2-chat", 0, 1)
OTHER_RUN = MessageGenerator("other", 11).write("w1-1-chat", 0, 3)
