"""One load process of the storm: participants, and talks whose names are easily taken for one another.

Its wall clock jumps while it runs. If it is told to, it plays a worker on another host, whose clock has to be measured.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import signal
import sys
import time
from pathlib import Path

from soak import join
from soak.checker.outcome import NotApplied, Outcome
from soak.errors import ServerUnreachableError
from soak.ledger import writer as ledger_writer
from soak.ledger.records import Host
from soak.load.participant import Participant
from soak.load.plan import Plan
from soak.load.session_pool import SessionPool
from soak.settings import LedgerSettings

ODD_PAIRS = (
    ("Anna", "anna"), ("a,b", "a.b"), ("a/b", "a//b"), ("a:b", "a::b"), ("caf\u00e9", "cafe\u0301"),
    ("\u212b", "\u00c5"), ("stra\u00dfe", "strasse"), ("x ", "x"), ("%s", "%25s"), ("q'uote", 'q"uote'),
    ("{a}", "{b}"), ("*", "?"), ("\u0131", "i"),
)  # fmt: skip
ODD_TURNS = 14
STEP_SECONDS = 3_600.0
DRAIN_SECONDS = 20.0
REACH_SECONDS_MAX = 60.0

_real_time, _real_time_ns = time.time, time.time_ns
_step = [0.0]


def step_the_clock(seconds: float) -> None:
    """Let the wall clock of this process be off by so much from now on; nothing else changes."""
    _step[0] = seconds
    time.time = lambda: _real_time() + _step[0]
    time.time_ns = lambda: _real_time_ns() + int(_step[0] * 1e9)


async def jump_about(source: random.Random) -> None:
    while True:
        await asyncio.sleep(source.uniform(0.3, 2.0))
        step_the_clock(source.uniform(-STEP_SECONDS, STEP_SECONDS))


async def take_turns(pool: SessionPool, source: random.Random) -> None:
    participant = Participant(pool)
    while True:
        await asyncio.sleep(pool.plan.draw_think_seconds(source))
        with contextlib.suppress(OSError):
            await participant.turn()


async def talk_under_odd_names(pool: SessionPool, source: random.Random) -> None:
    """Talk in pairs of sessions that a careless store takes for one."""
    for around in range(1_000_000):
        for pair in source.sample(ODD_PAIRS, len(ODD_PAIRS)):
            store = source.choice(pool.plan.stores)
            names = [f"{pool.ledger.worker}:{around},{name}/{pool.plan.mix}-{pool.plan.mix}" for name in pair]
            await asyncio.gather(*(talk_once(pool, store, name, source) for name in names))


async def talk_once(pool: SessionPool, store: str, session: str, source: random.Random) -> None:
    ledger, memory = pool.ledger, pool.stores[store].memory
    number = await ledger.open_session(session, store, 1)
    for seq in range(1, ODD_TURNS + 1):
        await ledger.ready()
        message = pool.author.write(session, 0, seq)
        outcome, sent = Outcome.UNKNOWN, time.monotonic_ns() // 1000
        try:
            await pool.deadlines.bounded(memory.append(session, message))
            outcome = Outcome.OK
        except NotApplied:
            outcome = Outcome.FAILED
        except Exception:  # noqa: BLE001, S110  whatever it is: the write may have happened
            pass
        finally:
            ledger.attempted(number, 0, seq, outcome, sent, time.monotonic_ns() // 1000)
        await asyncio.sleep(source.uniform(0.0, 0.1))
    ledger.close_session(number)


async def open_pool(info: join.JoinInfo, plan: Plan) -> SessionPool:
    """Begin as soon as everything can be reached; a worker that starts in the middle of a crash tries again."""
    deadline = time.monotonic() + REACH_SECONDS_MAX
    while True:
        try:
            return await SessionPool.open(info, LedgerSettings(), plan)
        except ServerUnreachableError:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.2)


async def run(arguments: argparse.Namespace) -> None:
    source = random.Random(f"{arguments.seed}/{arguments.number}/{os.getpid()}")
    info = join.find(arguments.data_dir)
    if info is None:
        sys.exit("no run to join")
    if arguments.other_host:
        elsewhere = Host(f"other-{arguments.number}", f"other-{arguments.number}")
        ledger_writer.this_host = lambda: elsewhere  # type: ignore[attr-defined]  # as the writer sees it
    plan = Plan(
        stores=tuple(info.header.stores),
        think_seconds=arguments.think,
        session_messages=arguments.session_messages,
        writers_per_session=arguments.writers,
        shared_share=arguments.shared,
        recall_share=0.05,
        forget_share=0.3,
        reread_share=0.3,
        mix=arguments.mix,
    )
    pool = await open_pool(info, plan)
    tasks = [asyncio.create_task(take_turns(pool, source)) for _ in range(arguments.users)]
    tasks += [asyncio.create_task(talk_under_odd_names(pool, source))]
    tasks += [asyncio.create_task(jump_about(source))]
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait([stopping, *tasks], return_when=asyncio.FIRST_COMPLETED)
    failed = [task for task in tasks if task.done()]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    async with asyncio.timeout(DRAIN_SECONDS):
        await pool.close()
    for task in failed:
        if not task.cancelled():
            task.result()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--number", type=int, required=True)
    parser.add_argument("--users", type=int, default=16)
    parser.add_argument("--think", type=float, default=0.2)
    parser.add_argument("--session-messages", type=int, default=40)
    parser.add_argument("--writers", type=int, default=4)
    parser.add_argument("--shared", type=float, default=0.5)
    parser.add_argument("--mix", default="chat")
    parser.add_argument("--other-host", action="store_true")
    with asyncio.Runner() as runner:
        runner.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
