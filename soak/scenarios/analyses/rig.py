"""A library on a stage: servers of its own, its processes, and sessions to try it with."""

from __future__ import annotations

import asyncio
import contextlib
import enum
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

import msgspec

from soak.checker.contract import Contract, Expiry
from soak.checker.faults import FaultHistory
from soak.checker.outcome import Outcome
from soak.checker.read import Rules
from soak.contract_suite.conversation import STORE, CheckedConversation, PlainTexts
from soak.contracts.guarantees import guarantees_of
from soak.faults.clock_step import ClockStep
from soak.scenarios.scenario import ServerSetup
from soak.scenarios.servers import ScenarioServers, as_given
from soak.servers.inspect import inspect
from soak.servers.proxy import Proxy
from soak.servers.server import LifecycleEvent, Server
from soak.servers.servers import Servers
from soak.stores.http import HttpStore
from soak.subjects.description import Subject
from soak.subjects.environment import redis_options_of
from soak.subjects.process import Deployment, deployed

REDIS_SHIPPED = {"appendonly": "no", "save": "3600 1 300 100 60 10000"}
"""What a Redis or Valkey does that nobody has configured."""


class Stage(enum.Enum):
    """Trials of one stage share servers and processes, one after the other."""

    PLAIN = "plain"
    """Durable servers behind a proxy."""
    SHIPPED = "shipped"
    """Servers with the durability they are shipped with."""
    POWER = "power"
    """Durable servers on a disk whose power can be cut."""
    SKEWED = "skewed"
    """The clock of every second process of the library is behind."""
    EXPIRING = "expiring"
    """The library is asked for a time to live."""

    @property
    def redis_options(self) -> dict[str, str]:
        return REDIS_SHIPPED if self is Stage.SHIPPED else {}

    @property
    def faults(self) -> list[str]:
        """What must be possible to do to the servers."""
        return {Stage.PLAIN: ["connection_refused"], Stage.POWER: ["power_cut"]}.get(self, [])


OPERATION_SECONDS_MAX = 10.0
"""For one append or read, from the caller's side: longer than most clients wait by themselves."""
RECOVERY_SECONDS_MAX = 30.0
"""For a library to serve again after its server does."""
TTL_SECONDS = 4
TTL_EPSILON_SECONDS = 1.5
SKEW_SECONDS = 5
NAMESPACE = "analysis"
_POLL_SECONDS = 0.3


class CannotBeTriedError(Exception):
    """The trial cannot be made here; the text says why."""


class LibraryRig:
    """What a trial has in its hands."""

    def __init__(
        self,
        subject: Subject,
        deployment: Deployment,
        bed: Servers | None,
        contract: Contract,
        seed: int,
        *,
        deaths: Sequence[LifecycleEvent] = (),
    ) -> None:
        self.subject = subject
        self.deaths = deaths
        """Of the server, by itself: it grows as they happen."""
        self.deployment = deployment
        self.contract = contract
        self.faults = self._no_faults()
        """Of the trial in hand."""
        self._bed = bed
        self._seed = seed

    def _no_faults(self) -> FaultHistory:
        return FaultHistory({STORE: [self.subject.server or STORE]})

    @property
    def server(self) -> Server:
        if self._bed is None or self.subject.server is None:
            raise CannotBeTriedError("the library keeps its data in files of its own, and no server")
        return self._bed.nodes[self.subject.server]

    @property
    def proxy(self) -> Proxy:
        if self.server.proxy is None:
            raise CannotBeTriedError("there is no proxy before the server")
        return self.server.proxy

    @property
    def no_power_cuts(self) -> str | None:
        if self._bed is None or self.server.power is None:
            return self._bed.no_power_cuts if self._bed is not None else "there is no server"
        return None

    def conversation(self, name: str, texts: Sequence[str] = ()) -> CheckedConversation:
        """Begin a session; what is said in it follows from its name and the seed, unless texts are given."""
        rules = Rules(contract=self.contract, ttl_epsilon_us=int(TTL_EPSILON_SECONDS * 1e6))
        return CheckedConversation(name, PlainTexts(NAMESPACE, self._seed, texts), rules, self.faults)

    def store(self, number: int) -> HttpStore:
        return self.deployment.store(number)

    async def settle(self, conversations: Sequence[CheckedConversation]) -> list[str]:
        """Read everything to the end; returns what is worth a note: a library that did not come back by itself."""
        notes: list[str] = []
        # All once before any is final: what survived a fault elsewhere says what may be missing here.
        if not await self._read_all(conversations):
            notes.append(f"its processes did not answer within {RECOVERY_SECONDS_MAX:.0f} s and were started again")
            await self.deployment.kill()
            await self.deployment.restart()
            await self._read_all(conversations)
        self.faults.mark_swept(STORE)
        for number, talk in enumerate(conversations):
            await talk.settle(self.store(number))
        return notes

    async def _read_all(self, conversations: Sequence[CheckedConversation]) -> bool:
        until = time.monotonic() + RECOVERY_SECONDS_MAX
        left = list(enumerate(conversations))
        while left:
            unanswered = [(number, talk) for number, talk in left if not await talk.read(self.store(number))]
            # Where nothing was ever acknowledged, nothing is to be waited for.
            left = [(number, talk) for number, talk in unanswered if talk.outcomes[Outcome.OK]]
            if left and time.monotonic() > until:
                return False
            if left:
                await asyncio.sleep(_POLL_SECONDS)
        return True

    async def tidy(self) -> None:
        """Mend what a trial has broken, so that the next one begins as the first one did."""
        self.faults = self._no_faults()
        if self._bed is not None and self.subject.server is not None:
            await self.server.start_again()
            if self.server.proxy is not None:
                await self.server.proxy.heal()
        await self.deployment.restart()


