"""One soak in one process: servers, ledger, the real verifier, participants, and the fault it is put through."""

from __future__ import annotations

import asyncio
import contextlib
import enum
import itertools
import secrets
import time
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path

import msgspec

from soak.checker.contract import Contract
from soak.clock import now_us
from soak.daemon.contracts import ask_servers, given_by, settle_contracts
from soak.errors import SoakError
from soak.faults import catalogue as faults
from soak.faults.window import Injected, during
from soak.flaws.flaw import Disturbance, Flaw, FlawSetup, Load
from soak.flaws.served import SERVICES
from soak.join import JoinInfo
from soak.ledger.records import FORMAT_VERSION, EndOfLoad, RunHeader
from soak.ledger.run import RunJournal, create_run
from soak.scenarios.selftest.load import AckTimes, InProcessLoad
from soak.scenarios.selftest.observation import StoreObservation, look, read_stories
from soak.scenarios.servers import ScenarioServers, ServerSetup
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


class SoakPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What one soak is made of. The stores share the servers and the fault."""

    stores: tuple[str, ...]
    setup: FlawSetup
    """Its server options and its fault count; its store is one of the stores."""
    load: Load
    patience_seconds: float
    """The soak ends after so long, whatever has been seen until then."""
    pace: Pace = Pace.QUICK


class SoakRig:
    """A soak under way."""

    def __init__(self, plan: SoakPlan, folder: Path) -> None:
        self._plan = plan
        self._folder = folder
        self._acknowledged: AckTimes = {}
        self._fault: Injected | None = None
        disturbance = plan.setup.disturbance
        self._service = _service(plan.setup)
        self._servers = ScenarioServers(
            ServerSetup(redis_options=plan.setup.redis_options, postgres_options=plan.setup.postgres_options),
            folder,
            [] if disturbance is None else [disturbance.fault],
            None if self._service is None else program_of(self._service, lambda _text: None),
        )

    async def soak(self, is_enough: Callable[[dict[str, StoreObservation]], bool]) -> dict[str, StoreObservation]:
        """Soak until it is enough, or nothing more is to be expected; returns what was seen of each store."""
        async with self._begun() as info, self._verifying(info) as verifier:
            journal = await RunJournal.connect(info.ledger_url, info.header.run)
            try:
                await self._load(info, verifier, journal, is_enough)
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
        needs = {store: [*registry.find(store).needs, *behind] for store in self._plan.stores}
        kinds = {"ledger", *itertools.chain.from_iterable(needs.values())}
        async with self._servers.started(kinds) as urls:
            ledger_url = urls.pop("ledger")
            yield await _begin_run(needs, urls, ledger_url, derives=self._plan.setup.derives_contract)

    @contextlib.asynccontextmanager
    async def _verifying(self, info: JoinInfo) -> AsyncIterator[_Verifying]:
        verifier = Verifier(info, SoakSettings(verifier=self._plan.pace.settings), self._folder / "verifier")
        try:
            await verifier.prepare()
            task = asyncio.create_task(verifier.run("127.0.0.1", 0, heeds_signals=False))
            try:
                yield _Verifying(verifier, task, self._plan.pace.verdict_seconds_max)
            finally:
                await end_tasks([task])
        finally:
            await verifier.close()

    async def _load(
        self,
        info: JoinInfo,
        verifier: _Verifying,
        journal: RunJournal,
        is_enough: Callable[[dict[str, StoreObservation]], bool],
    ) -> None:
        disturbance = self._plan.setup.disturbance
        crowds = [
            await InProcessLoad.gather(info, self._plan.load, self._acknowledged)
            for _ in range(self._plan.load.tenants)
        ]
        try:
            for crowd in crowds:
                crowd.begin()
            if disturbance is not None:
                await self._disturb(disturbance, journal)
            await self._until(verifier, is_enough, crowds)
        finally:
            for crowd in crowds:
                await crowd.leave()

    async def _disturb(self, disturbance: Disturbance, journal: RunJournal) -> None:
        fault = faults.ALL.get(disturbance.fault)
        if fault is None:
            raise SoakError(f"there is no fault {disturbance.fault}; the trial cannot be made")
        await asyncio.sleep(disturbance.after_seconds)
        self._fault = await during(fault, self._servers.bed, disturbance.target, journal, disturbance.hold_seconds)

    async def _until(
        self,
        verifier: _Verifying,
        is_enough: Callable[[dict[str, StoreObservation]], bool],
        crowds: list[InProcessLoad],
    ) -> None:
        begun = time.monotonic()
        wait = AFTER_FAULT_SECONDS_MIN if self._fault is not None else SOAK_SECONDS_MIN
        while time.monotonic() < begun + self._plan.patience_seconds:
            for crowd in crowds:
                crowd.check()
            verifier.check()
            for event in self._servers.deaths:
                raise SoakError(f"the {event.kind} server of the trial has died by itself ({event.detail})")
            if time.monotonic() > begun + wait and is_enough(self._seen(verifier)):
                return
            await asyncio.sleep(_POLL_SECONDS)

    def _seen(self, verifier: _Verifying) -> dict[str, StoreObservation]:
        return {store: look(verifier.verifier.state, store) for store in self._plan.stores}


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


def _service(setup: FlawSetup) -> Subject | None:
    return read_script(SERVICES / f"{setup.service}.py")[0] if setup.service else None


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
