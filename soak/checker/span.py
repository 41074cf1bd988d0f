"""When the life of a session began and was last prolonged, as far as that is known."""

from __future__ import annotations

from typing import NamedTuple

NEVER = 2**62
"""Later than everything."""


class Span(NamedTuple):
    """When a session's first and last append were sent and acknowledged; kept only where sessions expire."""

    first_sent: int
    first_ended: int
    last_sent: int
    last_ended: int
    reborn: int = 0
    """An earlier life may have ended; what was sent up to this time may have gone with it."""
