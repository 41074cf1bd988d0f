"""Healing what a daemon left that was killed in the middle of a fault."""

from __future__ import annotations

from soak.errors import UsageError
from soak.faults.catalogue import ALL
from soak.faults.healing import heal_surely
from soak.faults.notes import Note, Notes
from soak.servers.bed import Testbed


async def heal_leftovers(bed: Testbed) -> list[Note]:
    """Heal every fault that is noted as begun and not healed; call it once after the servers have started.

    Returns what it healed. Raises `SoakError` where one cannot be healed, and leaves the note of that one.
    """
    healed = []
    for target, server in bed.servers.items():
        # The last first: one fault may stand in the way of healing an earlier one, as a storm of connections does.
        for note in reversed(Notes(server).all()):
            fault = ALL.get(note.fault)
            if fault is None:
                raise UsageError(
                    f"{target} was left with the fault {note.fault}, which this soak does not know; "
                    "start the soak that injected it, or choose another data folder"
                )
            await heal_surely(fault, bed, target)
            healed.append(note)
    return healed
