"""A run on record, with violations that are made up."""

from __future__ import annotations

from pathlib import Path

from soak.report.recorded import Recorded
from soak.verifier.journal import Violation, violation_id


def violation(seq: int = 1, *, session: str = "s1-chat", store: str = "redis-list") -> Violation:
    message = f"{session}/0/{seq}"
    return Violation(
        id=violation_id("r1", store, session, "lost", message),
        run="r1",
        kind="lost",
        store=store,
        session=session,
        message=message,
        writer=0,
        seq=seq,
        detail="an acknowledged message is gone",
        at_wall_seconds=1_800_000_000.0 + seq,
    )


def recorded(folder: Path, found: Violation) -> Recorded:
    return Recorded(violation=found, folder=folder / "verifier", state="open")
