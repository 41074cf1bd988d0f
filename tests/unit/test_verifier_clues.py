"""What is gathered about a violation, from the book, the reads and what the verifier remembers."""

from __future__ import annotations

import msgspec

from soak.checker.causes import Cause, candidates, explain
from soak.checker.contract import Contract
from soak.checker.expected_session import ExpectedSession
from soak.checker.facts import StandsElsewhere, TextCut
from soak.checker.incidents import Suspicion
from soak.checker.kinds import Kind
from soak.checker.message import Garbled, Stored
from soak.checker.outcome import Attempt
from soak.checker.read import Read, Rules
from soak.verifier.clues import Detective
from soak.verifier.journal import Violation
from soak.verifier.state import State
from soak.verifier.story import StoryFacts, shown_in, story_of
from soak.verifier.tracked_session import TrackedSession
from tests.support.checker.simulated import AUTHOR, HOST, SECOND, STORE
from tests.support.run_headers import header_of

HEADER = header_of({STORE: Contract()}, AUTHOR.run, seed=7)

VIOLATION = Violation(
    id="a" * 12, kind="rolled_back", store=STORE, session="ann-chat", message="ann-chat/0/2", writer=0, seq=2,
    detail="", at_wall_seconds=0.0,
)  # fmt: skip


def detective() -> Detective:
    return Detective(State(HEADER, {STORE: ("redis",)}, SECOND), AUTHOR, set())


def watched(session: str, messages: int = 4) -> TrackedSession:
    book = ExpectedSession(session=session, store=STORE)
    book.lease(0, 100)
    for seq in range(1, messages + 1):
        book.acknowledge(Attempt(1, 0, seq, 0, seq * 100, seq * 100 + 10))
    return TrackedSession(book, HOST, 1)


def read(items: list[Stored], at: int = 10 * SECOND) -> Read:
    return Read(invoked=at, returned=at + 10, acked={}, items=items)


def missed(at: int = 5 * SECOND) -> Suspicion:
    return Suspicion(invoked=at, returned=at + 10, items=3, absent={0: [2, 2]}, seen={})


def test_a_message_that_was_read_in_another_session_is_known_to_stand_there() -> None:
    gathering, mine = detective(), AUTHOR.write("ann-chat", 0, 2)
    gathering.gather(watched("Ann-chat"), Kind.LEAKED, [], read([mine]), None)
    clues = gathering.gather(watched("ann-chat"), Kind.LOST, [(0, 2)], read([]), missed())
    assert clues.elsewhere == ["Ann-chat"]
    found = explain(clues)
    assert (found.cause, found.facts) == (Cause.UNKNOWN, [StandsElsewhere(session="Ann-chat")])
    (traits,) = gathering.traits(watched("ann-chat"), Kind.LOST, [("ann-chat/0/2", (0, 2))], read([]))
    assert traits.other_session == "Ann-chat"
    (leaked,) = gathering.traits(watched("Ann-chat"), Kind.LEAKED, [("r1:ann-chat/0/2", None)], read([mine]))
    assert leaked.other_session == "ann-chat"


def test_a_text_that_is_cut_is_measured_in_characters_and_in_bytes() -> None:
    whole = AUTHOR.write("ann-chat", 0, 2)
    cut = msgspec.structs.replace(whole, content=whole.content[:3])
    gathering, session = detective(), watched("ann-chat")
    clues = gathering.gather(session, Kind.CORRUPTED, [(0, 2)], read([cut]), None)
    bytes_left = len(whole.content[:3].encode())
    assert TextCut(characters=3, bytes=bytes_left, of_characters=len(whole.content)) in explain(clues).facts
    (traits,) = gathering.traits(session, Kind.CORRUPTED, [("ann-chat/0/2", (0, 2))], read([cut]))
    assert (traits.cut_characters, traits.cut_bytes) == (3, bytes_left)


def test_a_read_of_a_part_that_a_later_read_was_judged_by_says_nothing_about_earlier_ones() -> None:
    whole = AUTHOR.write("ann-chat", 0, 2)
    altered = msgspec.structs.replace(whole, content="x")
    session = watched("ann-chat")
    session.book.stand([(0, 1), (0, 2)])
    session.book.last_whole = 20 * SECOND
    clues = detective().gather(session, Kind.CORRUPTED, [(0, 2)], read([altered]), None)
    assert (clues.was_seen, clues.history_unknown) == (False, True)
    assert explain(clues).cause is Cause.UNKNOWN


