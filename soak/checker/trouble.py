"""What else went wrong while an operation ran."""

from __future__ import annotations

from soak.checker import facts
from soak.checker.clues import SILENT_FAULTS, Clues
from soak.checker.facts import During, Fact, overlap, spans


def trouble_during(clues: Clues, during: During) -> Fact | None:
    """Return a fault, failed operations or a silent server at the very time of the append or of the reads."""
    when = spans(clues, during)
    for window in clues.faults:
        if window.kind not in SILENT_FAULTS and any(overlap(window.started, window.ended, *span) for span in when):
            return facts.FaultDuring(fault=facts.ref_of(window), ended=window.ended, during=during)
    for spell in clues.spells():
        if any(overlap(spell.since, spell.until, *span) for span in when):
            return facts.OperationsFailed(count=spell.failed, since=spell.since, until=spell.until, during=during)
    for server, since, until in clues.silences():
        if any(overlap(since, until, *span) for span in when):
            return facts.ServerSilent(server=server, since=since, until=until, during=during)
    return None
