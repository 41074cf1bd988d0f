"""Going on after a kill: counting the journal again, and making good a lost journal or checkpoint."""

from __future__ import annotations

import time
from collections.abc import Iterator

from soak.checker.expected_session import ExpectedSession
from soak.checker.incidents import Counted
from soak.checker.intervals import Intervals
from soak.checker.kinds import Kind
from soak.ledger.reader import START, LedgerReader, WorkerBatch, is_before
from soak.verifier import evidence_file
from soak.verifier.evidence import EvidenceFolder
from soak.verifier.evidence_file import UnreadableEvidenceError
from soak.verifier.journal import Change, Line, Violation, decode_line, encode_lines, violation_id
from soak.verifier.state import State, Worker
from soak.verifier.tally import StoreTally
from soak.verifier.tracked_session import TrackedSession

_LOSSES = {Kind.LOST.value, Kind.ROLLED_BACK.value}


def recount(state: State, lines: list[Line]) -> None:
    """Bring the counters, and what each session knows as counted, up to what the journal says."""
    sessions = {(tracked.book.store, tracked.book.session): tracked for tracked in state.tracked()}
    for line in lines:
        tally = state.tally.stores.get(line.store)
        if tally is None:
            continue
        key = (line.store, line.session)
        tracked = sessions.get(key)
        if tracked is None:
            # The ledger will open it again: it must not be counted a second time then.
            counted = state.journalled.setdefault(key, Counted())
        else:
            counted = tracked.book.counted = tracked.book.counted or Counted()
            _excuse(tracked.book, line)
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


# Writing the journal of violations anew when it was deleted or cut: from evidence files, and from the checkpoint.
#
# The checkpoint knows how many violations were counted, and of the sessions under watch which ones. An evidence file
# names up to two hundred. What neither of them names is still counted, and the journal says how many those are.


DETAIL = "found before the journal of violations was lost; the checkpoint names it"


def restore_journal(evidence: EvidenceFolder, state: State, counted_bytes: int) -> str:
    """Write the journal anew up to what a checkpoint had counted; returns in words what could be put back."""
    kept = [text for text in evidence.whole_lines() if (line := decode_line(text)) is not None and _is_of(line, state)]
    listed = {line.id for text in kept if isinstance(line := decode_line(text), Violation)}
    found = {one.id: one for one in (*_of_sessions(state), *_of_files(evidence, state)) if one.id not in listed}
    kept += [encode_lines([one]) for one in found.values()]
    total = max(state.tally.violations, len(listed) + len(found))
    unlisted = total - len(listed) - len(found)
    evidence.replace_journal(counted_bytes, kept, unlisted)
    state.tally.journal_lines_damaged += unlisted
    return (
        f"the journal of violations was deleted or cut: {len(found)} of {total} violations were put back by name from "
        f"the evidence and the checkpoint, {unlisted} are counted and cannot be named any more"
    )


def _is_of(line: object, state: State) -> bool:
    return getattr(line, "run", "") == state.header.run


def _of_files(evidence: EvidenceFolder, state: State) -> Iterator[Violation]:
    for path in evidence.paths():
        try:
            file = evidence_file.read(path)
        except UnreadableEvidenceError:
            continue
        story = file.story
        if not file.is_sealed or story["run"] != state.header.run:
            continue
        for name in (story["message"], *story["also"]):
            yield _violation(
                state.header.run,
                story["store"],
                story["session"],
                story["kind"],
                name,
                detail=story["detail"],
                at_wall_seconds=story["found_at_wall_seconds"],
                cause=story["probable_cause"]["cause"],
                evidence=story["id"],
            )


def _of_sessions(state: State) -> Iterator[Violation]:
    for tracked in state.tracked():
        for kind, name in _counted(tracked):
            yield _violation(
                state.header.run,
                tracked.book.store,
                tracked.book.session,
                kind.value,
                name,
                detail=DETAIL,
                at_wall_seconds=time.time(),
            )


def _counted(tracked: TrackedSession) -> Iterator[tuple[Kind, str]]:
    if tracked.counted is None:
        return
    for kind, writers in tracked.counted.places.items():
        for writer, seqs in writers.items():
            for seq in seqs:
                yield kind, f"{tracked.book.session}/{writer}/{seq}"
    for key in tracked.counted.names:
        kind_name, _, name = key.partition(":")
        yield Kind(kind_name), name


def _violation(
    run: str,
    store: str,
    session: str,
    kind: str,
    message: str,
    *,
    detail: str,
    at_wall_seconds: float,
    cause: str = "unknown",
    evidence: str = "",
) -> Violation:
    writer, seq = _place(session, message)
    return Violation(
        id=violation_id(run, store, session, kind, message),
        run=run,
        kind=kind,
        store=store,
        session=session,
        message=message,
        writer=writer,
        seq=seq,
        detail=detail,
        at_wall_seconds=at_wall_seconds,
        cause=cause,
        evidence=evidence,
    )


def _place(session: str, message: str) -> tuple[int, int] | tuple[None, None]:
    """Return writer and number of a message that belongs to this session by its name."""
    writer, _, seq = message.removeprefix(f"{session}/").partition("/")
    is_ours = message.startswith(f"{session}/") and writer.isdecimal() and seq.isdecimal()
    return (int(writer), int(seq)) if is_ours else (None, None)


# Going on without a checkpoint: the ledger is taken from its oldest record on.
#
# What a checkpoint had passed was dropped from the ledger, so of those records nobody knows any more what they said.
# They are counted as unverifiable. Sessions that were open then are unknown, and whatever the ledger still says of them
# is counted as unverifiable, too; sessions that are opened later are judged as always.


BLOCK_SECONDS = 0.001


async def go_on_without(reader: LedgerReader, state: State) -> int:
    """Begin at the oldest record; returns how many records were dropped before it, and are unverifiable."""
    extent = await reader.extent()
    if extent.added is None or not extent.is_trimmed_only:
        return 0  # what is missing, if anything is, shows as a gap, or when records are counted
    present, at = 0, START
    first: dict[str, WorkerBatch] = {}
    while is_before(at, extent.last):
        entries = await reader.read(at, block_seconds=BLOCK_SECONDS)
        if not entries:
            break
        for entry in entries:
            present += not is_before(extent.last, entry.at)
            if isinstance(entry, WorkerBatch):
                first.setdefault(entry.worker, entry)
        at = entries[-1].at
    dropped = max(0, extent.added - present)
    if dropped:
        for name, batch in first.items():
            # Its earlier batches are among those that were dropped: they are no gap besides.
            worker = state.workers[name] = Worker(batch.boot)
            worker.last_number = batch.number - 1
        state.tally.records_taken += dropped
        state.tally.batches_missing += dropped
    return dropped
