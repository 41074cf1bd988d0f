"""What the participants of one process are going to do: the settings, as one value, and the draws from them."""

from __future__ import annotations

import math
import random
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
