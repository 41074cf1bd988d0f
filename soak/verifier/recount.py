"""Counting again, after a kill, what the journal holds beyond the last checkpoint."""

from __future__ import annotations

from soak.checker.expected_session import ExpectedSession
from soak.checker.incidents import Counted
from soak.checker.intervals import Intervals
from soak.checker.kinds import Kind
from soak.verifier.journal import Change, Line, Violation
from soak.verifier.state import State
from soak.verifier.tally import StoreTally

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
            counted = watched.book.counted = watched.book.counted or Counted()
            _excuse(watched.book, line)
        if isinstance(line, Violation):
            if _count(tally, counted, line):
                state.tally.findings.add([line])
        elif _change(tally, counted, line):
            state.tally.findings.change([line])


def _excuse(book: ExpectedSession, line: Line) -> None:
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


def _count(tally: StoreTally, counted: Counted, violation: Violation) -> bool:
    """Count a violation; returns whether it was not counted before."""
    if not counted.add(Kind(violation.kind), violation.writer, violation.seq, violation.message):
        return False
    tally.violations[violation.kind] += 1
    tally.healed[violation.kind] += int(violation.healed)
    tally.open[violation.kind] += int(not violation.healed)
    return True


def _change(tally: StoreTally, counted: Counted, change: Change) -> bool:
    """Count that a violation is over, or there again; returns whether that was not known."""
    kind = Kind(change.kind)
    if change.writer is None or change.seq is None:
        return _change_name(tally, counted, change, kind)
    open_seqs = counted.open_places(kind).get(change.writer, Intervals())
    if change.event == "healed" and change.seq in open_seqs:
        counted.heal(kind, change.writer, Intervals([change.seq, change.seq]))
        tally.healed[change.kind] += 1
        tally.open[change.kind] -= 1
        return True
    if change.event == "reopened" and counted.reopen(kind, change.writer, change.seq):
        tally.open[change.kind] += 1
        return True
    return False


def _change_name(tally: StoreTally, counted: Counted, change: Change, kind: Kind) -> bool:
    if change.event == "healed" and counted.is_open_name(kind, change.message):
        counted.heal_name(kind, change.message)
        tally.healed[change.kind] += 1
        tally.open[change.kind] -= 1
        return True
    if change.event == "reopened" and counted.reopen_name(kind, change.message):
        tally.open[change.kind] += 1
        return True
    return False
