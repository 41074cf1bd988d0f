"""One library on one stage as a process of its own: told its plan by its arguments, it answers with JSON."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
import sys
import traceback
from pathlib import Path

import msgspec
import structlog
import uvloop

from soak import lifeline
from soak.analysis.making import make_cells
from soak.analysis.plan import StagePlan, empty_cell
from soak.analysis.result import Cell, Verdict
from soak.masking import mask


async def _make(plan: StagePlan, folder: Path) -> list[Cell] | None:
    making = asyncio.ensure_future(make_cells(plan, folder))
    lifeline.hold(making.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        return await making
    return None


def main(plan: StagePlan, folder: Path) -> int:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)
    cells: list[Cell] | None
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            cells = runner.run(_make(plan, folder))
    except Exception as error:  # noqa: BLE001  whatever it was, these cells are lost, and the others go on
        traceback.print_exc()
        reason = mask(" ".join(f"internal error ({type(error).__name__}: {error})".split()))
        cells = [empty_cell(plan.subject, name, plan.seed, Verdict.INCONCLUSIVE, reason) for name in plan.trials]
    if cells is None:
        # Whoever started us is gone and cannot tidy up.
        shutil.rmtree(folder, ignore_errors=True)
        return 1
    sys.stdout.buffer.write(msgspec.json.encode(cells) + b"\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(msgspec.json.decode(sys.argv[1], type=StagePlan), Path(sys.argv[2])))
