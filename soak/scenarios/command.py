"""What the commands that make scenarios have in common: how they are broken off, and how they print."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

import msgspec

from soak.report.text import print_json
from soak.scenarios.progress import Progress

T = TypeVar("T")


def completed(making: Coroutine[Any, Any, T], progress: Progress, what: str) -> T | None:
    """Return what was made; None after Ctrl-C or SIGTERM, when all of it was ended."""
    try:
        return asyncio.run(_cancelled_by_signal(making))
    except (KeyboardInterrupt, asyncio.CancelledError):
        progress.clear()
        sys.stderr.write(f"soak: interrupted; all {what} were ended, and nothing is proved\n")
        return None
    finally:
        progress.clear()


async def _cancelled_by_signal(making: Coroutine[Any, Any, T]) -> T:
    task = asyncio.current_task()
    if task is not None:
        # Told to end by a supervisor, it tidies up as after Ctrl-C.
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await making


def print_results(arguments: argparse.Namespace, for_programs: dict[str, Any], lines: Sequence[str]) -> None:
    if arguments.json:
        print_json(msgspec.json.encode(for_programs))
    else:
        sys.stdout.write("\n".join(lines) + "\n")
