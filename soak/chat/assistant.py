"""What the assistant says: a pure function of what the memory shows it. It keeps nothing of its own.

It is scripted, so that everybody can tell what it has to say: whatever it does not know was not in its memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

ECHO_CHARACTERS_MAX = 160
FACTS_TOLD_MAX = 20
FACT_CHARACTERS_MAX = 200
NAME_CHARACTERS_MAX = 80
STRANGER = "I know nothing about you yet. Tell me your name, or something that I should remember."
UNREACHABLE = (
    "I cannot reach my memory, so I cannot tell what I know about you. This is not to say that I know nothing."
)
UNSEEN = "(My memory does not show me what you have just said.)"

_SENTENCE_ENDS = re.compile(r"(?<=[.!?])\s+|\n+")
_NAME = re.compile(r"\b(?:my name is|my name's|i am called|call me)\s+(.+)", re.IGNORECASE)
_FACT = re.compile(
    r"\b(?:i am|i'm|i live|i like|i love|i prefer|i hate|i work|i have|i moved|i was born|i come from|"
    r"my [\w' -]{1,40}? (?:is|are|was|lives?|likes?))\b.+",
    re.IGNORECASE,
)
_REMEMBER = re.compile(r"\b(?:please )?remember(?: that)?:?\s+(.+)", re.IGNORECASE)
_ASKS_NAME = re.compile(r"\b(?:what(?:'s| is) my name|who am i|do you know (?:my name|me|who i am))\b", re.IGNORECASE)
_ASKS_ALL = re.compile(
    r"\bwhat do you (?:know|remember)\b|\bdo you remember me\b|\bwhat (?:have|did) i (?:told|tell|said|say)\b",
    re.IGNORECASE,
)
_ASKS_ABOUT = re.compile(r"^(?:what|where|who|which|when|how|do|am|is|are|does)\b.*\?\s*$", re.IGNORECASE | re.DOTALL)
_GREETS = re.compile(r"^\s*(?:hi|hello|hey|good (?:morning|day|evening))\b[\s,.!]*$", re.IGNORECASE)
_YOURS = {"i": "you", "i'm": "you are", "am": "are", "was": "were", "my": "your", "me": "you", "mine": "yours"}
_SMALL = frozenset(
    {"about", "and", "are", "does", "have", "how", "like", "the", "was", "what", "when", "where", "which", "who", "you"}
)
"""Words that say nothing of what a question is about, besides the shortest ones."""
_SMALL_CHARACTERS = 2


class Turn(NamedTuple):
    """What a person said, as the memory has it."""

    role: str
    content: str


class Knowledge(NamedTuple):
    """What was said about the person, as far as the assistant understands it."""

    name: str | None
    facts: tuple[str, ...]
    """In the person's own words, each once, newest last."""


def known(turns: Iterable[Turn]) -> Knowledge:
    """Gather what the person has told about themselves; the last name counts."""
    name: str | None = None
    facts: dict[str, None] = {}
    for turn in turns:
        if turn.role != "user":
            continue
        for sentence in _statements(turn.content):
            called, rest = _name_in(sentence)
            name = called or name
            if (fact := _fact_in(rest)) is not None:
                facts.pop(fact, None)
                facts[fact] = None
    return Knowledge(name, tuple(facts))


def reply(turns: Sequence[Turn], said: str) -> str:
    """Answer what was said, knowing what the memory shows; that may or may not show what was said just now."""
    told = known([Turn("user", said)])
    if told.name is not None or told.facts:
        return _taken_in(told)
    now = known(turns)
    if _ASKS_NAME.search(said):
        return f"Your name is {now.name}." if now.name is not None else "I do not know your name. What is it?"
    if _ASKS_ALL.search(said):
        return _everything(now)
    if _ASKS_ABOUT.search(said) and (found := _nearest(now.facts, said)) is not None:
        return f"You told me that {_about_you(found)}."
    if _GREETS.search(said):
        return f"Hello, {now.name}." if now.name is not None else "Hello. What is your name?"
    return f"You said: {_shortened(said, ECHO_CHARACTERS_MAX)}"


def chunks(text: str, pieces_max: int) -> Iterator[str]:
    """Part a text into words, or into larger pieces if there are many, for it to be shown as it comes."""
    words = re.findall(r"\s*\S+\s*$|\s*\S+", text) or ([text] if text else [])
    size = max(1, -(-len(words) // pieces_max))
    for start in range(0, len(words), size):
        yield "".join(words[start : start + size])


def _statements(text: str) -> Iterator[str]:
    for sentence in _SENTENCE_ENDS.split(text):
        if sentence.strip() and not sentence.rstrip().endswith("?"):
            yield sentence.strip()


def _name_in(sentence: str) -> tuple[str | None, str]:
    """Find a name in a sentence, and what the sentence says besides."""
    found = _NAME.search(sentence)
    if found is None:
        return None, sentence
    name, *rest = re.split(r"[.,;!?]|\band\b", found[1], maxsplit=1)
    return _shortened(name.strip(), NAME_CHARACTERS_MAX) or None, rest[0] if rest else ""


def _fact_in(sentence: str) -> str | None:
    found = _REMEMBER.search(sentence)
    fact = found[1] if found is not None else None
    if fact is None and (found := _FACT.search(sentence)) is not None:
        fact = found[0]
    return _shortened(fact.strip().rstrip(".!"), FACT_CHARACTERS_MAX) if fact is not None else None


def _taken_in(told: Knowledge) -> str:
    greeting = f"Nice to meet you, {told.name}. " if told.name is not None else ""
    things = [*(["your name"] if told.name is not None else []), *(f"that {_about_you(one)}" for one in told.facts)]
    return f"{greeting}I will remember {', and '.join(things)}."


def _everything(knowledge: Knowledge) -> str:
    if knowledge.name is None and not knowledge.facts:
        return STRANGER
    parts = [f"Your name is {knowledge.name}."] if knowledge.name is not None else []
    told = knowledge.facts[-FACTS_TOLD_MAX:]
    parts += [f"You told me that {_about_you(fact)}." for fact in told]
    if len(knowledge.facts) > len(told):
        parts.append(f"And {len(knowledge.facts) - len(told)} things before that.")
    return " ".join(parts)


def _nearest(facts: Sequence[str], question: str) -> str | None:
    """Find the newest fact that shares most of its words with the question."""
    asked = _stems(question)
    best = max(reversed(facts), key=lambda fact: len(asked & _stems(fact)), default=None)
    return best if best is not None and asked & _stems(best) else None


def _stems(text: str) -> set[str]:
    words = re.findall(r"\w+", text.lower())
    return {word[:5] for word in words if word not in _SMALL and len(word) > _SMALL_CHARACTERS}


def _about_you(fact: str) -> str:
    words = fact.split(" ")
    return " ".join(_YOURS.get(word.lower(), word) for word in words)


def _shortened(text: str, characters_max: int) -> str:
    return text if len(text) <= characters_max else text[: characters_max - 1].rstrip() + "…"
