"""The bridge between greenlets and coroutines: results, errors, kills, forks, and an end that loses no answer."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Iterator

import gevent
import pytest

from soak.load.bridge import Bridge, BridgeCancelledError, BridgeClosedError


@pytest.fixture
def bridge() -> Iterator[Bridge]:
    made = Bridge()
    yield made
    made.close()


async def double(number: int) -> int:
    await asyncio.sleep(0.001)
    return 2 * number


async def fail(error: BaseException) -> None:
    await asyncio.sleep(0)
    raise error


async def sleep_for_ever(cancelled: list[bool]) -> None:
    try:
        await asyncio.sleep(3600)
    except asyncio.CancelledError:
        cancelled.append(True)
        raise


def test_a_greenlet_gets_what_the_coroutine_returns(bridge: Bridge) -> None:
    assert bridge.call(double, 21) == 42


def test_many_greenlets_wait_at_once_and_the_hub_goes_on(bridge: Bridge) -> None:
    ticks: list[int] = []

    def tick() -> None:
        while True:
            ticks.append(1)
            gevent.sleep(0.005)

    async def slowly(number: int) -> int:
        await asyncio.sleep(0.2)
        return number

    ticker = gevent.spawn(tick)
    waiting = [gevent.spawn(bridge.call, slowly, number) for number in range(500)]
    gevent.joinall(waiting)
    ticker.kill()
    assert [one.value for one in waiting] == list(range(500))
    assert len(ticks) > 5


def test_the_coroutine_runs_on_a_thread_of_its_own(bridge: Bridge) -> None:
    async def thread() -> int:
        return threading.get_ident()

    assert bridge.call(thread) != threading.get_ident()


def test_whatever_is_raised_comes_back(bridge: Bridge) -> None:
    with pytest.raises(ZeroDivisionError, match="by nought"):
        bridge.call(fail, ZeroDivisionError("by nought"))
    assert bridge.call(double, 1) == 2


def test_a_cancellation_on_the_loop_is_an_ordinary_error_here(bridge: Bridge) -> None:
    with pytest.raises(BridgeCancelledError):
        bridge.call(fail, asyncio.CancelledError())


def test_a_call_that_takes_too_long_is_cancelled(bridge: Bridge) -> None:
    cancelled: list[bool] = []
    with pytest.raises(TimeoutError):
        bridge.call(sleep_for_ever, cancelled, timeout_seconds=0.05)
    bridge.call(double, 1)
    assert cancelled == [True]


def test_the_call_of_a_killed_greenlet_is_cancelled_and_nobody_else_notices(bridge: Bridge) -> None:
    cancelled: list[bool] = []
    doomed = gevent.spawn(bridge.call, sleep_for_ever, cancelled)
    other = gevent.spawn(bridge.call, double, 4)
    gevent.sleep(0.05)
    doomed.kill()
    assert other.get() == 8
    bridge.call(double, 1)
    assert cancelled == [True]
    assert bridge.abandoned == 1


def test_a_greenlet_killed_before_its_call_began_never_sends_it(bridge: Bridge) -> None:
    begun: list[bool] = []

    async def begin() -> None:
        begun.append(True)

    doomed = gevent.spawn(bridge.call, begin)
    gevent.sleep(0)
    doomed.kill()
    bridge.call(double, 1)
    assert begun == []


def test_a_posted_function_runs_on_the_loop(bridge: Bridge) -> None:
    seen: list[int] = []
    bridge.post(lambda: seen.append(threading.get_ident()))
    bridge.call(double, 1)
    assert seen != [threading.get_ident()]
    assert len(seen) == 1


def test_closing_waits_for_calls_under_way_and_delivers_their_answers() -> None:
    bridge = Bridge()

    async def slowly() -> str:
        await asyncio.sleep(0.1)
        return "done"

    waiting = gevent.spawn(bridge.call, slowly)
    gevent.sleep(0.01)
    bridge.close()
    assert waiting.get(timeout=1) == "done"
    with pytest.raises(BridgeClosedError, match="closed"):
        bridge.call(double, 1)


def test_closing_cancels_what_does_not_end_and_tells_whoever_waits() -> None:
    bridge = Bridge()
    cancelled: list[bool] = []
    waiting = gevent.spawn(bridge.call, sleep_for_ever, cancelled)
    gevent.sleep(0.01)
    bridge.close(timeout_seconds=0.1)
    with pytest.raises(BridgeCancelledError):
        waiting.get(timeout=1)
    assert cancelled == [True]
    bridge.close()


def test_a_forked_copy_refuses_calls(bridge: Bridge) -> None:
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            bridge.call(double, 1)
        except BridgeClosedError as error:
            os.write(writing, str(error).encode())
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    os.close(writing)
    with os.fdopen(reading) as file:
        assert "made before a fork" in file.read()
    assert bridge.call(double, 2) == 4


def test_it_works_in_a_process_that_gevent_has_patched() -> None:
    script = """
from gevent import monkey; monkey.patch_all()
import asyncio, gevent
from soak.load.bridge import Bridge
async def connect():
    server = await asyncio.start_server(lambda r, w: w.close(), "localhost", 0)
    port = server.sockets[0].getsockname()[1]
    reader, writer = await asyncio.open_connection("localhost", port)
    assert await reader.read() == b""
    writer.close(); server.close()
    return "connected"
bridge = Bridge()
print(gevent.spawn(bridge.call, connect).get(timeout=10))
bridge.close()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=30, check=False)
    assert (done.stdout, done.returncode) == ("connected\n", 0), done.stderr
