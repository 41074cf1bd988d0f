"""The trials of every analysis, in order."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from soak.analysis.trial import Trial
from soak.analysis.trials import (
    active_ttl,
    clock_skew,
    colliding_sessions,
    concurrent_writers,
    dropped_replies,
    forgetting,
    growing_prefix,
    hard_text,
    identical_turns,
    long_session,
    outage_reads,
    outage_writes,
    power_cut,
    process_crash,
    server_crash,
)
from soak.errors import UsageError

ALL: dict[str, Trial] = {
    module.TRIAL.name: module.TRIAL
    for module in (
        concurrent_writers,
        growing_prefix,
        identical_turns,
        hard_text,
        colliding_sessions,
        forgetting,
        long_session,
        clock_skew,
        dropped_replies,
        outage_reads,
        outage_writes,
        process_crash,
        server_crash,
        power_cut,
        active_ttl,
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
