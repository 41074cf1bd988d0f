"""One cell as a process of its own: told its plan by its arguments, it answers with one line of JSON."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
import sys
import time
import traceback
from pathlib import Path

import msgspec
import structlog
import uvloop

from soak import lifeline
from soak.errors import ServerUnreachableError, SoakError
from soak.masking import mask
from soak.matrix.measuring import measure
from soak.matrix.plan import CellPlan
from soak.matrix.result import CellResult, not_made


async def _measure(plan: CellPlan, folder: Path) -> CellResult | None:
    measuring = asyncio.ensure_future(measure(plan, folder))
    lifeline.hold(measuring.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        return await measuring
    return None


def main(plan: CellPlan, folder: Path) -> int:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    begun = time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            result = runner.run(_measure(plan, folder))
    except SoakError as error:
        is_unreachable = isinstance(error, ServerUnreachableError)
        result = not_made(plan, mask(" ".join(str(error).split())), is_unreachable=is_unreachable)
    except Exception as error:  # noqa: BLE001  whatever it was, the cell is lost, and the others go on
        traceback.print_exc()
        result = not_made(plan, mask(" ".join(f"internal error ({type(error).__name__}: {error})".split())))
    finally:
        # Also when whoever started us is gone and cannot.
        shutil.rmtree(folder, ignore_errors=True)
    if result is None:
        return 1
    timed = msgspec.structs.replace(result, seconds=time.monotonic() - begun)
    sys.stdout.buffer.write(msgspec.json.encode(timed) + b"\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(msgspec.json.decode(sys.argv[1], type=CellPlan), Path(sys.argv[2])))
