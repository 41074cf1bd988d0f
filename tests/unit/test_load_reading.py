"""The read-time check: silent on every legal read, suspicious of every planted anomaly."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from soak.checker.contract import Contract, Duplicates, Expiry, Order, Reads
from soak.checker.message import Garbled, Message
from soak.checker.outcome import Outcome
from soak.load.reading import Expectation, ParticipantRead, ReadProblem, observation, suspicion, suspicion_after_forget
from tests.support.load_talk import AUTHOR, FOREIGN, OTHER_RUN, STRICT, WINDOW, Talk, a_conversation, altered, talk_of


@pytest.mark.parametrize("writers", [1, 3])
@pytest.mark.parametrize("last", [WINDOW, None])
class TestAnomalies:
    """Each anomaly, planted alone in a clean read, raises exactly its suspicion."""

    def test_clean_reads_raise_none(self, writers: int, last: int | None) -> None:
        for count in (0, 1, WINDOW - 1, WINDOW, WINDOW + 1, 60):
            assert talk_of(count, writers).suspicion(last=last) is None

    def test_the_newest_is_absent(self, writers: int, last: int | None) -> None:
        talk = talk_of(20, writers)
        items: list[object] = list(talk.stored[:-1])
        assert talk.suspicion(items if last is None else items[-last:], last) is ReadProblem.ABSENT

    def test_one_in_the_middle_is_absent(self, writers: int, last: int | None) -> None:
        talk = talk_of(20, writers)
        del talk.stored[-3]
        assert talk.suspicion(last=last) is ReadProblem.ABSENT

    def test_nothing_is_remembered(self, writers: int, last: int | None) -> None:
        assert talk_of(20, writers).suspicion([], last) is ReadProblem.ABSENT

    def test_two_are_swapped(self, writers: int, last: int | None) -> None:
        talk = talk_of(20, writers)
        talk.stored[-2], talk.stored[-3] = talk.stored[-3], talk.stored[-2]
        assert talk.suspicion(last=last) is ReadProblem.ORDER

    def test_one_stands_twice(self, writers: int, last: int | None) -> None:
        talk = talk_of(20, writers)
        talk.stored.append(talk.stored[-1])
        assert talk.suspicion(last=last) is ReadProblem.DUPLICATE

    def test_a_content_is_altered(self, writers: int, last: int | None) -> None:
        talk = talk_of(20, writers)
        talk.stored[-2] = altered(talk.stored[-2])
        assert talk.suspicion(last=last) is ReadProblem.CONTENT

    def test_one_belongs_to_another_session_or_run(self, writers: int, last: int | None) -> None:
        for stranger in (FOREIGN, OTHER_RUN):
            talk = talk_of(20, writers)
            talk.stored[-2] = stranger
            assert talk.suspicion(last=last) is ReadProblem.FOREIGN

    def test_one_was_never_sent_or_refused(self, writers: int, last: int | None) -> None:
        talk = talk_of(20, writers)
        talk.stored.append(AUTHOR.write("w1-1-chat", 0, 500))
        assert talk.suspicion(last=last) is ReadProblem.PHANTOM
        talk = talk_of(20, writers)
        talk.stored.append(talk.say(Outcome.FAILED))
        assert talk.suspicion(last=last) is ReadProblem.PHANTOM

    def test_something_is_no_message(self, writers: int, last: int | None) -> None:
        talk = talk_of(20, writers)
        for thing in (Garbled(raw=b"\xff", reason="cut"), {"role": "user"}, None, "text", b"raw"):
            items: list[object] = [*talk.stored[-4:], thing]
            assert talk.suspicion(items, last) is ReadProblem.GARBLED


def test_more_than_asked_for_is_too_many() -> None:
    talk = talk_of(20)
    assert talk.suspicion(list(talk.stored[-WINDOW - 1 :])) is ReadProblem.TOO_MANY


def test_the_oldest_window_is_not_the_last_one() -> None:
    for writers in (1, 3):
        talk = talk_of(60, writers)
        assert talk.suspicion(list(talk.stored[:WINDOW])) is ReadProblem.ABSENT


def test_an_unknown_write_may_appear_or_not_and_anywhere_later() -> None:
    talk = talk_of(10)
    unknown = talk.say(Outcome.UNKNOWN, is_stored=False)
    assert talk.suspicion() is None
    talk.say()
    assert talk.suspicion() is None
    talk.stored.append(unknown)
    assert talk.suspicion() is None
    assert talk.suspicion(last=None) is None


def test_others_in_flight_may_appear_or_not() -> None:
    talk = talk_of(12, writers=3)
    before = talk.conversation.acked_total
    seq = talk.conversation.begin(2)
    in_flight = AUTHOR.write(talk.conversation.session, 2, seq)
    for items in (talk.stored[-WINDOW:], [*talk.stored, in_flight][-WINDOW:]):
        read = ParticipantRead(list(items), WINDOW, talk.now, talk.now + 5, before)
        assert suspicion(talk.conversation, read, AUTHOR, STRICT) is None
    # It is acknowledged while the read is under way: still either way is right.
    talk.conversation.end(2, seq, Outcome.OK, talk.now, talk.now + 3, hash(in_flight))
    for items in (talk.stored[-WINDOW:], [*talk.stored, in_flight][-WINDOW:]):
        read = ParticipantRead(list(items), WINDOW, talk.now, talk.now + 5, before)
        assert suspicion(talk.conversation, read, AUTHOR, STRICT) is None


def test_a_contract_decides_what_is_suspicious() -> None:
    def missing_newest(contract: Contract, waited: int = 0) -> ReadProblem | None:
        talk = talk_of(20)
        talk.now += waited
        return talk.suspicion(list(talk.stored[-WINDOW - 1 : -1]), expectation=Expectation.of(contract))

    bounded = Contract(reads=Reads.BOUNDED_STALENESS, staleness_seconds=1.0)
    assert missing_newest(bounded) is None
    assert missing_newest(bounded, waited=2_000_000) is ReadProblem.ABSENT
    assert missing_newest(Contract(reads=Reads.EVENTUAL), waited=9_000_000) is None
    assert missing_newest(Contract(eviction_allowed=True)) is None
    for expiry in Expiry:
        ttl = Contract(ttl_seconds=60.0, expiry=expiry)
        assert missing_newest(ttl) is ReadProblem.ABSENT
        assert missing_newest(ttl, waited=60_000_000) is None

    talk = talk_of(20)
    assert talk.suspicion([*talk.stored[-2:]], expectation=Expectation.of(Contract(retained_messages=2))) is None
    swapped = [talk.stored[-1], talk.stored[-2]]
    retained = Contract(retained_messages=2, order=Order.NONE)
    assert talk.suspicion(list(swapped), expectation=Expectation.of(retained)) is None
    twice: list[object] = [*talk.stored[-4:], talk.stored[-1]]
    repeated = Contract(duplicates=Duplicates.AT_LEAST_ONCE)
    assert talk.suspicion(twice, expectation=Expectation.of(repeated)) is None


def test_what_was_acknowledged_before_a_forget_must_not_be_read_after_it() -> None:
    talk = talk_of(5, writers=2)
    talk.conversation.forget_sent = talk.now
    late = talk.say(writer=1)
    unknown = talk.say(Outcome.UNKNOWN)
    for items, expected in (
        ([], None),
        ([late], None),
        ([unknown, late], None),
        ([talk.stored[0]], ReadProblem.FORGOTTEN),
        ([FOREIGN], ReadProblem.FOREIGN),
    ):
        read = talk.read(list(items), last=None)
        assert suspicion_after_forget(talk.conversation, read, AUTHOR) is expected


def test_an_observation_names_what_was_seen_and_what_was_known() -> None:
    talk = talk_of(4)
    spoilt = altered(talk.stored[1])
    items = [talk.stored[0], spoilt, FOREIGN, OTHER_RUN, Garbled(raw=b"\xff", reason="cut"), 7]
    seen = observation(talk.conversation, talk.read(items), ReadProblem.CONTENT, AUTHOR)
    assert [(one.session, one.writer, one.seq) for one in seen.items[:3]] == [
        ("w1-1-chat", 0, 1),
        ("w1-1-chat", 0, 2),
        ("w1-2-chat", 0, 1),
    ]
    assert seen.items[0].raw is None
    assert Message.from_bytes(seen.items[1].raw or b"") == spoilt
    assert [one.problem for one in seen.items] == [
        "",
        "not what was written",
        "",
        "of another run",
        "cut",
        "is a int, no message",
    ]
    assert [one[1] for one in seen.acked] == [1, 2, 3, 4]
    assert (seen.acked_total, seen.last, seen.suspicion) == (4, WINDOW, "content")


def test_a_long_conversation_remembers_only_its_tail() -> None:
    talk = talk_of(5_000)
    assert len(talk.conversation.acked()) < 4 * WINDOW + 4
    assert talk.suspicion() is None
    assert talk.suspicion(last=None) is None
    del talk.stored[7]
    assert talk.suspicion(last=None) is ReadProblem.ABSENT


@st.composite
def legal_reads(draw: st.DrawFn) -> tuple[Talk, ParticipantRead]:
    """Any history of a correct store: several writers, all outcomes, unknown writes that surface late or never."""
    writers = draw(st.integers(1, 4))
    talk = Talk(a_conversation(writers))
    lurking: list[Message] = []
    for _ in range(draw(st.integers(0, 40))):
        step = draw(st.sampled_from(["ok", "ok", "ok", "failed", "unknown", "surfaces"]))
        writer = draw(st.integers(0, writers - 1))
        if step == "surfaces" and lurking:
            talk.stored.append(lurking.pop(draw(st.integers(0, len(lurking) - 1))))
        elif step == "unknown":
            is_stored = draw(st.booleans())
            message = talk.say(Outcome.UNKNOWN, writer, is_stored=is_stored)
            if not is_stored:
                lurking.append(message)
        else:
            talk.say(Outcome.FAILED if step == "failed" else Outcome.OK, writer)
    last = draw(st.sampled_from([None, 1, WINDOW]))
    known = talk.conversation.acked_total
    invoked = talk.now
    # While the read is under way others go on; it may see any prefix of that.
    seen = len(talk.stored)
    for _ in range(draw(st.integers(0, 3)) if writers > 1 else 0):
        talk.say(writer=draw(st.integers(0, writers - 1)))
    upto = draw(st.integers(seen, len(talk.stored)))
    items = talk.stored[:upto]
    return talk, ParticipantRead(list(items if last is None else items[-last:]), last, invoked, talk.now, known)


@settings(max_examples=150, deadline=None)
@given(legal_reads())
def test_no_legal_read_is_suspicious(case: tuple[Talk, ParticipantRead]) -> None:
    talk, read = case
    assert suspicion(talk.conversation, read, AUTHOR, STRICT) is None


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 3), st.integers(2, 2 * WINDOW), st.data())
def test_any_single_mutation_of_a_full_read_is_suspicious(writers: int, count: int, data: st.DataObject) -> None:
    talk = talk_of(count, writers)
    at = data.draw(st.integers(0, count - 1))
    kind = data.draw(st.sampled_from(["drop", "swap", "repeat", "alter", "insert"]))
    items = list(talk.stored)
    expected = ReadProblem.ABSENT
    if kind == "drop":
        del items[at]
    elif kind == "swap":
        other = (at + 1) % count
        items[at], items[other] = items[other], items[at]
        expected = ReadProblem.ORDER
    elif kind == "repeat":
        items.append(items[at])
        expected = ReadProblem.DUPLICATE
    elif kind == "alter":
        items[at] = altered(items[at])
        expected = ReadProblem.CONTENT
    else:
        items.insert(at, FOREIGN)
        expected = ReadProblem.FOREIGN
    assert talk.suspicion(list(items), last=None) is expected


@pytest.mark.parametrize(
    ("changes", "is_named"),
    [
        ({"content": "half a \ud83d character"}, True),
        ({"role": "\udcff"}, True),
        ({"run": "other\udc80"}, True),
        ({"session": "elsewhere\udc80"}, True),
        ({"seq": 2**80}, False),
        ({"checksum": 2**80}, False),
        ({"content": "字" * 40_000}, True),
    ],
)
def test_a_message_that_no_record_can_hold_is_reported_all_the_same(changes: dict[str, object], is_named: bool) -> None:
    talk = Talk(a_conversation())
    spoiled = msgspec.structs.replace(talk.say(), **changes)
    reported = observation(talk.conversation, talk.read([spoiled]), ReadProblem.CONTENT, AUTHOR)
    (seen,) = msgspec.msgpack.decode(msgspec.msgpack.encode(reported), type=type(reported)).items
    assert (seen.writer == 0) == is_named
    assert seen.raw is not None
    if is_named:
        assert Message.from_bytes(seen.raw).name.seq == 1
