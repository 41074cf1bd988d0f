"""A library on a stage: servers of its own, its processes, and sessions to try it with."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

import msgspec

from soak.analysis.authors import PlainSpeaker, Reciter
from soak.analysis.stage import Stage
from soak.analysis.talk import STORE, Talk
from soak.checker.contract import Contract, Expiry
from soak.checker.faults import FaultHistory
from soak.checker.outcome import Outcome
from soak.checker.read import Rules
from soak.contracts.guarantees import guarantees_of
from soak.faults.clock_step import ClockStep
from soak.servers.inspect import inspect
from soak.servers.local import LocalServers
from soak.servers.proxy import Proxy
from soak.servers.server import Server, ServerEvent
from soak.stores.http import HttpStore
from soak.subjects.deployment import Deployment, deployed
from soak.subjects.description import Subject
from soak.subjects.environment import server_module_of

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


class Rig:
    """What a trial has in its hands."""

    def __init__(
        self,
        subject: Subject,
        deployment: Deployment,
        bed: LocalServers | None,
        contract: Contract,
        seed: int,
        *,
        deaths: Sequence[ServerEvent] = (),
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

    def talk(self, session: str, texts: Sequence[str] | None = None) -> Talk:
        """Begin a session; what is said in it follows from its name and the seed, unless texts are given."""
        author = PlainSpeaker(NAMESPACE, self._seed) if texts is None else Reciter(NAMESPACE, self._seed, texts)
        rules = Rules(contract=self.contract, ttl_epsilon_us=int(TTL_EPSILON_SECONDS * 1e6))
        return Talk(session, author, rules, self.faults)

    def store(self, number: int) -> HttpStore:
        return self.deployment.store(number)

    async def settle(self, talks: Sequence[Talk]) -> list[str]:
        """Read everything to the end; returns what is worth a note: a library that did not come back by itself."""
        notes: list[str] = []
        # All once before any is final: what survived a fault elsewhere says what may be missing here.
        if not await self._read_all(talks):
            notes.append(f"its processes did not answer within {RECOVERY_SECONDS_MAX:.0f} s and were started again")
            await self.deployment.kill()
            await self.deployment.restart()
            await self._read_all(talks)
        self.faults.mark_swept(STORE)
        for number, talk in enumerate(talks):
            await talk.settle(self.store(number))
        return notes

    async def _read_all(self, talks: Sequence[Talk]) -> bool:
        until = time.monotonic() + RECOVERY_SECONDS_MAX
        left = list(enumerate(talks))
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
async def staged(subject: Subject, stage: Stage, interpreter: Path, folder: Path, seed: int) -> AsyncIterator[Rig]:
    """Set the stage; everything is ended and nothing is left when the trials are over."""
    events: list[ServerEvent] = []
    environments = _environments(subject, stage)
    async with contextlib.AsyncExitStack() as undo:
        bed: LocalServers | None = None
        servers: dict[str, str] = {}
        if subject.server is not None:
            module = server_module_of(subject, interpreter)
            bed = LocalServers(
                folder / "bed",
                redis_options={**stage.redis_options, **({"loadmodule": f'"{module}"'} if module else {})},
                proxied=stage is Stage.PLAIN,
                power_cuts=stage is Stage.POWER,
                on_event=events.append,
            )
            undo.push_async_callback(bed.stop)
            servers = await bed.start([subject.server])
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
        yield Rig(subject, deployment, bed, contract, seed, deaths=events)


async def _contract(subject: Subject, stage: Stage, bed: LocalServers | None) -> Contract:
    """Return what is promised: the library's own clauses, and of durability what the running server says it gives."""
    contract = subject.contract
    if stage is Stage.EXPIRING and contract.ttl_seconds is None:
        contract = msgspec.structs.replace(contract, ttl_seconds=float(TTL_SECONDS), expiry=Expiry.SLIDING)
    if bed is None or subject.server is None:
        return contract
    server = bed.nodes[subject.server]
    given = guarantees_of(await inspect(subject.server, server.own_url, timeout_seconds=OPERATION_SECONDS_MAX))
    return msgspec.structs.replace(
        contract,
        crash_loss_seconds=given.crash.seconds,
        power_loss_seconds=given.power.seconds,
        failover_loss_seconds=given.crash.seconds,
    )


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
