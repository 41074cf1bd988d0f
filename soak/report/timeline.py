"""The life of a message, moment by moment, as the evidence of a violation shows it."""

from __future__ import annotations

from typing import NamedTuple

from soak.checker.case import Case, FullRead, Participation, SearchRead, SecondSearch
from soak.checker.clues import when_seen
from soak.checker.expected_session import ExpectedSession
from soak.checker.faults import FaultWindow, in_brackets
from soak.checker.incidents import Suspicion
from soak.checker.intervals import Intervals
from soak.checker.outcome import Outcome
from soak.checker.read import MessageId, SavedRead, names_in
from soak.checker.second_look import times_of

FAULTS_SHOWN_MAX = 12
NEAR_US = 60_000_000
"""A fault longer ago than this before the message was sent is no part of its story."""


class Moment(NamedTuple):
    """Something that happened, and when."""

    at_us: int | None
    """Microseconds of CLOCK_MONOTONIC; None: nobody knows when."""
    what: str
    tone: str = ""
    """`good`, `bad` or `fault`, for colours."""


def timeline(case: Case, place: MessageId | None) -> list[Moment]:
    """Tell what happened to a message, in order."""
    moments = _life(case.book, place) if place is not None else []
    moments += _reads(case, place)
    known = [moment.at_us for moment in moments if moment.at_us]
    since = min(known, default=0) - NEAR_US
    moments += _faults(case.faults, since, max(known, default=0))
    timed = sorted((moment for moment in moments if moment.at_us is not None), key=lambda moment: moment.at_us or 0)
    return [moment for moment in moments if moment.at_us is None] + timed


def _life(book: ExpectedSession, place: MessageId) -> list[Moment]:
    writer, seq = book.find_writer(place[0]), place[1]
    if writer is None:
        return []
    moments = [
        Moment(None, f"intended: the ledger had reserved the numbers up to {writer.leased} for writer {place[0]}")
    ]
    attempt = times_of(book).get(place)
    if attempt is None:
        if seq in writer.acked and seq not in writer.unknown:
            moments.append(Moment(None, "acknowledged, so long before that its times are no longer kept", "good"))
        elif seq in writer.failed:
            moments.append(Moment(None, "refused by the store: it cannot have been applied", "bad"))
        return moments
    outcome = {
        Outcome.OK: ("acknowledged by the store", "good"),
        Outcome.FAILED: ("refused by the store", "bad"),
        Outcome.UNKNOWN: ("no answer: it may have been applied, or not", "bad"),
    }[Outcome(attempt.outcome)]
    moments.append(Moment(attempt.sent, "sent"))
    took = (attempt.ended - attempt.sent) / 1000
    moments.append(Moment(attempt.ended, f"{outcome[0]} after {took:.1f} ms", outcome[1]))
    return moments


def _reads(case: Case, place: MessageId | None) -> list[Moment]:
    basis = case.basis
    moments: list[Moment] = []
    suspicion = case.suspicion
    if isinstance(basis, FullRead) and suspicion is not None:
        moments += _before(case.book, suspicion, place)
        lacked = f"first read without it: {suspicion.items} messages returned"
        moments.append(Moment(suspicion.invoked, lacked, "bad"))
        for who, read in (("read again", basis.read), ("the primary was asked", basis.primary)):
            if read is not None:
                shown = _shows(who, read, case.session, place)
                moments.append(Moment(read.invoked, shown, _tone(read, case.session, place)))
        return moments
    if isinstance(basis, SecondSearch):
        for who, read in (
            ("searched for by its own words", basis.missed.answer),
            ("searched for again", basis.search),
            ("read whole", basis.read),
        ):
            shown = _shows(who, read, case.session, place)
            moments.append(Moment(read.invoked, shown, _tone(read, case.session, place)))
        return moments
    who = "a participant read" if isinstance(basis, Participation) else "the verifier read"
    if isinstance(basis, SearchRead):
        writer, seq = basis.asked
        who = f"the words of {writer}/{seq} were searched for"
    found = f"{_shows(who, basis.read, case.session, place)}: {case.found.detail}"
    return [Moment(basis.read.invoked, found, "bad")]


def _before(book: ExpectedSession, suspicion: Suspicion, place: MessageId | None) -> list[Moment]:
    if place is None or place[1] not in Intervals(suspicion.seen.get(place[0], [])):
        return [Moment(None, "no read of the verifier showed it before it was missed")] if place is not None else []
    seen_us = when_seen(place, [*book.recent, *book.pending], suspicion.last_seen)
    if not seen_us:
        return [Moment(None, "an earlier read showed it; its time is not kept", "good")]
    return [Moment(seen_us, "read, and it is there", "good")]


def _shows(what: str, read: SavedRead, session: str, place: MessageId | None) -> str:
    shown = f"{what}: {read.count} {'item' if read.count == 1 else 'items'}"
    if place is None:
        return shown
    count = names_in(read, session).count(f"{place[0]}/{place[1]}")
    there = {0: "not there", 1: "there"}.get(count, f"there {count} times")
    return f"{shown}, it is {there}"


def _tone(read: SavedRead, session: str, place: MessageId | None) -> str:
    return "good" if place is not None and f"{place[0]}/{place[1]}" in names_in(read, session) else "bad"


def _faults(faults: list[FaultWindow], since: int, until: int) -> list[Moment]:
    moments: list[Moment] = []
    for window in [one for one in faults if since <= (one.ended or until) and one.started <= until][-FAULTS_SHOWN_MAX:]:
        how = in_brackets(window.parameters) + ("" if window.planned else ", not planned")
        moments.append(Moment(window.started, f"{window.target}: {window.kind} begins{how}", "fault"))
        if window.ended is not None:
            moments.append(Moment(window.ended, f"{window.target}: {window.kind} is over", "fault"))
    return moments
