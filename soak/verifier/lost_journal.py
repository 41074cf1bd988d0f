"""Writing the journal of violations anew when it was deleted or cut: from evidence files, and from the checkpoint.

The checkpoint knows how many violations were counted, and of the sessions under watch which ones. An evidence file
names up to two hundred. What neither of them names is still counted, and the journal says how many those are.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from soak.checker.kinds import Kind
from soak.verifier import evidence_file
from soak.verifier.evidence import EvidenceFolder
from soak.verifier.evidence_file import UnreadableEvidenceError
from soak.verifier.journal import Violation, decode_line, encode_lines, violation_id
from soak.verifier.state import State
from soak.verifier.tracked_session import TrackedSession

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
    for watched in state.watched():
        for kind, name in _counted(watched):
            yield _violation(
                state.header.run,
                watched.book.store,
                watched.book.session,
                kind.value,
                name,
                detail=DETAIL,
                at_wall_seconds=time.time(),
            )


def _counted(watched: TrackedSession) -> Iterator[tuple[Kind, str]]:
    if watched.counted is None:
        return
    for kind, writers in watched.counted.places.items():
        for writer, seqs in writers.items():
            for seq in seqs:
                yield kind, f"{watched.book.session}/{writer}/{seq}"
    for key in watched.counted.names:
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
