"""The faults of a run: what is possible here, and when the breaking begins."""

from __future__ import annotations

import time
from collections.abc import Callable

from soak.daemon.by_hand import FaultsPage
from soak.daemon.conductor import Conductor
from soak.daemon.fault_plan import FaultPlan, plan_faults, what_is_possible
from soak.daemon.run_identity import RunIdentity
from soak.faults.schedule import Schedule
from soak.ledger.run import RunJournal
from soak.servers.servers import Servers
from soak.settings import FaultSettings


class FaultController:
    """Plans the faults when the servers are there, and hands them to a conductor when the load is."""

    def __init__(
        self,
        settings: FaultSettings,
        beginning: RunIdentity,
        testbed: Servers,
        page: FaultsPage,
        say: Callable[[str], None],
    ) -> None:
        self.conductor: Conductor | None = None
        self.plan: FaultPlan | None = None
        self._settings = settings
        self._beginning = beginning
        self._testbed = testbed
        self._page = page
        self._say = say

    def prepare(self) -> None:
        """Say what is planned, and what can be asked for by hand."""
        possible = what_is_possible(self._testbed, self._beginning.plan)
        self.plan = plan_faults(self._settings, possible, self._beginning.plan.embedded)
        self._page.possible = possible
        if self._settings.allow_by_hand == "simple":
            self._page.hint = " (faults.allow_by_hand = all starts servers with all that faults need)"
        for line in self.plan.lines:
            self._say(line)

    def begin(
        self, journal: RunJournal, *, on_problem: Callable[[str], None], abort: Callable[[str], None]
    ) -> Conductor | None:
        """Begin to break servers as asked by hand; what is scheduled waits for `follow`."""
        if self.plan is None:
            return None
        self.conductor = Conductor(
            self._testbed,
            journal,
            self.plan.limits,
            recovery_max_seconds=self._settings.recovery_max,
            say=self._say,
            on_problem=on_problem,
            abort=abort,
        )
        if self._settings.allow_by_hand == "none":
            self._page.refusal = "faults by hand are switched off (faults.allow_by_hand = none)"
        else:
            self._page.hand = self.conductor
        return self.conductor

    async def follow(self) -> None:
        """Carry out the schedule, from where the run was when it was last heard of."""
        if self.plan is None or self.conductor is None:
            return
        since = self._beginning.active_seconds
        schedule = Schedule(
            self.plan.rules,
            self.plan.limits,
            seed=self._beginning.seed if self._settings.seed is None else self._settings.seed,
            began_wall_seconds=time.time() - since,
            since_seconds=since,
        )
        await self.conductor.follow(schedule, since)

    async def finish(self) -> None:
        if self.conductor is not None:
            await self.conductor.finish()
