"""Gathering the evidence of one violation, from the book, the reads, the faults and the servers' own words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain

import msgspec

from soak.checker.case import writable
from soak.checker.clues import (
    GONE_MAX,
    IDENTITIES,
    OTHERS_MAX,
    PRESENT_RUNS_MAX,
    Clues,
    acknowledged_before,
    are_rivals,
    when_seen,
)
from soak.checker.expected_session import names_in, runs_in, runs_of
from soak.checker.facts.contents import encoded
from soak.checker.incidents import Suspicion
from soak.checker.intervals import Intervals
from soak.checker.kinds import Kind
from soak.checker.message import Message, Stored, is_well_made
from soak.checker.outcome import Attempt
from soak.checker.patterns import Traits
from soak.checker.read import MessageId, Read
from soak.checker.telemetry import ServerSample
from soak.checker.text import MessageGenerator
from soak.clock import now_us
from soak.verifier.state import State
from soak.verifier.tracked_session import TrackedSession

LOSSES = (Kind.LOST, Kind.ROLLED_BACK)
ELSEWHERE_MAX = 10_000
"""Messages remembered that were read in a session they do not belong to."""
SAME_TEXT_MAX = 8
TEXT_CHARACTERS_MAX = 64 * 1024
"""More than any message has: what is longer was not written so."""
TELLING = ("evicted_keys", "expired_keys", *IDENTITIES)
"""What facts go by in what servers count of themselves."""

Texts = dict[tuple[str, str], dict[MessageId, None]]


class Detective:
    """Gathers the evidence of each violation, and remembers how the earlier losses of each store came about."""

    def __init__(self, state: State, author: MessageGenerator, replica_stores: set[str]) -> None:
        self._state = state
        self._author = author
        self._replica_stores = replica_stores
        self._losses: Counter[str] = Counter()
        self._alone: Counter[str] = Counter()
        self._repeating: Counter[str] = Counter()
        self._elsewhere: dict[tuple[str, str, int, int], str] = {}
        """Where messages were read that belong to another session: by store, session, writer and number."""

    def gather(
        self,
        tracked: TrackedSession,
        kind: Kind,
        places: Sequence[MessageId],
        read: Read,
        suspicion: Suspicion | None,
        *,
        is_search: bool = False,
    ) -> Clues:
        """Gather what is known about violations of one kind, found together; the first place stands for them all."""
        book = tracked.book
        targets = self._state.targets[book.store]
        if kind is Kind.LEAKED:
            self._note_leaks(book.store, book.session, read.items)
        shown = self._shown(book.session, read.items)
        texts = self._texts(book.session, read.items) if kind in LOSSES else {}
        runs = runs_of(shown)
        attempts = {(one.writer, one.seq): one for one in chain(book.recent, book.pending)}
        place = places[0] if places else None
        attempt = None if place is None else attempts.get(place)
        others = _near(attempts.values(), attempt, read)
        was_seen, last_seen, is_unknown = self._sightings(tracked, place, read, suspicion, list(attempts.values()))
        clues = Clues(
            kind=kind,
            place=place,
            attempt=attempt,
            others=others[:OTHERS_MAX],
            others_cut=len(others) > OTHERS_MAX,
            read_invoked=read.invoked,
            read_returned=read.returned,
            items=len(read.items),
            present=runs[:PRESENT_RUNS_MAX],
            present_cut=len(runs) > PRESENT_RUNS_MAX,
            first_missed=suspicion.invoked if suspicion is not None else 0,
            first_missed_returned=suspicion.returned if suspicion is not None else 0,
            first_items=suspicion.items if suspicion is not None else 0,
            gone=list(places[:GONE_MAX]),
            was_seen=was_seen,
            last_seen=last_seen,
            history_unknown=is_unknown,
            replaced=self._replaced(tracked, shown) if kind is Kind.UNDECODABLE and not is_unknown else [],
            same_text=[] if place is None else self._same_text(book.session, place, texts),
            survivor=_survivor(attempts, attempt, shown, suspicion) if kind in LOSSES else None,
            is_search=is_search,
            elsewhere=self._stands_in(book.store, book.session, place),
            reads_replica=book.store in self._replica_stores,
            worker_silent_us=self._silence(tracked),
            faults=[
                msgspec.structs.replace(window, known={})
                for window in self._state.faults.values()
                if window.target in targets
            ],
            samples=_brief(chain.from_iterable(self._state.samples.get(target, ()) for target in targets)),
            troubles=list(self._state.lanes[book.store].troubles),
        )
        if kind is Kind.CORRUPTED:
            return self._with_texts(clues, book.session, read.items)
        if kind not in LOSSES:
            return clues
        repeating = sum(bool(self._same_text(book.session, one, texts)) for one in places)
        return self._with_history(clues, book.store, places, attempts, repeating)

    def traits(
        self, tracked: TrackedSession, kind: Kind, found: Iterable[tuple[str, MessageId | None]], read: Read
    ) -> list[Traits]:
        """Return what each violation found by a read is compared by with the others of its kind."""
        texts = self._texts(tracked.book.session, read.items) if kind in LOSSES else {}
        return [self._traits(tracked, kind, message, place, read, texts) for message, place in found]

    def _traits(
        self, tracked: TrackedSession, kind: Kind, message: str, place: MessageId | None, read: Read, texts: Texts
    ) -> Traits:
        session, store = tracked.book.session, tracked.book.store
        if place is None:
            # The name of a message of another session is preceded by its run.
            foreign = message.partition(":")[2].rsplit("/", 2)[0] if kind is Kind.LEAKED else ""
            return Traits(items=len(read.items), other_session=writable(foreign))
        writer = tracked.book.find_writer(place[0])
        stands_in = self._stands_in(store, session, place)
        cut = self._cut(session, place, read.items) if kind is Kind.CORRUPTED else None
        return Traits(
            items=len(read.items),
            is_first=place[1] == 1,
            is_last=writer is not None and bool(writer.acked) and place[1] == writer.acked.largest,
            repeats_text=bool(self._same_text(session, place, texts)),
            cut_characters=None if cut is None else len(cut),
            cut_bytes=None if cut is None else len(encoded(cut)),
            was_right=kind is Kind.CORRUPTED and self._sightings(tracked, place, read, None, [])[0],
            other_session=stands_in[0] if stands_in else "",
        )

    # -- what was seen, and where --

    def _shown(self, session: str, items: Sequence[Stored]) -> list[MessageId]:
        """Return the messages of the session in a read, in its order."""
        run = self._author.run
        return [
            (item.writer, item.seq)
            for item in items
            if isinstance(item, Message) and is_well_made(item) and item.session == session and item.run == run
        ]

    def _sightings(
        self,
        tracked: TrackedSession,
        place: MessageId | None,
        read: Read,
        suspicion: Suspicion | None,
        attempts: list[Attempt],
    ) -> tuple[bool, int, bool]:
        """Return whether an earlier read had shown it, when one certainly did, and whether that is not known."""
        if place is None:
            return False, 0, tracked.last_whole >= read.invoked
        if suspicion is not None:
            was_seen = _is_among(suspicion.seen, place)
            return was_seen, when_seen(place, attempts, suspicion.last_seen) if was_seen else 0, False
        if tracked.last_whole >= read.invoked:
            return False, 0, True  # a read of a part, judged by a whole one that came after it
        writer = tracked.book.find_writer(place[0])
        if writer is None or place[1] not in writer.standing:
            return False, 0, False
        return True, when_seen(place, attempts, tracked.last_whole), False

    def _replaced(self, tracked: TrackedSession, shown: list[MessageId]) -> list[MessageId]:
        """Return what earlier reads had shown and this one lacks."""
        here = set(shown)
        return [place for place in tracked.book.names_in_order() if place not in here][:SAME_TEXT_MAX]

    def _texts(self, session: str, items: Sequence[Stored]) -> Texts:
        """Return which messages of the session say what, as far as a read shows."""
        texts: Texts = {}
        for item in items:
            if isinstance(item, Message) and is_well_made(item) and item.session == session:
                said = texts.setdefault((item.role, item.content), {})
                if item.run == self._author.run and len(said) <= SAME_TEXT_MAX:
                    said[item.writer, item.seq] = None
        return texts

    def _same_text(self, session: str, place: MessageId, texts: Texts) -> list[MessageId]:
        mine = self._author.write(session, *place)
        return [one for one in texts.get((mine.role, mine.content), ()) if one != place][:SAME_TEXT_MAX]

    def _note_leaks(self, store: str, session: str, items: Sequence[Stored]) -> None:
        """Remember where messages stand that belong to another session: there they are missed."""
        for item in items:
            is_foreign = isinstance(item, Message) and is_well_made(item) and item.session != session
            if isinstance(item, Message) and is_foreign and item.run == self._author.run and item.is_intact:
                self._elsewhere.setdefault((store, item.session, item.writer, item.seq), session)
        while len(self._elsewhere) > ELSEWHERE_MAX:
            self._elsewhere.pop(next(iter(self._elsewhere)))

    def _stands_in(self, store: str, session: str, place: MessageId | None) -> list[str]:
        found = None if place is None else self._elsewhere.get((store, session, *place))
        return [] if found is None else [found]

    # -- what it says --

    def _with_texts(self, clues: Clues, session: str, items: Sequence[Stored]) -> Clues:
        got = None if clues.place is None else _item_of(session, clues.place, items, self._author)
        if got is None or clues.place is None:
            return clues
        want = self._author.write(session, *clues.place)
        return msgspec.structs.replace(
            clues,
            expected_role=_writable(want.role),
            expected=_writable(want.content),
            got_role=_writable(got.role),
            got=_writable(got.content),
        )

    def _cut(self, session: str, place: MessageId, items: Sequence[Stored]) -> str | None:
        """Return the content of a message that ends early."""
        got = _item_of(session, place, items, self._author)
        want = self._author.write(session, *place).content
        is_cut = got is not None and len(got.content) < len(want) and want.startswith(got.content)
        return got.content if got is not None and is_cut else None

    # -- how it compares --

    def _with_history(
        self, clues: Clues, store: str, places: Sequence[MessageId], attempts: dict[MessageId, Attempt], repeating: int
    ) -> Clues:
        self._losses[store] += len(places)
        self._alone[store] += sum(_is_alone(attempts[place], attempts) for place in places if place in attempts)
        self._repeating[store] += repeating
        return msgspec.structs.replace(
            clues,
            losses=self._losses[store],
            losses_alone=self._alone[store],
            losses_repeating=self._repeating[store],
        )

    def _silence(self, tracked: TrackedSession) -> int:
        worker = self._state.workers.get(tracked.worker)
        if worker is None or worker.farewell:
            return 0
        return now_us() - max(worker.last_heard, self._state.listening_since)


def _is_among(bounds: dict[int, list[int]], place: MessageId) -> bool:
    return place[1] in Intervals(bounds.get(place[0], []))


def _survivor(
    attempts: dict[MessageId, Attempt], mine: Attempt | None, shown: list[MessageId], suspicion: Suspicion | None
) -> MessageId | None:
    """Return the latest that stands of what the full read before had shown with a message, and was sent after it."""
    if mine is None or suspicion is None or not suspicion.is_before_whole:
        return None
    before = set(names_in(runs_in(suspicion.before)))
    if (mine.writer, mine.seq) not in before:
        return None
    here = [place for place in shown if place in before and place in attempts]
    later = [place for place in here if acknowledged_before(mine, attempts[place])]
    return max(later, key=lambda place: attempts[place].sent, default=None)


def _is_alone(mine: Attempt, attempts: dict[MessageId, Attempt]) -> bool:
    return not any(are_rivals(mine, other) for other in attempts.values())


def _near(attempts: Iterable[Attempt], mine: Attempt | None, read: Read) -> list[Attempt]:
    """Return the appends, those first that ran at the time of the message, then those at the time of the read."""

    def distance(other: Attempt) -> int:
        from_read = max(0, other.sent - read.returned, read.invoked - other.ended)
        return from_read if mine is None else min(from_read, max(0, other.sent - mine.ended, mine.sent - other.ended))

    return sorted(attempts, key=distance)


def _brief(samples: Iterable[ServerSample]) -> list[ServerSample]:
    """Return samples, oldest first, each with only what it says other than the one before of the same server."""
    said: dict[str, dict[str, str]] = {}
    brief: list[ServerSample] = []
    for sample in sorted(samples, key=lambda sample: sample.at):
        known = said.setdefault(sample.server, {})
        news = {name: value for name, value in sample.configuration.items() if known.get(name) != value}
        known.update(news)
        telemetry = {name: sample.telemetry[name] for name in TELLING if name in sample.telemetry}
        brief.append(msgspec.structs.replace(sample, configuration=news, telemetry=telemetry))
    return brief


def _item_of(session: str, place: MessageId, items: Sequence[Stored], author: MessageGenerator) -> Message | None:
    """Return the message of this name that is not as it was written."""
    want = author.write(session, *place)
    return next(
        (
            item
            for item in items
            if isinstance(item, Message)
            and is_well_made(item)
            and (item.session, item.writer, item.seq) == (session, *place)
            and item != want
        ),
        None,
    )


def _writable(text: str) -> str:
    """Return a text that can be written into a file: of bounded length, half a character escaped."""
    return text[:TEXT_CHARACTERS_MAX].encode("utf-8", "backslashreplace").decode()
