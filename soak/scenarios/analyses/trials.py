"""The trials of every analysis, in order: a question to a library, and the workload that answers it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from soak.contract_suite import workloads
from soak.contract_suite.workloads import Held
from soak.scenarios.analyses import disruptions
from soak.scenarios.analyses.rig import SKEW_SECONDS, TTL_SECONDS, LibraryRig, Stage
from soak.scenarios.terminal import chosen
from soak.subjects.description import Subject

SECONDS_MAX = 480.0
"""For one trial, unless it says otherwise; one that takes longer is inconclusive."""
READING_SECONDS_MAX = 120.0


class Trial(NamedTuple):
    """One question that every library is asked in the same way."""

    name: str
    question: str
    run: Callable[[LibraryRig], Awaitable[Held]]
    stage: Stage = Stage.PLAIN
    acknowledged_min: int = 10
    """Fewer messages prove nothing."""
    seconds_max: float = SECONDS_MAX
    unfit: Callable[[Subject], str | None] = lambda _subject: None
    """Why it cannot be asked of this library; None if it can."""


def _without_server(subject: Subject) -> str | None:
    return None if subject.server is not None else "its data is in files of its own, not on a server"


def _without_identical_turns(subject: Subject) -> str | None:
    if subject.id_in_content:
        return "the library keeps nothing but the text, so the id is in it and no two texts are the same"
    return None


def _with_one_clock(subject: Subject) -> str | None:
    return None if subject.processes > 1 else "it runs in one process, which has one clock"


def _without_ttl(subject: Subject) -> str | None:
    return None if subject.has_ttl else "it gives sessions no time to live"


_CROWD, _EACH = workloads.WRITERS, workloads.WRITER_TURNS
_SAME, _LONG, _LAST = workloads.SAME_TURNS, workloads.LONG_TURNS, workloads.LAST

ALL: dict[str, Trial] = {
    trial.name: trial
    for trial in (
        Trial(
            "concurrent-writers",
            f"Do {_CROWD} writers of one session, {_EACH} messages each, lose anything to each other?",
            workloads.concurrent_writers,
            acknowledged_min=_CROWD * _EACH // 10,
        ),
        Trial(
            "growing-prefix",
            f"Does a reader see only a growing prefix while {disruptions.GROWING_WRITERS} writers append?",
            disruptions.growing_prefix,
            acknowledged_min=disruptions.GROWING_WRITERS * disruptions.GROWING_TURNS // 10,
        ),
        Trial(
            "identical-turns",
            f"Is 'continue' there {_SAME} times when it was said {_SAME} times?",
            workloads.identical_turns,
            unfit=_without_identical_turns,
        ),
        Trial(
            "hard-text",
            "Does every text come back as it was said: scripts, emoji, NUL, quotes, 32 KiB?",
            workloads.hard_text,
        ),
        Trial(
            "colliding-sessions",
            "Are sessions apart whose names differ only in case, a comma, a slash …, also when one is forgotten?",
            workloads.lookalike_sessions,
        ),
        Trial(
            "forgetting",
            "Is a forgotten session gone for every process, its neighbour whole, and can it begin again?",
            workloads.forgetting,
        ),
        Trial(
            "long-session",
            f"Does a session of {_LONG:,} messages come back whole, and are the last {_LAST} the last {_LAST}?",
            workloads.long_session,
            seconds_max=workloads.LONG_SECONDS_MAX + READING_SECONDS_MAX,
        ),
        Trial(
            "clock-skew",
            f"Is the order right when the clock of one of two processes is {SKEW_SECONDS} s behind?",
            workloads.alternating_writers,
            stage=Stage.SKEWED,
            unfit=_with_one_clock,
        ),
        Trial(
            "dropped-replies",
            f"When one in {disruptions.ONE_IN} replies is lost after the work was done, is anything stored twice, or "
            "lost?",
            disruptions.dropped_replies,
            unfit=_without_server,
        ),
        Trial(
            "outage-reads",
            "While the server is away, does a read say so, or does it answer that nothing is remembered?",
            disruptions.outage_reads,
            unfit=_without_server,
        ),
        Trial(
            "outage-writes",
            "Is what was acknowledged while the server was away there afterwards?",
            disruptions.outage_writes,
            unfit=_without_server,
        ),
        Trial(
            "process-crash",
            "Is everything there that was acknowledged before all processes of the library were killed?",
            disruptions.process_crash,
            acknowledged_min=disruptions.CRASH_ACKNOWLEDGED_MIN,
        ),
        Trial(
            "server-crash",
            "Is more gone after kill -9 of a server with its default settings than these allow?",
            disruptions.server_crash,
            stage=Stage.SHIPPED,
            acknowledged_min=disruptions.CRASH_ACKNOWLEDGED_MIN,
            unfit=_without_server,
        ),
        Trial(
            "power-cut",
            "Is more gone after a power cut than the server allows (AOF everysec, synchronous_commit on)?",
            disruptions.power_cut,
            stage=Stage.POWER,
            acknowledged_min=disruptions.CRASH_ACKNOWLEDGED_MIN,
            unfit=_without_server,
        ),
        Trial(
            "active-ttl",
            f"Does a session with a time to live of {TTL_SECONDS} s live while it is used, and end when it is not?",
            disruptions.active_ttl,
            stage=Stage.EXPIRING,
            acknowledged_min=disruptions.LIVING_TURNS // 2,
            unfit=_without_ttl,
        ),
    )
}


def find(names: Sequence[str]) -> list[Trial]:
    """Return the trials of these names, in their own order; all of them if none is named."""
    return [ALL[name] for name in chosen("trial", names, ALL)]
