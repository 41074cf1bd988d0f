"""Counting again, after a kill, what the journal holds beyond the last checkpoint."""

from __future__ import annotations

from soak.model.book import SessionBook
from soak.model.intervals import Intervals
from soak.model.kinds import Kind
from soak.verifier.journal import Change, Line, Violation
from soak.verifier.state import State
from soak.verifier.tally import StoreTally
from soak.verifier.watched import Counted

_LOSSES = {Kind.LOST.value, Kind.ROLLED_BACK.value}


def recount(state: State, lines: list[Line]) -> None:
    """Bring the counters, and what each session knows as counted, up to what the journal says."""
    sessions = {(watched.book.store, watched.book.session): watched for watched in state.watched()}
    for line in lines:
        tally = state.tally.stores.get(line.store)
        if tally is None:
            continue
        key = (line.store, line.session)
        watched = sessions.get(key)
        if watched is None:
            # The ledger will open it again: it must not be counted a second time then.
            counted = state.journalled.setdefault(key, Counted())
        else:
            counted = watched.counted = watched.counted or Counted()
            _excuse(watched.book, line)
        if isinstance(line, Violation):
            _count(tally, counted, line)
        else:
            _change(tally, counted, line)


def _excuse(book: SessionBook, line: Line) -> None:
    """Expect no longer what is known as lost, and expect again what was over: as it stood before the kill."""
    if line.kind not in _LOSSES or line.writer is None or line.seq is None:
        return
    writer, seqs = book.find_writer(line.writer), Intervals([line.seq, line.seq])
    if writer is None:
        return
    if isinstance(line, Change) and line.event == "healed":
        writer.excused = writer.excused.minus(seqs)
    else:
        writer.excuse(seqs)
        book.drop_excused()


def _count(tally: StoreTally, counted: Counted, violation: Violation) -> None:
    if counted.add(Kind(violation.kind), violation.writer, violation.seq, violation.message):
        tally.violations[violation.kind] += 1
        tally.healed[violation.kind] += int(violation.healed)
        tally.open[violation.kind] += int(not violation.healed)


def _change(tally: StoreTally, counted: Counted, change: Change) -> None:
    if change.writer is None or change.seq is None:
        return
    kind = Kind(change.kind)
    open_seqs = counted.open_places(kind).get(change.writer, Intervals())
    if change.event == "healed" and change.seq in open_seqs:
        counted.heal(kind, change.writer, Intervals([change.seq, change.seq]))
        tally.healed[change.kind] += 1
        tally.open[change.kind] -= 1
    elif change.event == "reopened" and counted.reopen(kind, change.writer, change.seq):
        tally.open[change.kind] += 1
