"""Whether what a participant reads can be what was written: pure, values in, a word out.

The load judges nothing. It has a suspicion, at once and cheaply, and hands what it saw to the verifier, which knows
more. So a suspicion may be wrong now and then, and must not be wrong often: writes whose outcome is unknown, and
those of other writers that are under way, may appear or not.
"""

from __future__ import annotations

import enum
import functools
from array import array
from collections.abc import Sequence
from typing import NamedTuple, cast

import msgspec

from soak.checker.contract import Contract, Duplicates, Expiry, Order
from soak.checker.message import Garbled, Message, is_well_made
from soak.checker.outcome import NotApplied
from soak.checker.text import MessageGenerator
from soak.ledger.records import Observation, SeenItem
from soak.load.conversation import Acknowledged, Conversation, fold

EXPIRY_SLACK_US = 1_000_000
RAW_BYTES_MAX = 192 * 1024
"""More than the longest message takes: one that is cut would pass for something that is no message at all."""


class ReadProblem(enum.StrEnum):
    """What does not look right about a read; the first that is noticed."""

    GARBLED = "garbled"
    FOREIGN = "foreign"
    PHANTOM = "phantom"
    CONTENT = "content"
    DUPLICATE = "duplicate"
    ORDER = "order"
    ABSENT = "absent"
    TOO_MANY = "too many"
    FORGOTTEN = "forgotten"


class Expectation(NamedTuple):
    """What a store's contract makes suspicious, in the form that checking needs."""

    order: Order = Order.REALTIME
    staleness_us: int | None = 0
    """How fresh an acknowledgement may be and still be missing; None: for ever."""
    repeats_allowed: bool = False
    ttl_us: int | None = None
    expiry: Expiry = Expiry.SLIDING
    retained: int | None = None
    eviction_allowed: bool = False

    @classmethod
    def of(cls, contract: Contract) -> Expectation:
        return cls(
            order=contract.order,
            staleness_us=contract.staleness_us,
            repeats_allowed=contract.duplicates is Duplicates.AT_LEAST_ONCE,
            ttl_us=None if contract.ttl_seconds is None else round(contract.ttl_seconds * 1e6),
            expiry=contract.expiry,
            retained=contract.retained_messages,
            eviction_allowed=contract.eviction_allowed,
        )


class ParticipantRead(NamedTuple):
    """One read: when, how much was asked for, what came, and how much had been acknowledged before."""

    items: Sequence[object]
    last: int | None
    invoked: int
    returned: int
    acked_total: int


def looks_clean(conversation: Conversation, read: ParticipantRead) -> bool:
    """Compare with what must be there exactly, where that is known; a false answer means: look closer.

    This is the hot path: one hash per message, no message is written again.
    """
    if not conversation.is_certain:
        return False
    try:
        if read.last is not None:
            return array("q", map(hash, read.items)) == conversation.fingerprints[-read.last :]
        return (
            len(read.items) == conversation.acked_total
            and functools.reduce(fold, map(hash, read.items), 0) == conversation.digest
        )
    except TypeError:  # something that cannot be hashed is no message
        return False


def suspicion(
    conversation: Conversation, read: ParticipantRead, author: MessageGenerator, expectation: Expectation
) -> ReadProblem | None:
    """Say what does not look right about a read of a session that nobody has set out to forget."""
    if looks_clean(conversation, read):
        return None
    return _closer_look(conversation, read, author, expectation)


def suspicion_after_forget(
    conversation: Conversation, read: ParticipantRead, author: MessageGenerator
) -> ReadProblem | None:
    """Say whether a read after an acknowledged forget still shows what was acknowledged before it."""
    if not read.items:
        return None
    forget_sent = conversation.forget_sent or 0
    later = {(one.writer, one.seq) for one in conversation.acked() if one.ended >= forget_sent}
    for item in read.items:
        if (problem := _unlike(item, conversation, author)) is not None:
            return problem
        assert isinstance(item, Message)  # noqa: S101  anything else is a problem
        name = (item.writer, item.seq)
        if name not in later and name not in (conversation.unsure or ()):
            return ReadProblem.FORGOTTEN
    return None


def suspicion_of_search(
    conversation: Conversation,
    read: ParticipantRead,
    asked: Message,
    author: MessageGenerator,
    expectation: Expectation,
) -> ReadProblem | None:
    """Say what does not look right about a search for the words of a message; `last` is how many were asked for."""
    names: list[tuple[int, int]] = []
    for item in read.items:
        if (problem := _unlike(item, conversation, author)) is not None:
            return problem
        message = cast("Message", item)
        names.append((message.writer, message.seq))
    if len(set(names)) < len(names) and not expectation.repeats_allowed:
        return ReadProblem.DUPLICATE
    if read.last is not None and len(read.items) > read.last:
        return ReadProblem.TOO_MANY
    if conversation.forget_sent is not None:
        return suspicion_after_forget(conversation, read, author)
    # What may be gone, or may be late, need not be found; and of many who say the same some do not fit in.
    may_lack = expectation.eviction_allowed or expectation.ttl_us is not None or expectation.retained is not None
    equals = [item for item in read.items if isinstance(item, Message) and item.content == asked.content]
    if may_lack or expectation.staleness_us != 0 or (equals and len(equals) == len(read.items)):
        return None
    return None if (asked.writer, asked.seq) in names else ReadProblem.ABSENT


