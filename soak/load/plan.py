"""What the participants of one process are going to do: the settings, as one value, and the draws from them."""

from __future__ import annotations

import math
import random
import unicodedata
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from soak.settings import LoadSettings

LENGTH_SPREAD = 0.8
LENGTH_FACTOR_MAX = 30
MARATHON_SHARE = 0.01
LENGTH_MESSAGES_MAX = 10_000
THINK_FACTOR_MAX = 10.0
FORGET_WAIT_SECONDS_MAX = 15.0
"""How long a session that is to be forgotten waits for a verifier that was never heard of."""


class Plan(NamedTuple):
    """How much of what; the names are those of the settings."""

    stores: tuple[str, ...]
    think_seconds: float = 1.0
    context_messages: int = 10
    session_messages: int = 60
    writers_per_session: int = 4
    shared_share: float = 0.1
    recall_share: float = 0.02
    forget_share: float = 0.1
    reread_share: float = 0.1
    search_share: float = 0.2
    mix: str = "chat"
    similar_share: float = 0.125
    forget_race_share: float = 0.2
    """Of the forgets: how many race with a last message."""
    raced_share_max: float = 0.003
    """Of all messages: how many may race with a forget, for those are never verified."""
    forget_wait_seconds_max: float = FORGET_WAIT_SECONDS_MAX

    @classmethod
    def of(cls, load: LoadSettings, stores: tuple[str, ...]) -> Plan:
        return cls(
            stores=stores,
            think_seconds=load.think,
            context_messages=load.context_messages,
            session_messages=load.session_messages,
            writers_per_session=load.writers_per_session,
            shared_share=load.shared_share,
            recall_share=load.recall_share,
            forget_share=load.forget_share,
            reread_share=load.reread_share,
            search_share=load.search_share,
            mix=load.mix,
            similar_share=load.similar_share,
        )

    def draw_length(self, source: random.Random) -> int:
        """Draw how many messages a session will have: most are near the median, one in a hundred is a marathon."""
        if source.random() < MARATHON_SHARE:
            factor = float(LENGTH_FACTOR_MAX)
        else:
            factor = min(source.lognormvariate(0.0, LENGTH_SPREAD), LENGTH_FACTOR_MAX)
        ceiling = max(self.session_messages, LENGTH_MESSAGES_MAX)
        return max(1, min(math.ceil(self.session_messages * factor), ceiling))

    def draw_think_seconds(self, source: random.Random) -> float:
        """Draw a pause: people mostly answer soon and sometimes late."""
        mean = self.think_seconds
        return min(source.expovariate(1.0 / mean), mean * THINK_FACTOR_MAX) if mean > 0 else 0.0


# Names of sessions, among them pairs that differ in next to nothing.
#
# A store that lower-cases its keys, trims them, brings them into a normal form or splits them at a slash puts two such
# sessions into one drawer. A pair is on one store, one session right after the other, so that both are there at the
# same time. The other names are plain: a run is easier to follow with them.
#
# The name of the mix ends the name of a session, blanks aside: what is said follows from it (`soak.checker.text`).


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
