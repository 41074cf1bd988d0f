"""The nearest word that is right, for a word that is wrong."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

CLOSENESS = 0.6
PART_CHARACTERS_MIN = 4


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that is most like this one; None where none is."""
    spelled = {_plain(name): name for name in known}
    near = difflib.get_close_matches(_plain(word), spelled, n=1, cutoff=CLOSENESS)
    # Nothing is alike: perhaps it is a part of one name.
    near = near or [name for name in spelled if len(word) >= PART_CHARACTERS_MIN and _plain(word) in name][:1]
    return spelled[near[0]] if near else None


def did_you_mean(word: str, known: Iterable[str], otherwise: str = "") -> str:
    """Return the question for the nearest word, or what is to be said where there is none."""
    near = nearest(word, known)
    return otherwise if near is None else f"did you mean {near}?"


def _plain(word: str) -> str:
    # Case and the kind of dash are what people get wrong first.
    return word.lower().replace("-", "_")