def _closer_look(
    conversation: Conversation, read: ParticipantRead, author: MessageGenerator, expectation: Expectation
) -> ReadProblem | None:
    look = _Look(conversation, read, expectation)
    for item in read.items:
        if not look.knows(item) and (problem := _unlike(item, conversation, author)) is not None:
            return problem
        if (problem := look.take(cast("Message", item))) is not None:
            return problem
    if read.last is not None and len(read.items) > read.last:
        return ReadProblem.TOO_MANY
    if look.misses_something():
        return ReadProblem.ABSENT
    return None


def _unlike(item: object, conversation: Conversation, author: MessageGenerator) -> ReadProblem | None:
    """Say what is wrong with one element, whatever is around it."""
    if not isinstance(item, Message) or not is_well_made(item):
        return ReadProblem.GARBLED
    if item.session != conversation.session or item.run != author.run:
        return ReadProblem.FOREIGN
    writer, seq = item.writer, item.seq
    if not (0 <= writer < conversation.writers and 1 <= seq <= conversation.sent[writer]):
        return ReadProblem.PHANTOM
    if item != author.write(conversation.session, writer, seq):
        return ReadProblem.CONTENT
    if conversation.failed is not None and (writer, seq) in conversation.failed:
        return ReadProblem.PHANTOM
    return None


class _Look:
    """The closer look at one read: what is in it, and what that says about what is missing."""

    def __init__(self, conversation: Conversation, read: ParticipantRead, expectation: Expectation) -> None:
        self._conversation = conversation
        self._read = read
        self._expectation = expectation
        acked = conversation.acked()
        since = conversation.acked_total - read.acked_total
        known = acked[: max(0, len(acked) - since)]
        self._due, fresh = _due_and_fresh(known, read.invoked, expectation)
        self._due_total = read.acked_total - len(fresh)
        optional = {(one.writer, one.seq) for one in [*fresh, *acked[len(known) :]]}
        # What is under way now has no outcome yet: it may be in the read or not.
        ends = zip(conversation.sent, conversation.done, strict=True)
        optional.update((writer, sent) for writer, (sent, done) in enumerate(ends) if sent != done)
        optional |= conversation.unsure or set()
        self._optional = optional
        self._times = {(one.writer, one.seq): one for one in acked}
        self._fingerprints = dict(zip(self._times, conversation.fingerprints, strict=True))
        self._older_than_tail = acked[0].ended if acked and len(acked) < conversation.acked_total else None
        self._names: set[tuple[int, int]] = set()
        self._due_seen = 0
        self._lowest: dict[int, int] = {}
        self._highest: dict[int, int] = {}
        self._earliest_end: int | None = None
        self._latest_send = 0

    def knows(self, item: object) -> bool:
        """Whether this is, to the letter, one of the last acknowledged messages: then it need not be written again."""
        if not isinstance(item, Message) or item.session != self._conversation.session:
            return False
        return self._fingerprints.get((item.writer, item.seq)) == hash(item)

    def take(self, item: Message) -> ReadProblem | None:
        """Add the next element in the order of the read."""
        writer, seq = name = (item.writer, item.seq)
        if name in self._names:
            return None if self._expectation.repeats_allowed else ReadProblem.DUPLICATE
        self._names.add(name)
        if name in self._optional:
            return None
        self._due_seen += 1
        self._lowest[writer] = min(seq, self._lowest.get(writer, seq))
        follows_later_one = seq < self._highest.get(writer, 0)
        self._highest[writer] = max(seq, self._highest.get(writer, 0))
        times = self._times.get(name)
        ended = self._older_than_tail if times is None else times.ended
        if ended is not None:
            follows_later_one |= self._expectation.order is Order.REALTIME and ended < self._latest_send
            self._earliest_end = ended if self._earliest_end is None else min(ended, self._earliest_end)
        if times is not None:
            self._latest_send = max(times.sent, self._latest_send)
        return ReadProblem.ORDER if follows_later_one and self._expectation.order is not Order.NONE else None

    def misses_something(self) -> bool:
        expectation, read = self._expectation, self._read
        if expectation.eviction_allowed or expectation.staleness_us is None or self._may_have_expired():
            return False
        window = _smaller(read.last, expectation.retained)
        if window is None or len(read.items) < window:
            return self._due_seen < self._due_total
        if expectation.order is Order.NONE:
            return False
        return any(self._is_hole(one) for one in self._due)

    def _is_hole(self, one: Acknowledged) -> bool:
        """Whether this is missing although something that certainly comes before it is in the window."""
        if (one.writer, one.seq) in self._names:
            return False
        if self._lowest.get(one.writer, one.seq) < one.seq:
            return True
        return (
            self._expectation.order is Order.REALTIME
            and self._earliest_end is not None
            and self._earliest_end < one.sent
        )

    def _may_have_expired(self) -> bool:
        ttl_us = self._expectation.ttl_us
        if ttl_us is None:
            return False
        conversation = self._conversation
        since = conversation.last_sent if self._expectation.expiry is Expiry.SLIDING else conversation.first_sent
        return self._read.returned > since + ttl_us - EXPIRY_SLACK_US


