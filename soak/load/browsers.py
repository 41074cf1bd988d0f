"""The browser users of one load process: their child process, and a pool whose memories lead through its pages.

They are ordinary participants. What they say goes through a page of a chat service that is opened on the run's own
stores, servers and namespace, so the verifier reads and judges it like everything else.
"""

from __future__ import annotations

import contextlib
import logging
import subprocess
import sys
import time
from collections import deque
from collections.abc import Sequence
from typing import Any, Self

import gevent
import msgspec
from gevent.event import Event
from gevent.lock import BoundedSemaphore

from soak.browsing.chromium import find_chromium
from soak.checker.contract import Contract
from soak.checker.message import Message, Stored
from soak.checker.outcome import NotApplied
from soak.join import JoinInfo
from soak.ledger.records import BROWSER_WORKER_PREFIX
from soak.ledger.writer import LedgerWriter
from soak.load.bridge import Bridge
from soak.load.participant import Participant
from soak.load.plan import Plan
from soak.load.reading import Expectation, Performed
from soak.load.session_pool import LIMIT_FACTOR, LIMIT_SLACK_SECONDS, OpenedStore, SessionPool
from soak.proc import spawn
from soak.servers.kinds import HTTP
from soak.settings import LedgerSettings, LoadSettings
from soak.stores.protocol import MemoryStore, StoreContext
from soak.stores.registry import open_store

START_SECONDS_MAX = 90.0
END_SECONDS_MAX = 8.0
LOOK_SECONDS = 0.5
STARTS_MAX = 8
STARTS_WINDOW_SECONDS = 300.0
BACKOFF_SECONDS_MAX = 30.0
BRIDGE_SECONDS_MAX = 20.0
THINK_SECONDS_MIN = 2.0
"""A person reads before they write; and a page costs more than a request."""
SESSION_MESSAGES_MAX = 16
RECALL_SHARE = 0.1
REREAD_SHARE = 0.3
SHARED_SHARE = 0.3
STEP_FACTOR = 1.5
STEP_SLACK_SECONDS = 5.0
STEPS = 3
"""An operation opens a page, sends something and waits for what comes of it: each may take its time."""
CHILD = "soak.browsing.child"
PREFIX = "browser"

_log = logging.getLogger("soak.load")


class NoBrowserYetError(NotApplied):
    """The browsers are just being started: nothing was sent."""


class BrowsersGoneError(RuntimeError):
    """The process of the browsers has died too often."""


class BrowserLedger(LedgerWriter):
    """A ledger like any other, under a name that shows in the sessions' own."""

    kind = "browser"

    def __init__(self, *details: Any) -> None:
        super().__init__(*details)
        self.worker = BROWSER_WORKER_PREFIX + self.worker

    def latency(self, store: str, operation: str, seconds: float, failed: bool) -> None:  # noqa: FBT001
        """Leave it to Locust: how long a browser takes says nothing about the store."""


class BrowserMemory:
    """One store as seen through the pages of whichever child runs now. Lives on the bridge's loop."""

    def __init__(self, number: int, context: StoreContext) -> None:
        self._number = number
        self._context = context
        self._pages: MemoryStore | None = None

    async def append(self, session: str, message: Message) -> None:
        await self._there().append(session, message)

    async def history(self, session: str, last: int | None = None) -> Sequence[Stored]:
        return await self._there().history(session, last)

    async def forget(self, session: str) -> None:
        await self._there().forget(session)

    async def close(self) -> None:
        await self.leave()

    async def move(self, port: int) -> None:
        """Go on with a new child."""
        await self.leave()
        servers = {HTTP.name: f"http://127.0.0.1:{port}/{self._number}"}
        self._pages = await open_store(HTTP.name, msgspec.structs.replace(self._context, servers=servers))

    async def leave(self) -> None:
        """Take nothing on until there is a child again."""
        pages, self._pages = self._pages, None
        if pages is not None:
            await pages.close()

    def _there(self) -> MemoryStore:
        if self._pages is None:
            raise NoBrowserYetError("no browser is there")
        return self._pages


class Visitor(Participant):
    """A participant like any other, that has to give up when its browser is not coming back."""

    __slots__ = ("_browsers",)

    def __init__(self, pool: SessionPool, browsers: Browsers) -> None:
        super().__init__(pool)
        self._browsers = browsers

    async def turn(self) -> list[Performed]:
        if self._browsers.has_given_up:
            raise BrowsersGoneError(f"the browsers have died {STARTS_MAX} times")
        return await super().turn()


