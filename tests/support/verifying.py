"""A scripted load and a verifier in this process: a real ledger, a real store, and a hand that can reach into it."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import sys
import time
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any, cast

import aiohttp
import msgspec
from prometheus_client.parser import text_string_to_metric_families
from redis.asyncio import Redis

from soak.checker import case
from soak.checker.contract import Contract, Order
from soak.checker.faults import Excuse, Promotion
from soak.checker.message import Garbled, Message, Stored
from soak.checker.outcome import Outcome
from soak.checker.text import MessageGenerator
from soak.checker.verdict import Verdict
from soak.errors import ExitCode
from soak.faults.catalogue import ALL as FAULTS
from soak.join import JoinInfo
from soak.ledger.connection import keys_of
from soak.ledger.records import EndOfLoad, FaultPhase, Observation, SeenItem
from soak.ledger.run import RunJournal, create_run
from soak.ledger.shards import WHOLE, Shard
from soak.ledger.writer import LedgerWriter
from soak.settings import LedgerSettings, SoakSettings, VerifierSettings
from soak.stores import registry
from soak.stores.protocol import MemoryStore, StoreContext
from soak.stores.redis_client import NotSentError
from soak.stores.redis_stores import RedisListStore
from soak.verifier import checkpoint, evidence_file, process, result
from tests.support.command import plain_environment
from tests.support.run_headers import header_of

STORES = __name__
"""The module of the stores below: `f"{STORES}:Unordered"` names one."""
SECONDS_MAX = 60.0
QUICK: dict[str, Any] = {
    "settle": 0.3,
    "hot_interval": 0.1,
    "coverage": 0.5,
    "checkpoint": 0.2,
    "ttl_epsilon": 0.4,
    "drain": 10.0,
    "canary": 0.0,  # the alarm is tested by tests of its own
}


def now_us() -> int:
    return time.monotonic_ns() // 1000


# -- stores of the plug-in kind, each a small variation of the list --


class AbsoluteList(RedisListStore):
    """A list that lives for a fixed time after its first message."""

    layout = "absolute"
    ttl_ms = 1_500

    async def append(self, session: str, message: Message) -> None:
        await super().append(session, message)
        await self._client.execute("PEXPIRE", self.key(session), self.ttl_ms, "NX")


class NothingIsNone(RedisListStore):
    """A list whose reader answers None in place of an empty history."""

    layout = "none"

    async def history(self, session: str, last: int | None = None) -> Sequence[Stored]:
        return await super().history(session, last) or None  # type: ignore[return-value]


class Nameless:
    """A thing that lies somewhere in memory, and says no more of itself."""


class Speechless:
    """A thing that can no longer be asked what it is, such as a row whose connection is closed."""

    def __repr__(self) -> str:
        raise RuntimeError("detached")


class OddRows(RedisListStore):
    """A list whose reader adds things that are no messages, new ones at every read."""

    layout = "odd"

    async def history(self, session: str, last: int | None = None) -> Sequence[Stored]:
        odd: list[Any] = [Nameless(), Speechless(), Garbled("text", None)]  # type: ignore[arg-type]
        return [*await super().history(session, last), *odd]


class OddNumbers(RedisListStore):
    """A list whose reader gives the number of the second message as text."""

    layout = "numbers"

    async def history(self, session: str, last: int | None = None) -> Sequence[Stored]:
        items = await super().history(session, last)
        return [
            msgspec.structs.replace(item, seq=str(item.seq)) if isinstance(item, Message) and item.seq == 2 else item
            for item in items
        ]


class OddAnswer(RedisListStore):
    """A list whose reader answers with something that is no history."""

    layout = "answer"

    async def history(self, session: str, last: int | None = None) -> Sequence[Stored]:
        await super().history(session, last)
        return cast("Sequence[Stored]", Speechless())


def _checked(read: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(read)
    def checked(store: MemoryStore, session: str, last: int | None = None) -> Any:
        if last is not None:
            raise ConnectionError("refused before anything was awaited")
        return read(store, session, last)

    return checked


class RaisesAtOnce(RedisListStore):
    """A list whose reader raises before there is anything to wait for."""

    layout = "raises"

    @_checked
    async def history(self, session: str, last: int | None = None) -> Sequence[Stored]:
        return await super().history(session, last)


class RaisesForOne(RedisListStore):
    """A list whose reader raises on one session, and answers on all others."""

    layout = "raises-for-one"
    unreadable = "spoiled-chat"

    async def history(self, session: str, last: int | None = None) -> Sequence[Stored]:
        if session == self.unreadable:
            raise ValueError("Expecting value: line 1 column 1 (char 0)")
        return await super().history(session, last)


class UnreachableForOne(RaisesForOne):
    """A list whose reads of one session find no connection for a while."""

    layout = "unreachable-for-one"
    failures_left = 20
    """Of each process that reads: more than are needed to call a session unreadable."""

    async def history(self, session: str, last: int | None = None) -> Sequence[Stored]:
        if session == self.unreadable and self.failures_left:
            self.failures_left -= 1
            raise NotSentError("no connection within 5s")
        return await RedisListStore.history(self, session, last)


class SlowToRead(RedisListStore):
    """A list of which each read takes a second."""

    layout = "slow-to-read"
    seconds = 1.0

    async def history(self, session: str, last: int | None = None) -> Sequence[Stored]:
        await asyncio.sleep(self.seconds)
        return await super().history(session, last)


class Unordered(RedisListStore):
    """A heap of messages: every read has another order, and the last so many are any so many."""

    layout = "unordered"
    contract = Contract(order=Order.NONE)
    turns = 0

    async def history(self, session: str, last: int | None = None) -> Sequence[Stored]:
        type(self).turns += 1
        items = list(await super().history(session, None))
        at = self.turns * 7 % max(1, len(items))
        items = items[at:] + items[:at]
        return items if last is None else items[-last:]


class Script:
    """A run that a test tells step by step: what was sent, what was answered, what is really there."""

    data_dir: Path | None = None
    """Where its verifiers write, unless a test names another folder."""

    def __init__(
        self, info: JoinInfo, writer: LedgerWriter, journal: RunJournal, memory: MemoryStore, redis: Redis
    ) -> None:
        self.info = info
        self.writer = writer
        self.journal = journal
        self.memory = memory
        self.redis: Any = redis
        self.store = info.header.stores[0]
        self.author = MessageGenerator(info.header.run, info.header.seed)
        self.numbers: dict[str, int] = {}
        self.acked: dict[str, list[tuple[int, int, int, int]]] = {}
        self._sent: dict[tuple[str, int], int] = {}

    async def open(self, session: str, writers: int = 1) -> None:
        self.numbers[session] = await self.writer.open_session(session, self.store, writers)
        self.acked[session] = []

    async def say(
        self,
        session: str,
        count: int = 1,
        *,
        writer: int = 0,
        outcome: Outcome | None = Outcome.OK,
        stored: bool = True,
    ) -> list[Message]:
        """Append messages and record the outcome, whatever really happened; None: the outcome never arrives.

        A session that is not open yet is opened for one writer.
        """
        if session not in self.numbers:
            await self.open(session)
        said = []
        for _ in range(count):
            seq = self._sent[session, writer] = self._sent.get((session, writer), 0) + 1
            if seq > self.writer.lease_messages:
                await self.writer.lease(self.numbers[session], writer, seq)
            message = self.author.write(session, writer, seq)
            sent = now_us()
            if stored:
                await self.memory.append(session, message)
            ended = max(now_us(), sent + 1)
            if outcome is not None:
                self.writer.attempted(self.numbers[session], writer, seq, int(outcome), sent, ended)
            if outcome is Outcome.OK:
                self.acked[session].append((writer, seq, sent, ended))
            said.append(message)
            await asyncio.sleep(0.001)  # so that the next one is sent later than this one ended
        return said

    async def forget(self, session: str, *, outcome: Outcome = Outcome.OK, done: bool = True) -> None:
        number = self.numbers[session]
        await self.writer.intend_forget(number, now_us())
        sent = now_us()
        if done:
            await self.memory.forget(session)
        self.writer.forgot(number, int(outcome), sent, now_us())

    def close(self, session: str) -> None:
        self.writer.close_session(self.numbers[session])

    async def fault(self, name: str, phase: str, kind: str = "crash", *, planned: bool = True) -> None:
        record = FaultPhase(
            fault=name,
            kind=kind,
            target="redis",
            phase=phase,
            at=now_us(),
            excuses=FAULTS[kind].excuses if planned else Excuse.CRASH,
            promotes=FAULTS[kind].promotes if planned else Promotion.NONE,
            serves=FAULTS[kind].serves,
            planned=planned,
        )
        await self.journal.fault(record)

    def observe(
        self, session: str, items: list[SeenItem], *, last: int | None = None, asked: tuple[int, int] | None = None
    ) -> None:
        """Report a participant's read, or search, that has just ended."""
        acked = list(self.acked[session])
        now = now_us()
        self.writer.observe(
            Observation(self.numbers[session], now, now + 1, last, items, acked, len(acked), "absent", asked)
        )

    async def end(self) -> None:
        await self.writer.close()
        await self.journal.end_of_load(EndOfLoad(at=now_us(), reason="the script is over"))

    # -- the hand in the store: lists only --

    def key(self, session: str) -> bytes:
        return self.memory.key(session)  # type: ignore[attr-defined, no-any-return]

    async def remove(self, message: Message) -> None:
        assert await self.redis.lrem(self.key(message.session), 1, message.to_bytes()) == 1

    async def replace(self, message: Message, raw: bytes) -> None:
        key = self.key(message.session)
        at = (await self.redis.lrange(key, 0, -1)).index(message.to_bytes())
        await self.redis.lset(key, at, raw)

    async def swap(self, one: Message, other: Message) -> None:
        key = self.key(one.session)
        rows = await self.redis.lrange(key, 0, -1)
        at, there = rows.index(one.to_bytes()), rows.index(other.to_bytes())
        async with self.redis.pipeline(transaction=True) as pipe:
            pipe.lset(key, at, rows[there])
            pipe.lset(key, there, rows[at])
            await pipe.execute()

    async def put_before(self, message: Message, other: Message) -> None:
        key = self.key(message.session)
        assert await self.redis.linsert(key, "BEFORE", other.to_bytes(), message.to_bytes()) > 0

    async def push(self, session: str, raw: bytes) -> None:
        await self.redis.rpush(self.key(session), raw)


