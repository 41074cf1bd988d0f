"""One soak of the selftest: servers, ledger, the real verifier, participants and a fault, all in one process."""

from __future__ import annotations

import asyncio
import contextlib
import enum
import itertools
import secrets
import time
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

import msgspec

from soak.checker.contract import Contract
from soak.checker.patterns import SHOWN_BY_MIN
from soak.clock import now_us
from soak.daemon.contracts import ask_servers, given_by, settle_contracts
from soak.errors import SoakError
from soak.faults import catalogue as faults
from soak.faults.window import Injected, during
from soak.flaws.flaw import Flaw, Load
from soak.flaws.served import SERVICES
from soak.join import JoinInfo
from soak.ledger.records import FORMAT_VERSION, EndOfLoad, RunHeader
from soak.ledger.run import RunJournal, create_run
from soak.scenarios.scenario import Scenario, ScenarioFault, ServerSetup
from soak.scenarios.selftest.load import AckTimes, InProcessLoad
from soak.scenarios.selftest.observation import VERIFIED_MIN, StoreObservation, look, read_stories
from soak.scenarios.servers import ScenarioServers
from soak.settings import ContractSettings, SoakSettings, VerifierSettings
from soak.stores import registry
from soak.stores.protocol import StoreContext
from soak.subjects.description import Subject, read_script
from soak.subjects.process import program_of
from soak.tasks import end_tasks
from soak.verifier.process import Verifier

QUICK_SETTINGS = VerifierSettings(
    settle=0.5,
    hot_interval=0.2,
    coverage=1.0,
    checkpoint=1.0,
    recall_ages=[1.0, 3.0, 6.0],
    ttl_epsilon=0.5,
    drain=20.0,
    evidence_max=100,
    canary=0.0,
)
"""The verifier as it is, looking more often than in a soak of hours."""

AS_SHIPPED_PATIENCE_SECONDS = 150.0
"""A session is read whole every minute, and what it lacks is confirmed by a second read."""
VERDICT_SLACK_SECONDS = 40.0
TRIAL_SECONDS_MAX = 180.0
AS_SHIPPED_TRIAL_SECONDS_MAX = 600.0


class Pace(enum.Enum):
    """Which settings of the verifier a trial is made with."""

    QUICK = "quick"
    AS_SHIPPED = "as-shipped"

    @property
    def settings(self) -> VerifierSettings:
        return QUICK_SETTINGS if self is Pace.QUICK else VerifierSettings()

    @property
    def verdict_seconds_max(self) -> float:
        """How long the verifier may take for its verdict once the load has ended."""
        return self.settings.drain + VERDICT_SLACK_SECONDS

    @property
    def trial_seconds_max(self) -> float:
        return TRIAL_SECONDS_MAX if self is Pace.QUICK else AS_SHIPPED_TRIAL_SECONDS_MAX

    def patience_seconds(self, flaw: Flaw) -> float:
        """How long a flaw may take to show itself."""
        if self is Pace.QUICK:
            return flaw.patience_seconds
        return max(flaw.patience_seconds, AS_SHIPPED_PATIENCE_SECONDS)


OPERATION_SECONDS_MAX = 2.0
CONNECTIONS_MAX = 16
SOAK_SECONDS_MIN = 2.0
"""A twin that was hardly tried proves nothing."""
AFTER_FAULT_SECONDS_MIN = 1.0
_POLL_SECONDS = 0.05


class SoakResult(msgspec.Struct, frozen=True, kw_only=True):
    """What the verifier found in each store of one soak."""

    seen: dict[str, StoreObservation] = {}
    not_made: str = ""
    """Why there was no soak."""
    seconds: float = 0.0

    @property
    def outcome(self) -> str:
        if self.not_made:
            return f"not made: {self.not_made}"
        return f"{', '.join(one.words for one in self.seen.values())} ({self.seconds:.0f} s)"


class SoakScenario(Scenario[Load, Flaw | None, SoakResult], frozen=True, kw_only=True):
    """One soak. The flaw it expects is in the first of its stores; the others, or all, are right and stay silent."""

    result = SoakResult

    patience_seconds: float
    """The soak ends after so long, whatever has been seen until then."""
    derives_contract: bool = False
    pace: Pace = Pace.QUICK

    async def run(self, folder: Path) -> SoakResult:
        return SoakResult(seen=await _Soak(self, folder).run())

    def not_made(self, reason: str, *, is_unreachable: bool = False) -> SoakResult:  # noqa: ARG002
        return SoakResult(not_made=reason)

    def is_enough(self, seen: dict[str, StoreObservation]) -> bool:
        """Whether the flaw has shown itself, and the right stores were used enough to say that they are."""
        for number, one in enumerate(seen.values()):
            flaw = None if number else self.expectation
            if not (one.verified >= 2 * VERIFIED_MIN if flaw is None else is_found(flaw, one)):
                return False
        return True


def is_found(flaw: Flaw, seen: StoreObservation) -> bool:
    kinds = {kind.value for kind in flaw.kinds}
    healed = not flaw.heals or any(seen.healed.get(kind) for kind in kinds)
    # What all of them have in common is said of several only.
    enough = SHOWN_BY_MIN if flaw.says else 1
    return healed and sum(seen.violations.get(kind, 0) for kind in kinds) >= enough


