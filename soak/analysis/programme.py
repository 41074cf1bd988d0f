"""The trials of every analysis, in order."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from soak.analysis.trial import Trial
from soak.analysis.trials import clocks, content, crashes, outages, writers
from soak.errors import UsageError

ALL: dict[str, Trial] = {
    trial.name: trial
    for trial in (
        writers.CONCURRENT_WRITERS,
        writers.GROWING_PREFIX,
        content.IDENTICAL_TURNS,
        content.HARD_TEXT,
        content.COLLIDING_SESSIONS,
        content.FORGETTING,
        content.LONG_SESSION,
        clocks.CLOCK_SKEW,
        outages.DROPPED_REPLIES,
        outages.OUTAGE_READS,
        outages.OUTAGE_WRITES,
        crashes.PROCESS_CRASH,
        crashes.SERVER_CRASH,
        crashes.POWER_CUT,
        clocks.ACTIVE_TTL,
    )
}


def find(names: Sequence[str]) -> list[Trial]:
    """Return the trials of these names, in the programme's order; all of them if none is named."""
    for name in names:
        if name not in ALL:
            near = difflib.get_close_matches(name, ALL, n=1)
            hint = f" (did you mean {near[0]}?)" if near else ""
            raise UsageError(f"there is no trial {name!r}{hint}; there are {', '.join(ALL)}")
    return [trial for trial in ALL.values() if not names or trial.name in names]
