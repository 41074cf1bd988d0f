"""Names of sessions, among them pairs that differ in next to nothing.

A store that lower-cases its keys, trims them, brings them into a normal form or splits them at a slash puts two such
sessions into one drawer. A pair stands on one store, one session right after the other, so that both are there at the
same time. The other names are plain: a run is easier to follow with them.

The name of the mix ends the name of a session, blanks aside: what is said follows from it (`soak.checker.text`).
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

_ACCENTED = "é"


class Pair(NamedTuple):
    """Two names of sessions that a store may take for one. Each makes a name of worker, number and mix."""

    what: str
    """In what they differ."""
    first: Callable[[str, int, str], str]
    second: Callable[[str, int, str], str]


def plain(worker: str, number: int, mix: str) -> str:
    return f"{worker}-{number}-{mix}"


PAIRS = (
    Pair("case", plain, lambda worker, number, mix: f"{worker.upper()}-{number}-{mix}"),
    Pair("a blank at the end", plain, lambda worker, number, mix: f"{worker}-{number}-{mix} "),
    Pair(
        "normal form",
        lambda worker, number, mix: f"{worker}-{number}{_ACCENTED}-{mix}",
        lambda worker, number, mix: f"{worker}-{number}{unicodedata.normalize('NFD', _ACCENTED)}-{mix}",
    ),
    Pair(
        "between slashes",
        lambda worker, number, mix: f"{worker}/1/{number}-{mix}",
        lambda worker, number, mix: f"{worker}/2/{number}-{mix}",
    ),
    Pair("punctuation", plain, lambda worker, number, mix: f"{worker}.{number}-{mix}"),
    Pair(
        "between colons",
        lambda worker, number, mix: f"{worker}:1:{number}-{mix}",
        lambda worker, number, mix: f"{worker}:2:{number}-{mix}",
    ),
    Pair(
        "blanks within",
        lambda worker, number, mix: f"{worker} {number}-{mix}",
        lambda worker, number, mix: f"{worker}  {number}-{mix}",
    ),
    Pair(
        "percent encoding",
        lambda worker, number, mix: f"{worker}/{number}-{mix}",
        lambda worker, number, mix: f"{worker}%2F{number}-{mix}",
    ),
)
"""In the order in which they have their turn, the most likely mistake first."""


class SessionNames:
    """Names the sessions of one worker."""

    def __init__(self, worker: str, mix: str, similar_share: float) -> None:
        self._worker = worker
        self._mix = mix
        # Both of a pair count as similar, also where the first is plain: without it the second would show nothing.
        self._pair_every = max(2, round(2 / similar_share)) if similar_share > 0 else 0
        self._opened = Counter[str]()
        self._number = 0
        self._first: dict[str, int] = {}

    def next(self, store: str) -> str:
        """Name the next session on a store."""
        self._number += 1
        at, self._opened[store] = self._opened[store], self._opened[store] + 1
        if not self._pair_every or at % self._pair_every > 1:
            return plain(self._worker, self._number, self._mix)
        pair = PAIRS[at // self._pair_every % len(PAIRS)]
        if at % self._pair_every == 0:
            self._first[store] = self._number
            return pair.first(self._worker, self._number, self._mix)
        return pair.second(self._worker, self._first[store], self._mix)