class Browsers:
    """Starts the child, again if it dies, and ends it. Lives on the hub's side of the bridge."""

    def __init__(self, bridge: Bridge, pool: SessionPool, memories: list[BrowserMemory], configuration: bytes) -> None:
        self._bridge = bridge
        self._pool = pool
        self._memories = memories
        self._configuration = configuration
        self._starts: deque[float] = deque(maxlen=STARTS_MAX)
        self._is_stopping = Event()
        self.is_ready = Event()
        """There has been a browser, whatever became of it."""
        self.has_given_up = False
        self._process = self._start()
        self._supervisor = gevent.spawn(self._supervise)
        self._supervisor.link_exception(lambda _greenlet: self._give_up())

    @classmethod
    def start(cls, bridge: Bridge, info: JoinInfo, ledger: LedgerSettings, load: LoadSettings, plan: Plan) -> Self:
        """Start them all; raises `SoakError` with one line where there is no browser."""
        step_seconds = info.timeout_seconds * STEP_FACTOR + STEP_SLACK_SECONDS
        operation_seconds = STEPS * step_seconds
        configuration = {
            "stores": plan.stores,
            "context": info.store_context(),
            "chromium": str(find_chromium(load.browser)),
            "users": load.browser_users,
            "step_seconds": step_seconds,
            "operation_seconds": operation_seconds,
        }
        context = StoreContext(servers={}, namespace=PREFIX, timeout_seconds=operation_seconds)
        memories = [BrowserMemory(number, context) for number in range(len(plan.stores))]
        pool = bridge.call(
            _open_pool, info, ledger, plan, memories, operation_seconds, timeout_seconds=BRIDGE_SECONDS_MAX
        )
        return cls(bridge, pool, memories, msgspec.json.encode(configuration) + b"\n")

    def participant(self) -> Participant:
        return Visitor(self._pool, self)

    def stop(self) -> bool:
        """Let what is under way end, then end the child; return whether the goodbye was written in time."""
        self._is_stopping.set()
        try:
            self._bridge.call(self._pool.close, timeout_seconds=BRIDGE_SECONDS_MAX)
        except TimeoutError:
            return False
        finally:
            self._supervisor.kill()
            self._end()
        return True

    # The child ----------------------------------------------------------------------------------------------

    def _start(self) -> Any:
        self._starts.append(time.monotonic())
        process = spawn.start(
            [sys.executable, "-m", CHILD],
            stdin=spawn.PIPE,
            stdout=spawn.PIPE,
            environment=spawn.own_package_environment(),
        )
        pipe: Any = process.stdin
        with contextlib.suppress(OSError):
            pipe.write(self._configuration)
            pipe.flush()
        return process

    def _supervise(self) -> None:
        while not self._is_stopping.is_set():
            self._introduce()
            while self._process.poll() is None:
                gevent.sleep(LOOK_SECONDS)
            self._for_all(BrowserMemory.leave)
            if self._is_stopping.is_set():
                return
            _log.error("the browsers have died (status %s)", self._process.returncode)
            if len(self._starts) == STARTS_MAX and time.monotonic() - self._starts[0] < STARTS_WINDOW_SECONDS:
                self._give_up()
                return
            if not self._is_stopping.wait(timeout=min(BACKOFF_SECONDS_MAX, 2.0 ** (len(self._starts) - 1))):
                self._process = self._start()

    def _give_up(self) -> None:
        self.has_given_up = True
        self.is_ready.set()

    def _introduce(self) -> None:
        """Wait for the child's port and let the memories use it; one that says nothing in time is ended."""
        line = b""
        with gevent.Timeout(START_SECONDS_MAX, False):  # noqa: FBT003  gevent's way to say: end the block quietly
            line = self._process.stdout.readline()
        try:
            port = int(msgspec.json.decode(line)["port"])
            self._for_all(BrowserMemory.move, port)
            self.is_ready.set()
        except Exception as error:  # noqa: BLE001  whatever it is: this child cannot be used
            _log.error("the browsers do not come up (%s)", type(error).__name__)
            self._end()

    def _for_all(self, change: Any, *details: Any) -> None:
        for memory in self._memories:
            self._bridge.call(change, memory, *details, timeout_seconds=BRIDGE_SECONDS_MAX)

    def _end(self) -> None:
        process = self._process
        with contextlib.suppress(OSError):
            process.stdin.close()  # which is how it learns that it is over
        try:
            process.wait(timeout=END_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(timeout=END_SECONDS_MAX)
        process.stdout.close()


class LazyBrowsers:
    """Started when the first browser user comes: in a process that has none, nothing is."""

    def __init__(self, bridge: Bridge, info: JoinInfo, ledger: LedgerSettings, load: LoadSettings, plan: Plan) -> None:
        self.plan = _slower(plan)
        self._arguments = (bridge, info, ledger, load, self.plan)
        self._lock = BoundedSemaphore(1)
        self._browsers: Browsers | None = None

    def get(self) -> Browsers:
        with self._lock:
            if self._browsers is None:
                self._browsers = Browsers.start(*self._arguments)
            return self._browsers

    def stop(self) -> bool:
        with self._lock:
            return self._browsers is None or self._browsers.stop()


def _slower(plan: Plan) -> Plan:
    return plan._replace(
        think_seconds=max(plan.think_seconds, THINK_SECONDS_MIN),
        session_messages=min(plan.session_messages, SESSION_MESSAGES_MAX),
        writers_per_session=2,  # two tabs
        shared_share=SHARED_SHARE,
        recall_share=RECALL_SHARE,
        reread_share=REREAD_SHARE,
        similar_share=0.0,  # what is in a page's address is for its chat to decide
    )


async def _open_pool(
    info: JoinInfo, settings: LedgerSettings, plan: Plan, memories: list[BrowserMemory], operation_seconds: float
) -> SessionPool:
    ledger = await BrowserLedger.connect(info.ledger_url, settings)
    contracts = ledger.header.contracts
    stores = {
        name: OpenedStore(memory, Expectation.of(contracts.get(name, Contract())))
        for name, memory in zip(plan.stores, memories, strict=True)
    }
    return SessionPool(ledger, stores, plan, operation_seconds * LIMIT_FACTOR + LIMIT_SLACK_SECONDS)
