"""Violations as the verifier notes them, made up."""

from __future__ import annotations

from typing import Any

import msgspec

from soak.verifier.journal import Change, Violation, violation_id


def a_violation(
    seq: int = 1,
    *,
    run: str = "r1",
    store: str = "redis-list",
    session: str = "s1-chat",
    kind: str = "lost",
    **values: Any,
) -> Violation:
    message = f"{session}/0/{seq}"
    made = Violation(
        id=violation_id(run, store, session, kind, message),
        run=run,
        kind=kind,
        store=store,
        session=session,
        message=message,
        writer=0,
        seq=seq,
        detail="an acknowledged message is gone",
        at_wall_seconds=1_800_000_000.0 + seq,
    )
    return msgspec.structs.replace(made, **values)


def a_change(event: Any, one: Violation, at_wall_seconds: float = 1_900_000_000.0) -> Change:
    """Note what became of a violation."""
    return Change(
        event=event,
        id=one.id,
        run=one.run,
        kind=one.kind,
        store=one.store,
        session=one.session,
        message=one.message,
        writer=one.writer,
        seq=one.seq,
        at_wall_seconds=at_wall_seconds,
    )