@contextlib.asynccontextmanager
async def scripting(
    redis_url: str,
    ledger_url: str,
    *,
    store: str = "redis-list",
    contract: Contract | None = None,
    ttl_seconds: float | None = None,
    servers: dict[str, str] | None = None,
    data_dir: Path | None = None,
) -> AsyncIterator[Script]:
    """Begin a run of its own; everything it wrote is removed afterwards."""
    run = "r" + uuid.uuid4().hex[:8]
    context = StoreContext(
        servers=servers or {"redis": redis_url}, namespace=f"t_{run}", timeout_seconds=2.0, ttl_seconds=ttl_seconds
    )
    promised = contract or registry.find(store).contract_for(context)
    header = header_of({store: promised}, run, seed=5, namespace=context.namespace, started_wall_seconds=time.time())
    info = JoinInfo(
        header=header,
        ledger_url=ledger_url,
        servers=dict(context.servers),
        timeout_seconds=2.0,
        connections_max=8,
        ttl_seconds=ttl_seconds,
        daemon_pid=0,
        http_address="",
    )
    await create_run(ledger_url, header)
    writer = await LedgerWriter.connect(ledger_url, LedgerSettings())
    journal = await RunJournal.connect(ledger_url, run)
    memory = await registry.open_store(store, context)
    redis = Redis.from_url(redis_url)
    script = Script(info, writer, journal, memory, redis)
    script.data_dir = data_dir
    try:
        yield script
    finally:
        await writer.close()
        await journal.close()
        if hasattr(memory, "clean_up"):
            await memory.clean_up()
        await memory.close()
        await redis.aclose()
        async with contextlib.aclosing(Redis.from_url(ledger_url)) as ledger:
            await ledger.delete(*keys_of(run), *keys_of(run, 2), *keys_of(run, 3))


