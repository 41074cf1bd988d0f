"""A load in a process of its own, so that it can die in the middle of a sentence."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from asyncio.subprocess import PIPE, Process
from pathlib import Path

import msgspec
import uvloop

from soak import lifeline
from soak.errors import SoakError
from soak.faults.window import Injected
from soak.flaws.flaw import Load
from soak.join import JoinInfo
from soak.selftest.crowd import Crowd

START_SECONDS_MAX = 60.0
_READY = b"ready\n"


class _Orders(msgspec.Struct):
    info: JoinInfo
    load: Load


class KilledLoad:
    """Starts such a process, lets it live for a while, and kills it."""

    def __init__(self, info: JoinInfo, load: Load, folder: Path) -> None:
        self._orders = _Orders(info, load)
        self._folder = folder

    async def live_and_die(self, after_seconds: float) -> Injected:
        descriptor, path = tempfile.mkstemp(dir=self._folder, prefix="load-")
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.encode(self._orders))
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "soak.selftest.killed_load", path, stdin=PIPE, stdout=PIPE
        )
        try:
            await self._until_ready(child)
            await asyncio.sleep(after_seconds)
            started = time.monotonic_ns() // 1000
        finally:
            if child.returncode is None:
                child.kill()
            await child.wait()
        ended = time.monotonic_ns() // 1000
        return Injected(fault="kill-load", name="kill_load", target="load", started=started, ended=ended)

    @staticmethod
    async def _until_ready(child: Process) -> None:
        assert child.stdout is not None  # noqa: S101  it is a pipe
        try:
            async with asyncio.timeout(START_SECONDS_MAX):
                said = await child.stdout.readline()
        except TimeoutError:
            raise SoakError(f"the load of the trial did not start within {START_SECONDS_MAX:.0f} s") from None
        if said != _READY:
            raise SoakError("the load of the trial did not start")


async def _live(orders: _Orders) -> None:
    ended = asyncio.Event()
    lifeline.hold(ended.set)
    crowds = [await Crowd.gather(orders.info, orders.load, {}) for _ in range(orders.load.tenants)]
    for crowd in crowds:
        crowd.begin()
    sys.stdout.buffer.write(_READY)
    sys.stdout.buffer.flush()
    await ended.wait()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_live(msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=_Orders)))
