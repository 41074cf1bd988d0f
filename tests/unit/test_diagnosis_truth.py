"""No story says what is not so: every fact about every planted flaw holds by its evidence, and by what happened."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec
import pytest

from soak.checker import facts
from soak.checker.causes import Diagnosis, candidates
from soak.checker.clues import Clues
from soak.checker.facts.fact import Fact
from soak.checker.kinds import Kind
from soak.checker.message import Message
from soak.verifier import reporter as reporter_module
from soak.verifier.story import StoryFacts, story_of
from tests.support.checker import simulated
from tests.support.checker.every_flaw import FLAWS, Flaw
from tests.support.checker.every_rule_flaw import RULES_BROKEN
from tests.support.checker.every_search_flaw import SEARCHES
from tests.support.checker.simulated import SESSION, Simulation

pytestmark = pytest.mark.no_cover

MessageId = tuple[int, int]
FACTS_SEEN_MIN = 15
"""Kinds of facts in the stories of the simulated flaws, at least."""


class Shown(NamedTuple):
    """A read as it really was."""

    invoked: int
    places: list[MessageId]


class Witness:
    """Sees every read of a simulated store, and every story that is told of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reads: list[Shown] = []
        self.stories: list[dict[str, Any]] = []
        self.last: Simulation | None = None
        history, search = simulated._Reader.history, simulated._Reader._search

        async def seen_history(reader: Any, *arguments: Any) -> Any:
            return self._note(reader, reader._simulation.now, await history(reader, *arguments))

        async def seen_search(reader: Any, *arguments: Any) -> Any:
            return self._note(reader, reader._simulation.now, await search(reader, *arguments))

        def told(of: StoryFacts, author: Any) -> dict[str, Any]:
            story = story_of(of, author)
            # As it is read back from the file.
            self.stories.append(msgspec.json.decode(msgspec.json.encode(story)))
            return story

        monkeypatch.setattr(simulated._Reader, "history", seen_history)
        monkeypatch.setattr(simulated._Reader, "_search", seen_search)
        monkeypatch.setattr(reporter_module, "story_of", told)

    def _note(self, reader: Any, invoked: int, items: Any) -> Any:
        self.last = reader._simulation
        mine = [item for item in items if isinstance(item, Message) and item.session == SESSION]
        self.reads.append(Shown(invoked, [(item.writer, item.seq) for item in mine]))
        return items

    def at(self, invoked: int) -> list[Shown]:
        return [read for read in self.reads if read.invoked == invoked]

    def contradicts(self, fact: Fact, clues: Clues) -> bool:  # noqa: PLR0911  an answer for each fact
        """Whether what happened is known to be otherwise."""
        place = clues.place
        match fact:
            case facts.NeverSeen():
                return any(place in read.places for read in self.reads)
            case facts.SeenThenGone(last_seen=seen, first_missed=missed):
                return not any(place in r.places for r in self.at(seen)) or any(
                    place in r.places for r in self.at(missed)
                )
            case facts.ShownLater(first_missed=missed, invoked=invoked):
                return any(place in r.places for r in self.at(missed)) or not any(
                    place in r.places for r in self.at(invoked)
                )
            case facts.NeighboursPresent(before=before, after=after):
                is_shown = any(
                    {one for one in (before, after) if one is not None} <= set(r.places) and place not in r.places
                    for r in self.at(clues.read_invoked)
                )
                return not is_shown or not self._are_neighbours(before, place, after)
            case facts.OverlappingAppend(writer=writer, seq=seq, sent=sent, ended=ended):
                return self._times((writer, seq)) not in {None, (sent, ended)}
            case facts.SentOnce(sent=sent, ended=ended):
                return place is not None and self._times(place) not in {None, (sent, ended)}
            case facts.AnswerWasEmpty(invoked=invoked):
                return not any(not read.places for read in self.at(invoked))
        return False

    def _are_neighbours(self, before: MessageId | None, place: MessageId | None, after: MessageId | None) -> bool:
        times = [self._times(one) if one is not None else None for one in (before, place, after)]
        known = [time for time in times if time is not None]
        return all(one[0] < two[0] for one, two in pairwise(known))

    def _times(self, place: MessageId) -> tuple[int, int] | None:
        assert self.last is not None
        return self.last.acked.get(place)


@pytest.fixture
def witness(monkeypatch: pytest.MonkeyPatch) -> Witness:
    return Witness(monkeypatch)


def diagnoses(witness: Witness) -> Iterator[tuple[dict[str, Any], Diagnosis]]:
    for story in witness.stories:
        yield story, msgspec.convert(story["diagnosis"], Diagnosis)


SAID_OF_NOTHING = (facts.NotCounted, facts.ConfigurationUnknown)
"""Facts that something is not known: they hold where nothing is."""


def altered(fact: Fact) -> Iterator[Fact]:
    """Return the same fact with another number, name or place, one at a time."""
    for name in fact.__struct_fields__:
        value = getattr(fact, name)
        if name == "at":
            continue  # a moment that a setting is looked up at, or a position: the next one may be as good
        if type(value) is int:
            yield msgspec.structs.replace(fact, **{name: value + 1})
        elif isinstance(value, tuple):
            yield msgspec.structs.replace(fact, **{name: (value[0], value[1] + 1_000)})
        elif isinstance(value, str) and name not in {"during", "form"}:
            yield msgspec.structs.replace(fact, **{name: value + "?"})


@pytest.mark.parametrize("flaw", [*FLAWS, *RULES_BROKEN, *SEARCHES], ids=lambda flaw: flaw.name)
def test_every_sentence_about_a_planted_flaw_is_so(flaw: Flaw, witness: Witness) -> None:
    for seed in range(2):
        witness.reads.clear()
        witness.stories.clear()
        flaw.found(random.Random(f"{flaw.name}/{seed}"))
        assert bool(witness.stories) == bool(flaw.kinds)
        for story, diagnosis in diagnoses(witness):
            clues = diagnosis.clues
            said = [*diagnosis.facts, *diagnosis.against, *diagnosis.observed]
            assert len(said) == len(candidates(clues).all_facts), "a fact was thought to hold that does not"
            for fact in said:
                assert fact.holds(clues), (fact, clues)
                assert not witness.contradicts(fact, clues), (fact, story)
                # And a fact that is not so is noticed: with nothing to support it, or with another value.
                if not isinstance(fact, SAID_OF_NOTHING):
                    assert not fact.holds(Clues(kind=Kind.WINDOW))
                    assert not [other for other in altered(fact) if other.holds(clues)]


def test_the_flaws_have_something_to_say(witness: Witness) -> None:
    """Whatever is said is so; and it is not so because nothing is said."""
    for flaw in FLAWS:
        flaw.found(random.Random(f"{flaw.name}/0"))
    kinds = {type(fact) for _, one in diagnoses(witness) for fact in (*one.facts, *one.against, *one.observed)}
    assert len(kinds) >= FACTS_SEEN_MIN, sorted(kind.__name__ for kind in kinds)


def test_a_witness_contradicts_what_did_not_happen(witness: Witness) -> None:
    by_name = {flaw.name: flaw for flaw in FLAWS}
    by_name["lose seen"].found(random.Random("lose seen/0"))
    ((_, diagnosis),) = diagnoses(witness)
    assert witness.contradicts(facts.NeverSeen(), diagnosis.clues)
    assert witness.contradicts(facts.SeenThenGone(last_seen=1, first_missed=2), diagnosis.clues)
    assert witness.contradicts(facts.AnswerWasEmpty(invoked=diagnosis.clues.read_invoked), diagnosis.clues)
