"""The end of a soak: the load says farewell, the verifier sweeps once more and gives its verdict."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from soak.clock import now_us
from soak.daemon.children import Child
from soak.daemon.faults import FaultLog, until_written
from soak.ledger.records import EndOfLoad
from soak.ledger.run import RunJournal
from soak.settings import SoakSettings

LOAD_STOP_MARGIN_SECONDS = 25.0
"""Beyond the participants' own time: for the last outcomes and the farewell to reach the ledger."""
VERIFIER_MARGIN_SECONDS = 30.0
END_OF_LOAD_SECONDS_MAX = 30.0


async def end_load(load: Child, settings: SoakSettings) -> None:
    """Let the participants finish; what they had in flight when the time is over counts as unknown."""
    await load.stop(settings.load.drain + LOAD_STOP_MARGIN_SECONDS)


async def write_end_of_load(journal: RunJournal, faults: FaultLog, reason: str) -> str | None:
    """Close the ledger behind every fault window; returns what went wrong, if something did."""
    end = EndOfLoad(at=now_us(), reason=reason)
    try:
        async with asyncio.timeout(END_OF_LOAD_SECONDS_MAX):
            await faults.flush()
            await until_written(lambda: journal.end_of_load(end))
    except TimeoutError:
        return "the end of the load could not be written: the ledger does not answer"
    return None


async def await_verdict(verifier: Child, settings: SoakSettings, say: Callable[[str], None]) -> str | None:
    """Wait for the verifier's last word; one that dies meanwhile is started again and goes on."""
    say("the load has ended; everything is verified once more")
    try:
        async with asyncio.timeout(settings.verifier.drain + VERIFIER_MARGIN_SECONDS):
            await verifier.ended.wait()
    except TimeoutError:
        return "the last sweep did not end in time; raise verifier.drain"
    return None