@contextlib.asynccontextmanager
async def staged(
    subject: Subject, stage: Stage, setup: ServerSetup, interpreter: Path, folder: Path, seed: int
) -> AsyncIterator[LibraryRig]:
    """Set the stage; everything is ended and nothing is left when the trials are over."""
    environments = _environments(subject, stage)
    async with contextlib.AsyncExitStack() as undo:
        started: ScenarioServers | None = None
        servers: dict[str, str] = {}
        if subject.server is not None:
            options = {**setup.redis_options, **redis_options_of(subject, interpreter)}
            setup = msgspec.structs.replace(setup, redis_options=options)
            started = ScenarioServers(setup, folder / "bed", stage.faults)
            servers = await undo.enter_async_context(started.started([subject.server]))
        bed = None if started is None else started.bed
        contract = await _contract(subject, stage, bed)
        deployment = await undo.enter_async_context(
            deployed(
                subject,
                interpreter,
                folder,
                servers,
                namespace=NAMESPACE,
                timeout_seconds=OPERATION_SECONDS_MAX,
                ttl_seconds=TTL_SECONDS if stage is Stage.EXPIRING else None,
                environments=environments,
            )
        )
        yield LibraryRig(subject, deployment, bed, contract, seed, deaths=() if started is None else started.deaths)


async def _contract(subject: Subject, stage: Stage, bed: Servers | None) -> Contract:
    """Return what is promised: the library's own clauses, and of durability what the running server says it gives."""
    contract = subject.contract
    if stage is Stage.EXPIRING and contract.ttl_seconds is None:
        contract = msgspec.structs.replace(contract, ttl_seconds=float(TTL_SECONDS), expiry=Expiry.SLIDING)
    if bed is None or subject.server is None:
        return contract
    server = bed.nodes[subject.server]
    given = guarantees_of(await inspect(subject.server, server.own_url, timeout_seconds=OPERATION_SECONDS_MAX))
    return as_given(contract, given)


def _environments(subject: Subject, stage: Stage) -> list[Mapping[str, str]]:
    if stage is not Stage.SKEWED:
        return []
    library = ClockStep().library()
    if library is None:
        raise CannotBeTriedError("libfaketime is not installed; install it (apt install libfaketime)")
    behind = {
        "LD_PRELOAD": str(library),
        "FAKETIME": f"-{SKEW_SECONDS}s",
        # Only the wall clock is set: timers and sleeps go by the other one.
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    return [behind if number % 2 else {} for number in range(subject.processes)]
