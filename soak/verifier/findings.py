"""Findings: violations of one run that share store, kind and probable cause are one bug, and shown as one.

A group is a few numbers and one example, so it is cheap to keep for every violation ever found. It grows with each
violation, follows what heals and what comes back, and groups of several verifiers can be merged.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from soak.checker.kinds import Kind
from soak.verifier.journal import ID_CHARACTERS, Change, Violation

GROUPS_MAX = 256
"""Groups of one run; beyond that, further causes of a store and kind share the group `OTHER_CAUSES`."""
OTHER_CAUSES = "other causes"
SESSIONS_COUNTED_MAX = 1_000
"""Distinct sessions counted per group; with more of them the number is a lower bound."""
TRACKED_MAX = 10_000
"""Violations whose group is remembered, so that healing is counted in the right one."""
LISTED_MAX = 100
"""Findings in a status or a result, the largest first."""

_RANK_TOLD_ELSEWHERE = 1_000_000
_RANK_WITHOUT_EVIDENCE = 2_000_000
_RANK_UNKNOWN_TIME = 1_000
_SESSION_MARK_BYTES = 8

_PARTICIPLES = {
    Kind.LOST: "lost",
    Kind.ROLLED_BACK: "rolled back",
    Kind.STALE: "shown too late (stale)",
    Kind.NON_MONOTONIC: "seen and then not seen, or reordered (non-monotonic),",
    Kind.REORDERED: "reordered",
    Kind.DUPLICATED: "duplicated",
    Kind.CORRUPTED: "corrupted",
    Kind.RESURRECTED: "resurrected",
    Kind.WINDOW: "wrong in reads of the last messages (window)",
    Kind.UNFINDABLE: "stored but not found by search (unfindable)",
}
"""What happened to messages that had been acknowledged."""
_NOUNS = {
    Kind.UNDECODABLE: "undecodable item",
    Kind.PHANTOM: "phantom message",
    Kind.LEAKED: "leaked message",
}
"""What is there and is none of the acknowledged messages of its session."""
_CAUSE_PHRASES = {
    "restart without persistence": "a restart without persistence",
    "unsynced tail": "an unsynced tail",
    "concurrent overwrite": "a concurrent overwrite",
    "client clock": "the client's clock",
    "retry": "a retry",
    "wiped volume": "a wiped volume",
    "serialization change": "a serialization change",
    "swallowed error": "a swallowed error",
}


class Example(msgspec.Struct, frozen=True, kw_only=True):
    """The violation that shows a finding best."""

    id: str
    session: str
    message: str
    detail: str
    at_wall_seconds: float
    rank: int
    """The lower, the clearer."""
    has_evidence: bool

    @classmethod
    def of(cls, violation: Violation) -> Example:
        if violation.evidence == violation.id:
            rank = min(violation.example_rank, _RANK_TOLD_ELSEWHERE - 1)
        else:
            rank = _RANK_TOLD_ELSEWHERE if violation.evidence else _RANK_WITHOUT_EVIDENCE
        return cls(
            id=violation.id,
            session=violation.session,
            message=violation.message,
            detail=violation.detail,
            at_wall_seconds=violation.at_wall_seconds,
            rank=rank,
            has_evidence=bool(violation.evidence),
        )

    def is_clearer_than(self, other: Example) -> bool:
        """Whether it is the better example; of equal ones the earlier, so that the order of counting is no matter."""
        return (self.rank, self.at_wall_seconds, self.id) < (other.rank, other.at_wall_seconds, other.id)


def rank_example(story: Mapping[str, Any]) -> int:
    """Return how hard a story is to follow: unknown times, other oddities, faults, long or odd texts distract."""
    life, expected = story.get("life") or {}, story.get("expected") or {}
    unknown_times = sum(life.get(name) is None for name in ("sent_us", "acknowledged_us"))
    others_found = min(int(story.get("count", 1)) - 1, 20)
    faults = min(len(story.get("faults") or ()), 10)
    items_read = max((read.get("items", 0) for read in story.get("reads") or ()), default=0)
    text = str(expected.get("content", ""))
    is_odd = not (text.isascii() and text.isprintable())
    distractions = 50 * others_found + 30 * faults + min(items_read, 400) // 4 + min(len(text), 4_000) // 20
    distractions += 100 * is_odd
    return unknown_times * _RANK_UNKNOWN_TIME + distractions


class ViolationGroup(msgspec.Struct, kw_only=True):
    """All violations of one store, kind and probable cause."""

    run: str
    store: str
    kind: str
    cause: str
    example: Example
    first_wall_seconds: float
    last_wall_seconds: float
    count: int = 0
    open: int = 0
    """Those that still stand; the others are healed."""
    session_marks: set[int] = set()
    has_more_sessions: bool = False
    """There were more sessions than are counted."""

    @classmethod
    def begin(cls, violation: Violation, cause: str) -> ViolationGroup:
        at = violation.at_wall_seconds
        return cls(
            run=violation.run,
            store=violation.store,
            kind=violation.kind,
            cause=cause,
            example=Example.of(violation),
            first_wall_seconds=at,
            last_wall_seconds=at,
        )

    def add(self, violation: Violation, *, is_open: bool) -> None:
        self.count += 1
        self.open += int(is_open)
        self.first_wall_seconds = min(self.first_wall_seconds, violation.at_wall_seconds)
        self.last_wall_seconds = max(self.last_wall_seconds, violation.at_wall_seconds)
        self._note_session(_session_mark(violation.session))
        if (example := Example.of(violation)).is_clearer_than(self.example):
            self.example = example

    def change(self, *, is_healed: bool) -> None:
        """Count that one of them is over, or there again."""
        self.open = max(0, self.open - 1) if is_healed else min(self.count, self.open + 1)

    def merge(self, other: ViolationGroup) -> None:
        """Take in the same group of another verifier, which counted other sessions."""
        self.count += other.count
        self.open += other.open
        self.first_wall_seconds = min(self.first_wall_seconds, other.first_wall_seconds)
        self.last_wall_seconds = max(self.last_wall_seconds, other.last_wall_seconds)
        self.has_more_sessions |= other.has_more_sessions
        for mark in other.session_marks:
            self._note_session(mark)
        if other.example.is_clearer_than(self.example):
            self.example = other.example

    def _note_session(self, mark: int) -> None:
        if mark in self.session_marks:
            return
        if len(self.session_marks) < SESSIONS_COUNTED_MAX:
            self.session_marks.add(mark)
        else:
            self.has_more_sessions = True


class ViolationGroups(msgspec.Struct):
    """All findings of a run, by their ids. It is saved with the tally, so it survives a restart."""

    groups: dict[str, ViolationGroup] = {}
    tracked: dict[str, str] = {}
    """By violation, the finding it belongs to: a change of it does not name its cause."""

    @classmethod
    def of(cls, violations: Iterable[tuple[Violation, bool]]) -> ViolationGroups:
        """Group violations, each with whether it is open now."""
        made = cls()
        for violation, is_open in violations:
            made._add(violation, is_open=is_open)
        return made

    def add(self, violations: Iterable[Violation]) -> None:
        """Count violations that were just found."""
        for violation in violations:
            self._add(violation, is_open=not violation.healed)

    def change(self, changes: Iterable[Change]) -> None:
        """Count that violations are over, or there again."""
        for change in changes:
            is_healed = change.event == "healed"
            group = self.groups.get(self.tracked.get(change.id, "")) or self._likeliest(change, is_healed=is_healed)
            if group is not None:
                group.change(is_healed=is_healed)

    def merge(self, other: ViolationGroups) -> None:
        for identity, theirs in other.groups.items():
            if (mine := self.groups.get(identity)) is None:
                self.groups[identity] = msgspec.structs.replace(theirs, session_marks=set(theirs.session_marks))
            else:
                mine.merge(theirs)
        for violation, finding in other.tracked.items():
            self._track(violation, finding)

    def listed(self, acknowledged: Mapping[str, int]) -> list[FindingResult]:
        """Return the findings for people and machines, the largest first; `acknowledged` is by store."""
        ordered = sorted(self.groups.items(), key=lambda one: (-one[1].count, one[1].first_wall_seconds, one[0]))
        return [_result_of(identity, group, acknowledged) for identity, group in ordered[:LISTED_MAX]]

    def _add(self, violation: Violation, *, is_open: bool) -> None:
        cause = violation.cause
        identity = finding_id(violation.run, violation.store, violation.kind, cause)
        if identity not in self.groups and len(self.groups) >= GROUPS_MAX:
            cause = OTHER_CAUSES
            identity = finding_id(violation.run, violation.store, violation.kind, cause)
        group = self.groups.get(identity)
        if group is None:
            group = self.groups[identity] = ViolationGroup.begin(violation, cause)
        group.add(violation, is_open=is_open)
        self._track(violation.id, identity)

    def _track(self, violation: str, finding: str) -> None:
        if len(self.tracked) < TRACKED_MAX:
            self.tracked[violation] = finding

    def _likeliest(self, change: Change, *, is_healed: bool) -> ViolationGroup | None:
        """Return where one belongs that is not tracked: numbers by store and kind stay exact."""
        fitting = [group for group in self.groups.values() if (group.store, group.kind) == (change.store, change.kind)]
        return max(fitting, key=lambda group: group.open if is_healed else group.count - group.open, default=None)


class FindingResult(msgspec.Struct, frozen=True, kw_only=True):
    """One bug: how often it struck, where, when, and its clearest example."""

    id: str
    run: str
    store: str
    kind: str
    cause: str
    headline: str
    """The finding in one sentence, without times."""
    count: int
    acknowledged: int | None
    """Messages acknowledged on the store; None: not known."""
    share: float | None
    """The count as a part of what was acknowledged, 0 to 1."""
    open: int
    healed: int
    sessions: int
    sessions_at_least: bool
    """There were more sessions than are counted."""
    first_wall_seconds: float
    last_wall_seconds: float
    example: Example

    @property
    def dated_headline(self) -> str:
        """The finding in one sentence, with the first and the last time in the time of this machine."""
        return f"{self.headline} ({_span(self.first_wall_seconds, self.last_wall_seconds)})"


def finding_id(run: str, store: str, kind: str, cause: str) -> str:
    """Return the short name of a finding: the same for the same bug in a run, whoever computes it."""
    identity = msgspec.json.encode(["finding", run, store, kind, cause])
    return hashlib.sha256(identity).hexdigest()[:ID_CHARACTERS]


def describe(group: ViolationGroup, acknowledged: int | None) -> str:
    """Return a group in one plain sentence."""
    sessions = f"{'at least ' if group.has_more_sessions else ''}{_plural(len(group.session_marks), 'session')}"
    return sentence_of(group.kind, group.count, acknowledged, f"{group.store} in {sessions}", group.cause)


def sentence_of(kind: str, count: int, acknowledged: int | None, where: str, cause: str) -> str:
    """Say how many messages what happened to, where, and why."""
    named = Kind(kind)
    is_known = acknowledged is not None and acknowledged >= count
    share = _percent(count / acknowledged) if is_known and acknowledged else ""
    if named in _NOUNS:
        what = f"{_plural(count, _NOUNS[named])} on {where}"
        what += f" ({share} of {acknowledged:,} acknowledged)" if share else ""
    else:
        messages = f"{count:,} of {acknowledged:,} messages ({share})" if share else _plural(count, "message")
        what = f"{messages} {_PARTICIPLES[named]} on {where}"
    return f"{what}, {_cause_phrase(cause)}"


def _result_of(identity: str, group: ViolationGroup, acknowledged: Mapping[str, int]) -> FindingResult:
    known = acknowledged.get(group.store)
    return FindingResult(
        id=identity,
        run=group.run,
        store=group.store,
        kind=group.kind,
        cause=group.cause,
        headline=describe(group, known),
        count=group.count,
        acknowledged=known,
        share=round(group.count / known, 6) if known else None,
        open=group.open,
        healed=group.count - group.open,
        sessions=len(group.session_marks),
        sessions_at_least=group.has_more_sessions,
        first_wall_seconds=group.first_wall_seconds,
        last_wall_seconds=group.last_wall_seconds,
        example=group.example,
    )


def _cause_phrase(cause: str) -> str:
    if cause in {"", "unknown"}:
        return "cause unknown"
    return cause if cause == OTHER_CAUSES else f"probably {_CAUSE_PHRASES.get(cause, cause)}"


def _session_mark(session: str) -> int:
    text = session.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=_SESSION_MARK_BYTES).digest(), "big")


def _percent(share: float) -> str:
    percent = share * 100
    if percent < 0.01:
        return "< 0.01 %"
    return f"{percent:.0f} %" if percent >= 10 else f"{percent:.2g} %"


def _plural(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _span(first: float, last: float) -> str:
    start, end = time.localtime(first), time.localtime(last)
    if start[:3] != end[:3]:
        return f"first {time.strftime('%Y-%m-%d %H:%M:%S', start)}, last {time.strftime('%Y-%m-%d %H:%M:%S', end)}"
    if start[:6] == end[:6]:
        return f"at {time.strftime('%H:%M:%S', start)}"
    return f"first {time.strftime('%H:%M:%S', start)}, last {time.strftime('%H:%M:%S', end)}"
