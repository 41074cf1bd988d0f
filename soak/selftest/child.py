"""One trial as a process of its own: told which flaw by its arguments, it answers with one line of JSON."""

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
from soak.errors import SoakError
from soak.flaws import catalogue
from soak.masking import mask
from soak.selftest.pace import Pace
from soak.selftest.result import Trial, not_made
from soak.selftest.trial import make_trial


async def _try(name: str, folder: Path, pace: Pace) -> Trial | None:
    trial = asyncio.ensure_future(make_trial(catalogue.find(name), folder, pace))
    lifeline.hold(trial.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        return await trial
    return None


def main(name: str, folder: Path, pace: Pace) -> int:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    flaw = catalogue.find(name)
    begun = time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            trial = runner.run(_try(name, folder, pace))
    except SoakError as error:
        trial = not_made(flaw, mask(" ".join(str(error).split())))
    except Exception as error:  # noqa: BLE001  whatever it was, the trial is lost, and the others go on
        traceback.print_exc()
        trial = not_made(flaw, mask(" ".join(f"internal error ({type(error).__name__}: {error})".split())))
    finally:
        # Also when whoever started us is gone and cannot.
        shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(OSError):  # others are still at work in it
            folder.parent.rmdir()
    if trial is None:
        return 1
    timed = msgspec.structs.replace(trial, seconds=time.monotonic() - begun)
    sys.stdout.buffer.write(msgspec.json.encode(timed) + b"\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2]), Pace(sys.argv[3])))
