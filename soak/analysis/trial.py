"""What a trial is: a question to a library, and how it is asked."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from soak.analysis.result import Tried
from soak.analysis.rig import Rig
from soak.analysis.stage import Stage
from soak.subjects.description import Subject

SECONDS_MAX = 480.0
"""For one trial, unless it says otherwise; one that takes longer is inconclusive."""


class Trial(NamedTuple):
    """One question that every library is asked in the same way."""

    name: str
    question: str
    run: Callable[[Rig], Awaitable[Tried]]
    stage: Stage = Stage.PLAIN
    acknowledged_min: int = 10
    """Of fewer messages nothing can be said."""
    seconds_max: float = SECONDS_MAX
    unfit: Callable[[Subject], str | None] = lambda _subject: None
    """Why it cannot be asked of this library; None: it can."""


def without_server(subject: Subject) -> str | None:
    return None if subject.server is not None else "its data is in files of its own, not on a server"
