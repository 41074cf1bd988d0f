"""One scenario in a process of its own: kind and scenario are its arguments, the result is a line of JSON."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import os
import shutil
import sys
import time
import traceback
from pathlib import Path
from typing import cast

import msgspec
import structlog
import uvloop

from soak.errors import ServerUnreachableError, SoakError
from soak.masking import mask
from soak.proc import lock, parent_exit
from soak.scenarios.runner import P, R, ScenarioKind


async def _make(kind: ScenarioKind[P, R], plan: P, folder: Path) -> R | None:
    making = asyncio.ensure_future(kind.make(plan, folder))
    parent_exit.on_parent_exit(making.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        return await making
    return None


def _remove(folder: Path, *, is_orphan: bool) -> None:
    """Remove what whoever started us may not be there to remove; the last one also what was around it."""
    shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(OSError):
        if is_orphan and {path.name for path in folder.parent.iterdir()} <= {lock.FILE_NAME}:
            shutil.rmtree(folder.parent, ignore_errors=True)


def main(kind: ScenarioKind[P, R], plan: P, folder: Path, parent: int) -> int:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    begun = time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            result = runner.run(_make(kind, plan, folder))
    except SoakError as error:
        is_unreachable = isinstance(error, ServerUnreachableError)
        result = kind.not_made(plan, mask(" ".join(str(error).split())), is_unreachable)
    except Exception as error:  # noqa: BLE001  whatever it was, this one is lost, and the others go on
        traceback.print_exc()
        reason = mask(" ".join(f"internal error ({type(error).__name__}: {error})".split()))
        result = kind.not_made(plan, reason, False)  # noqa: FBT003  it is ours
    # Asked of whoever started us, not of whom we found: they may have been gone before we came this far.
    is_orphan = os.getppid() != parent
    if result is None or is_orphan:
        _remove(folder, is_orphan=is_orphan)
        return 1
    timed = msgspec.structs.replace(cast("msgspec.Struct", result), seconds=time.monotonic() - begun)
    sys.stdout.buffer.write(msgspec.json.encode(timed) + b"\n")
    return 0


if __name__ == "__main__":
    _kind = importlib.import_module(sys.argv[1]).KIND
    sys.exit(main(_kind, msgspec.json.decode(sys.argv[2], type=_kind.plan), Path(sys.argv[3]), int(sys.argv[4])))