Soaking = Callable[..., contextlib.AbstractAsyncContextManager[Script]]
"""`scripting` on the servers and in the folder of one test."""


# -- the verifier --


class Verifying:
    """A verifier that runs as a task, and what it says."""

    def __init__(
        self, script: Script, data_dir: Path, *, thresholds: Any = None, shard: Shard = WHOLE, **settings: Any
    ) -> None:
        self._script = script
        self._shard = shard
        self.folder = data_dir / shard.folder
        self._data_dir = data_dir
        self._settings = SoakSettings(verifier=VerifierSettings(**(QUICK | settings)), thresholds=thresholds or {})
        self._task: asyncio.Task[ExitCode] | None = None

    def start(self) -> None:
        (self.folder / "endpoint.json").unlink(missing_ok=True)
        run = process.run(self._script.info, self._settings, self._data_dir, "127.0.0.1", 0, self._shard)
        self._task = asyncio.create_task(run)

    async def kill(self) -> None:
        """End it with nothing saved, as a kill does."""
        task, self._task = self._task, None
        assert task is not None
        while not task.done():
            task.cancel()
            await asyncio.wait([task], timeout=1.0)
        if not task.cancelled():
            task.result()

    async def finish(self) -> result.Result:
        """End the load and wait for the verdict."""
        await self._script.end()
        return await self.verdict()

    async def verdict(self) -> result.Result:
        """Wait for the verdict of a run whose load has ended."""
        assert self._task is not None
        code = await asyncio.wait_for(self._task, SECONDS_MAX * 2)
        self._task = None
        found = result.read(self.folder)
        assert found is not None
        assert code is Verdict(found.verdict).exit_code
        self.replay()
        return found

    async def close(self) -> None:
        if self._task is not None:
            await self.kill()

    async def get(self, path: str) -> bytes:
        endpoint = json.loads((self.folder / "endpoint.json").read_bytes())
        async with (
            aiohttp.ClientSession() as http,
            http.get(f"http://{endpoint['host']}:{endpoint['port']}{path}") as answer,
        ):
            assert answer.status == 200
            return await answer.read()

    async def status(self) -> dict[str, Any]:
        status: dict[str, Any] = json.loads(await self.get("/status"))
        return status

    async def metric(self, name: str, **labels: str) -> float:
        text = (await self.get("/metrics")).decode()
        return sum(
            sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )

    async def until(self, condition: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        """Wait until the status says so."""
        deadline = time.monotonic() + SECONDS_MAX
        status: dict[str, Any] = {}
        while time.monotonic() < deadline:
            if self._task is not None and self._task.done():
                self._task.result()
            with contextlib.suppress(OSError, aiohttp.ClientError, FileNotFoundError, ValueError):
                status = await self.status()
            if status and condition(status):
                return status
            await asyncio.sleep(0.02)
        raise AssertionError(f"it did not come to that: {status}")

    async def until_metric(self, value: float, name: str, **labels: str) -> None:
        deadline = time.monotonic() + SECONDS_MAX / 2
        while (found := await self.metric(name, **labels)) != value:
            assert time.monotonic() < deadline, f"{name} is {found}, not {value}"
            await asyncio.sleep(0.05)

    async def until_verified(self, count: int) -> dict[str, Any]:
        return await self.until(lambda status: status["totals"]["verified"] >= count)

    async def until_saved(self) -> None:
        """Wait for a checkpoint of what is known by now: not the next one, which may have begun before."""
        path = self.folder / checkpoint.FILE_NAME

        def saved_at() -> int:
            return path.stat().st_mtime_ns if path.exists() else 0

        for _ in range(2):
            before = saved_at()
            deadline = time.monotonic() + SECONDS_MAX
            while saved_at() == before:
                assert time.monotonic() < deadline, "nothing was saved"
                await asyncio.sleep(0.02)

    async def until_found(self, count: int = 1) -> dict[str, Any]:
        return await self.until(lambda status: status["totals"]["violations"] >= count)

    def replay(self) -> None:
        """Check that every verdict on disk is reached again from its evidence alone."""
        for path in sorted((self.folder / "evidence").glob("*.json")):
            file = evidence_file.read(path)
            assert file.case is not None, file.story["case_missing"]
            assert file.is_sealed
            again = case.replay(file.case)
            assert again.is_same, (path.name, again)

    def evidence(self) -> list[dict[str, Any]]:
        return [json.loads(path.read_bytes()) for path in sorted((self.folder / "evidence").glob("*.json"))]

    def journal(self) -> list[dict[str, Any]]:
        try:
            lines = (self.folder / "journal.jsonl").read_text().splitlines()
        except FileNotFoundError:
            return []
        return [json.loads(line) for line in lines]


@contextlib.asynccontextmanager
async def verifying(script: Script, data_dir: Path | None = None, /, **settings: Any) -> AsyncIterator[Verifying]:
    """Run a verifier beside the script."""
    data_dir = data_dir or script.data_dir
    assert data_dir is not None
    verifier = Verifying(script, data_dir, **settings)
    verifier.start()
    try:
        yield verifier
    finally:
        await verifier.close()


def found_kinds(verdict: result.Result) -> dict[str, int]:
    """Return how often each kind was found."""
    counts: dict[str, int] = {}
    for count in verdict.violations_by:
        counts[count.kind] = counts.get(count.kind, 0) + count.count
    return counts


def altered(message: Message) -> bytes:
    """Return the stored form of a message with one letter changed."""
    return msgspec.structs.replace(message, content=message.content + "!").to_bytes()


def sidecar_command(data_dir: Path, run: str) -> list[str]:
    return [sys.executable, "-m", "soak", "verify", "--data-dir", str(data_dir), "--run", run, "--port", "0", "--json"]


def sidecar_environment(script: Script, **settings: Any) -> dict[str, str]:
    told = {f"SOAK_VERIFIER__{name.upper()}": str(value) for name, value in (QUICK | settings).items()}
    servers = {
        "SOAK_LEDGER__URL": script.info.ledger_url,
        "SOAK_SERVERS__REDIS": script.info.servers["redis"],
        "SOAK_LOG__LEVEL": "warning",
        "SOAK_CONTRACT_MISMATCH": "allow",  # what the test's server promises is not what these tests are about
    }
    return plain_environment(**told, **servers)