def _due_and_fresh(
    known: list[Acknowledged], invoked: int, expectation: Expectation
) -> tuple[list[Acknowledged], list[Acknowledged]]:
    """Part what a read must show from what was acknowledged too shortly before it."""
    if not expectation.staleness_us:
        return known, []
    before = invoked - expectation.staleness_us
    return [one for one in known if one.ended <= before], [one for one in known if one.ended > before]


def _smaller(one: int | None, other: int | None) -> int | None:
    return one if other is None else other if one is None else min(one, other)


def observation(
    conversation: Conversation,
    read: ParticipantRead,
    suspected: ReadProblem,
    author: MessageGenerator,
    asked: tuple[int, int] | None = None,
) -> Observation:
    """Put all that is needed to judge a read, or a search for the words of a message, into one record."""
    acked = conversation.acked()
    since = conversation.acked_total - read.acked_total
    return Observation(
        session=conversation.number,
        invoked=read.invoked,
        returned=read.returned,
        last=read.last,
        items=[_seen(item, author) for item in read.items],
        acked=[(one.writer, one.seq, one.sent, one.ended) for one in acked[: max(0, len(acked) - since)]],
        acked_total=read.acked_total,
        suspicion=suspected.value,
        asked=asked,
    )


def _seen(item: object, author: MessageGenerator) -> SeenItem:
    if isinstance(item, Garbled):
        return SeenItem("", -1, 0, item.raw[:RAW_BYTES_MAX], item.reason[:200])
    if not isinstance(item, Message) or not is_well_made(item):
        return _no_message(item)
    if item.run == author.run and item == author.write(item.session, item.writer, item.seq):
        return SeenItem(item.session, item.writer, item.seq)
    shown = _escaped(item)
    problem = "of another run" if item.run != author.run else "not what was written"
    try:
        return SeenItem(shown.session, shown.writer, shown.seq, shown.to_bytes()[:RAW_BYTES_MAX], problem)
    except OverflowError:
        return _no_message(item)  # a number that no record holds


def _no_message(item: object) -> SeenItem:
    shown = repr(item).encode("utf-8", "backslashreplace")[:RAW_BYTES_MAX]
    return SeenItem("", -1, 0, shown, f"is a {type(item).__name__}, no message")


def _escaped(item: Message) -> Message:
    """Write out half characters, which no record can hold; such a text is not what was written either way."""
    texts = {name: getattr(item, name) for name in ("run", "session", "role", "content")}
    escaped = {name: text.encode("utf-8", "backslashreplace").decode() for name, text in texts.items()}
    return item if escaped == texts else msgspec.structs.replace(item, **escaped)


# What came of one operation, as Locust is to show it.
#
# Locust keeps a row for every error text it has ever seen. So there is a small, fixed set of texts, and one exception
# object for each, made once and never raised.


KINDS_MAX = 64


class OperationFailedError(Exception):
    """An operation did not succeed, or what it read does not look right."""


class Performed(NamedTuple):
    """One operation on one store, ready to be reported."""

    operation: str
    store: str
    milliseconds: float
    error: OperationFailedError | None


SUSPICIONS = {one: OperationFailedError(f"suspicious read: {one.value}") for one in ReadProblem}

_TIMEOUT = OperationFailedError("no answer in time")
_NOT_APPLIED = OperationFailedError("refused, not applied")
_OTHER = OperationFailedError("some other error")
_by_type: dict[type[BaseException], OperationFailedError] = {}


def failure_of(error: BaseException) -> OperationFailedError:
    """Give the one error object for all errors of this kind."""
    if isinstance(error, TimeoutError):
        return _TIMEOUT
    if isinstance(error, NotApplied):
        return _NOT_APPLIED
    kind = type(error)
    known = _by_type.get(kind)
    if known is None:
        if len(_by_type) >= KINDS_MAX:
            return _OTHER
        known = _by_type[kind] = OperationFailedError(f"error: {kind.__name__}")
    return known
