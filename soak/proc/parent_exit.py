"""How a child process learns that the one that started it is gone: its standard input ends."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable

_CHUNK = 4096


def on_parent_exit(on_end: Callable[[], object]) -> None:
    """Call back, once, when the parent is gone, however it went, or when we are asked to end."""
    loop = asyncio.get_running_loop()
    descriptor = sys.stdin.fileno()
    is_over = False

    def end() -> None:
        nonlocal is_over
        if not is_over:
            # Asking twice would break off the tidying up that the first time began.
            is_over = True
            loop.remove_reader(descriptor)
            on_end()

    def read() -> None:
        if not os.read(descriptor, _CHUNK):
            end()

    loop.add_reader(descriptor, read)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end)