class _Soak:
    """A soak under way."""

    def __init__(self, scenario: SoakScenario, folder: Path) -> None:
        self._scenario = scenario
        self._folder = folder
        self._acknowledged: AckTimes = {}
        self._fault: Injected | None = None
        self._service = _service(scenario.servers)
        self._servers = ScenarioServers(
            scenario.servers,
            folder,
            [] if scenario.fault is None else [scenario.fault.fault],
            None if self._service is None else program_of(self._service, lambda _text: None),
        )

    async def run(self) -> dict[str, StoreObservation]:
        """Soak until it is enough, or nothing more is to be expected; returns what was seen of each store."""
        async with self._begun() as info, self._verifying(info) as verifier:
            journal = await RunJournal.connect(info.ledger_url, info.header.run)
            try:
                await self._load(info, verifier, journal)
                await journal.end_of_load(EndOfLoad(at=now_us(), reason="enough was seen"))
                await verifier.verdict()
            finally:
                await journal.close()
            folder = self._folder / "verifier"
            return {
                store: read_stories(seen, folder, self._acknowledged, self._fault)
                for store, seen in self._seen(verifier).items()
            }

    @contextlib.asynccontextmanager
    async def _begun(self) -> AsyncIterator[JoinInfo]:
        behind = () if self._service is None else self._service.needs
        needs = {store: [*registry.find(store).needs, *behind] for store in self._scenario.stores}
        kinds = {"ledger", *itertools.chain.from_iterable(needs.values())}
        async with self._servers.started(kinds) as urls:
            ledger_url = urls.pop("ledger")
            yield await _begin_run(needs, urls, ledger_url, derives=self._scenario.derives_contract)

    @contextlib.asynccontextmanager
    async def _verifying(self, info: JoinInfo) -> AsyncIterator[_Verifying]:
        verifier = Verifier(info, SoakSettings(verifier=self._scenario.pace.settings), self._folder / "verifier")
        try:
            await verifier.prepare()
            task = asyncio.create_task(verifier.run("127.0.0.1", 0, heeds_signals=False))
            try:
                yield _Verifying(verifier, task, self._scenario.pace.verdict_seconds_max)
            finally:
                await end_tasks([task])
        finally:
            await verifier.close()

    async def _load(self, info: JoinInfo, verifier: _Verifying, journal: RunJournal) -> None:
        loads = [
            await InProcessLoad.gather(info, self._scenario.load, self._acknowledged)
            for _ in range(self._scenario.load.tenants)
        ]
        try:
            for load in loads:
                load.begin()
            if self._scenario.fault is not None:
                await self._inject(self._scenario.fault, journal)
            await self._until_enough(verifier, loads)
        finally:
            for load in loads:
                await load.leave()

    async def _inject(self, planned: ScenarioFault, journal: RunJournal) -> None:
        fault = faults.fault_named(planned.fault, planned.parameters)
        await asyncio.sleep(planned.after_seconds)
        self._fault = await during(fault, self._servers.bed, planned.target, journal, planned.hold_seconds)

    async def _until_enough(self, verifier: _Verifying, loads: list[InProcessLoad]) -> None:
        begun = time.monotonic()
        wait = AFTER_FAULT_SECONDS_MIN if self._fault is not None else SOAK_SECONDS_MIN
        while time.monotonic() < begun + self._scenario.patience_seconds:
            for load in loads:
                load.check()
            verifier.check()
            for event in self._servers.deaths:
                raise SoakError(f"the {event.kind} server of the trial has died by itself ({event.detail})")
            if time.monotonic() > begun + wait and self._scenario.is_enough(self._seen(verifier)):
                return
            await asyncio.sleep(_POLL_SECONDS)

    def _seen(self, verifier: _Verifying) -> dict[str, StoreObservation]:
        return {store: look(verifier.verifier.state, store) for store in self._scenario.stores}


class _Verifying:
    """The verifier as a task."""

    def __init__(self, verifier: Verifier, task: asyncio.Task[object], verdict_seconds_max: float) -> None:
        self.verifier = verifier
        self._task = task
        self._verdict_seconds_max = verdict_seconds_max

    def check(self) -> None:
        if self._task.done():
            self._task.result()
            raise SoakError("the verifier has ended before the load; the trial proves nothing")

    async def verdict(self) -> None:
        try:
            async with asyncio.timeout(self._verdict_seconds_max):
                await self._task
        except TimeoutError:
            raise SoakError(f"the verifier gave no verdict within {self._verdict_seconds_max:.0f} s") from None


def _service(servers: ServerSetup) -> Subject | None:
    return read_script(SERVICES / f"{servers.service}.py")[0] if servers.service else None


async def _begin_run(
    needs: dict[str, list[str]], servers: dict[str, str], ledger_url: str, *, derives: bool
) -> JoinInfo:
    run = "r" + secrets.token_hex(4)
    context = StoreContext(
        servers=servers,
        namespace=f"selftest_{run}",
        timeout_seconds=OPERATION_SECONDS_MAX,
        connections_max=CONNECTIONS_MAX,
    )
    header = RunHeader(
        version=FORMAT_VERSION,
        run=run,
        seed=secrets.randbits(63),
        namespace=context.namespace,
        stores=list(needs),
        contracts=await contracts_of(needs, context, derives=derives),
        needs=needs,
        started_wall_seconds=time.time(),
    )
    await create_run(ledger_url, header)
    return JoinInfo(
        header=header,
        ledger_url=ledger_url,
        servers=servers,
        timeout_seconds=OPERATION_SECONDS_MAX,
        connections_max=CONNECTIONS_MAX,
        ttl_seconds=None,
    )


async def contracts_of(stores: Iterable[str], context: StoreContext, *, derives: bool) -> dict[str, Contract]:
    """Return what each store is held to: what it declares, or what follows from its server, down to the floor."""
    specs = [registry.find(store) for store in stores]
    given = given_by(await ask_servers(context.servers)) if derives else {}
    return {one.store: one.contract for one in settle_contracts(specs, context, ContractSettings(), given)}