def story(items: list[Stored], kind: Kind, at: int) -> dict[str, object]:
    book = watched("ann-chat").book
    return dict(shown_in(items, at, (0, 2) if kind is Kind.LOST else None, book, AUTHOR))


def test_bytes_are_shown_only_where_the_store_returned_some() -> None:
    message = AUTHOR.write("ann-chat", 0, 1)
    stored = story([message], Kind.CORRUPTED, 0)["stored"]
    assert isinstance(stored, dict)
    assert "raw_hex" not in stored
    garbage = story([Garbled(b"\xff\x00", "bad")], Kind.UNDECODABLE, 0)["stored"]
    assert isinstance(garbage, dict)
    assert (garbage["raw_hex"], garbage["raw_is"]) == ("ff00", "as the store returned it")
    number = story([7], Kind.UNDECODABLE, 0)["stored"]  # type: ignore[list-item]
    assert isinstance(number, dict)
    assert (bytes.fromhex(number["raw_hex"]), number["raw_is"]) == (b"7", "as Python writes what the store returned")


def test_what_stands_around_a_missing_message_is_what_was_said_before_and_after_it() -> None:
    """In a session of two writers, not the next of a writer with a larger number."""
    book = ExpectedSession(session="ann-chat", store=STORE)
    for writer, seq, at in ((0, 1, 100), (1, 1, 200), (0, 2, 300), (1, 2, 400), (0, 3, 500), (1, 3, 600), (0, 4, 700)):
        book.lease(writer, 100)
        book.acknowledge(Attempt(1, writer, seq, 0, at, at + 10))
    order = [(0, 1), (1, 1), (1, 2), (0, 3), (1, 3), (0, 4)]
    items: list[Stored] = [AUTHOR.write("ann-chat", *place) for place in order]
    around = shown_in(items, -1, (0, 2), book, AUTHOR)["neighbours"]
    assert isinstance(around, list)
    assert [one["position"] for one in around] == [0, 1, 2, 3, 4, 5]
    assert shown_in([], -1, (0, 2), book, AUTHOR)["neighbours"] == []


def test_no_story_dates_a_read_before_the_message_was_sent() -> None:
    """Only a read of the end had shown it: the last whole read came before it was even sent."""
    session = watched("ann-chat")
    suspicion = msgspec.structs.replace(missed(), last_seen=150, seen={0: [2, 2]})
    clues = detective().gather(session, Kind.ROLLED_BACK, [(0, 2)], read([]), suspicion)
    assert (clues.was_seen, clues.last_seen) == (True, 0)
    found = explain(clues)
    told = StoryFacts(
        session, Kind.ROLLED_BACK, [VIOLATION], -1, read([]), suspicion, Rules(contract=Contract()), [], found
    )
    life = story_of(told, AUTHOR)["life"]
    assert (life["seen_by_an_earlier_read"], life["last_read_with_it_us"]) == (True, None)


def test_whatever_stands_in_a_message_can_be_written_down() -> None:
    """Half a character in a name or a text, and a text without end."""
    gathering, session = detective(), watched("ann-chat")
    (leaked,) = gathering.traits(session, Kind.LEAKED, [("r2:\ud800-chat/0/2", None)], read([]))
    assert msgspec.json.encode(leaked)
    whole = AUTHOR.write("ann-chat", 0, 2)
    for content in ("\ud800", whole.content + "x" * 1_000_000):
        altered = msgspec.structs.replace(whole, content=content, role="\udfff")
        clues = gathering.gather(session, Kind.CORRUPTED, [(0, 2)], read([altered]), None)
        found = explain(clues)
        assert found.facts == candidates(clues).facts
        assert len(msgspec.json.encode([clues, list(found.facts)])) < 200_000


def test_what_one_read_had_shown_together_and_still_stands_is_known() -> None:
    tracked = watched("ann-chat")
    tracked.book.stand([(0, seq) for seq in (1, 2, 3)])
    together = msgspec.structs.replace(missed(), seen={0: [2, 2]}, before=tracked.book.order, is_before_whole=True)
    items: list[Stored] = [AUTHOR.write("ann-chat", 0, seq) for seq in (1, 3, 4)]
    clues = detective().gather(tracked, Kind.ROLLED_BACK, [(0, 2)], read(items), together)
    assert clues.survivor == (0, 3)
    apart = msgspec.structs.replace(together, is_before_whole=False)
    assert detective().gather(tracked, Kind.ROLLED_BACK, [(0, 2)], read(items), apart).survivor is None
