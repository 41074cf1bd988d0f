"""Going on without a checkpoint: the ledger is taken from its oldest record on.

What a checkpoint had passed was dropped from the ledger, so of those records nobody knows any more what they said.
They are counted as unverifiable. Sessions that were open then are unknown, and whatever the ledger still says of them
is counted as unverifiable, too; sessions that are opened later are judged as always.
"""

from __future__ import annotations

from soak.ledger.reader import START, LedgerReader, WorkerBatch, is_before
from soak.verifier.state import State, Worker

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
            worker = state.workers[name] = Worker(batch.host)
            worker.last_number = batch.number - 1
        state.tally.records_taken += dropped
        state.tally.batches_missing += dropped
    return dropped
