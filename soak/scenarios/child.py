"""One scenario in a process of its own: its class and its JSON are the arguments, the result is a line of JSON."""

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
from soak.scenarios.scenario import E, L, R, Scenario


async def _run(scenario: Scenario[L, E, R], folder: Path) -> R | None:
    running = asyncio.ensure_future(scenario.run(folder))
    parent_exit.on_parent_exit(running.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        return await running
    return None


def _remove(folder: Path, *, is_orphan: bool) -> None:
    """Remove the folder, as the parent may be gone; the last child also removes the one around it."""
    shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(OSError):
        if is_orphan and {path.name for path in folder.parent.iterdir()} <= {lock.FILE_NAME}:
            shutil.rmtree(folder.parent, ignore_errors=True)


def main(scenario: Scenario[L, E, R], folder: Path, parent: int) -> int:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    begun = time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            result = runner.run(_run(scenario, folder))
    except SoakError as error:
        reason = mask(" ".join(str(error).split()))
        result = scenario.not_made(reason, is_unreachable=isinstance(error, ServerUnreachableError))
    except Exception as error:  # noqa: BLE001  whatever it was, this one is lost, and the others go on
        traceback.print_exc()
        result = scenario.not_made(mask(" ".join(f"internal error ({type(error).__name__}: {error})".split())))
    # Compared with the parent that started us: it may have been gone before we came this far.
    is_orphan = os.getppid() != parent
    if result is None or is_orphan:
        _remove(folder, is_orphan=is_orphan)
        return 1
    timed = msgspec.structs.replace(cast("msgspec.Struct", result), seconds=time.monotonic() - begun)
    sys.stdout.buffer.write(msgspec.json.encode(timed) + b"\n")
    return 0


if __name__ == "__main__":
    _module, _, _name = sys.argv[1].partition(":")
    _kind = getattr(importlib.import_module(_module), _name)
    sys.exit(main(msgspec.json.decode(sys.argv[2], type=_kind), Path(sys.argv[3]), int(sys.argv[4])))
