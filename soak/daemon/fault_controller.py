"""The faults of a run: which are possible on its servers, the rules that follow from the settings, and their start."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial

import msgspec

from soak import cron, quiet_hours
from soak.daemon.conductor import Conductor
from soak.daemon.fault_routes import FaultRoutes
from soak.daemon.plan import LEDGER, RunPlan, setting_of
from soak.daemon.run_identity import RunIdentity
from soak.duration import format_seconds
from soak.errors import UsageError
from soak.faults.catalogue import ALL, current_name, fault_named
from soak.faults.fault import NetworkFault
from soak.faults.on_disk import DiskFault
from soak.faults.power_cut import PowerCut
from soak.faults.presets import Possible, Preset, PresetRules, rules_of, why_nothing
from soak.faults.schedule import Limits, Rule, Schedule, busy_share, healthy_seconds
from soak.ledger.run import RunJournal
from soak.servers.kinds import KINDS
from soak.servers.servers import Servers
from soak.settings import FaultRule, FaultSettings
from soak.suggestion import did_you_mean


class FaultPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of a run, and what a person should know of them."""

    rules: tuple[Rule, ...]
    limits: Limits
    lines: tuple[str, ...]


def needs_proxies(settings: FaultSettings) -> bool:
    """Whether a fault of the network can be asked for, which needs a proxy before each server."""
    return _asks_for(settings, (NetworkFault,))


def needs_power_cuts(settings: FaultSettings) -> bool:
    """Whether a fault can be asked for that needs a shim between a server and its disk."""
    return _asks_for(settings, (PowerCut, DiskFault))


def _asks_for(settings: FaultSettings, kinds: tuple[type, ...]) -> bool:
    if settings.allow_by_hand == "all" or Preset(settings.preset) is Preset.CHAOS:
        return True
    return any(isinstance(ALL.get(name), kinds) for rule in settings.rules for name in _weights(rule))


def check_named(settings: FaultSettings, plan: RunPlan, allowed: Collection[str]) -> None:
    """Refuse rules that no server of this run can follow, or that break a given one with a fault that is not allowed.

    Raises `UsageError` before any server is started.
    """
    for number, name, target in _named(settings):
        where = f"faults.rules.{number}"
        try:
            fault_named(name, settings.rules[number].parameters)
        except UsageError as error:
            raise UsageError(f"{where}: {error}") from None
        if target in plan.given and name not in set(map(current_name, allowed)):
            raise UsageError(
                f"{where}: {target} is a server of yours ({setting_of(target)}), so others may be using it; "
                f"to allow it: --set testbed.allow_faults={name}"
            )
        if target == LEDGER or target not in (*plan.embedded, *plan.given):
            servers = [kind for kind in (*plan.embedded, *plan.given) if kind != LEDGER]
            started = f"started are: {', '.join(servers) or 'none'}"
            # A name that is right is meant, whatever it looks like.
            hint = started if target in KINDS else did_you_mean(target, servers, started)
            raise UsageError(f"{where}: there is no server {target} in this run; {hint}")
        if target not in ALL[name].targets:
            raise UsageError(f"{where}: {name} can happen to {' or '.join(ALL[name].targets)}, not to {target}")


def what_is_possible(bed: Servers, plan: RunPlan) -> Possible:
    """Return for each server under test and each fault that could happen to it why it cannot, or None."""
    targets = [kind for kind in (*plan.embedded, *plan.given) if kind != LEDGER]
    return {
        target: {name: fault.unavailable(bed, target) for name, fault in ALL.items() if target in fault.targets}
        for target in targets
    }


def plan_faults(settings: FaultSettings, possible: Possible, embedded: Collection[str] = ()) -> FaultPlan:
    """Make the rules; raises `UsageError` for one that names what is not possible here."""
    for number, name, target in _named(settings):
        if (reason := possible[target][name]) is not None:
            raise UsageError(f"faults.rules.{number}: {name} cannot be injected: {reason}")
    preset = Preset(settings.preset)
    if preset is Preset.AUTO:
        started = {} if settings.rules else {kind: faults for kind, faults in possible.items() if kind in embedded}
        by_name = rules_of(preset, started, settings.every)
        if not by_name.rules and not settings.rules:
            lines = ["no faults: servers of yours are broken only with a fault that testbed.allow_faults names"]
            by_name = PresetRules(rules=(), left_out=tuple(lines))
    else:
        by_name = rules_of(preset, possible, settings.every)
    if preset not in {Preset.NONE, Preset.AUTO} and not by_name.rules:
        raise UsageError(f"the preset {preset} has nothing that is possible here: {why_nothing(preset, possible)}")
    rules = (*by_name.rules, *map(_rule, settings.rules))
    limits = Limits(
        quiet_hours=tuple(map(quiet_hours.parse, settings.quiet_hours)),
        concurrent_max=settings.concurrent_max,
        healthy_min_seconds=healthy_seconds(rules) if settings.healthy_min is None else settings.healthy_min,
    )
    return FaultPlan(
        rules=rules,
        limits=limits,
        lines=(*by_name.left_out, *_too_many(rules, limits, is_set=settings.healthy_min is not None)),
    )


def _too_many(rules: Sequence[Rule], limits: Limits, *, is_set: bool) -> list[str]:
    """Say before the run that its schedule cannot be kept; `is_set`: the time before each fault is a setting."""
    share = busy_share(rules, limits)
    if share <= 1.0:
        return []
    between, shorter = format_seconds(limits.healthy_min_seconds), "faults.healthy_min" if is_set else "hold"
    line = (
        f"warning: the schedule cannot be kept: its faults, with {between} without a fault before each "
        f"(faults.healthy_min), need {share:.1f} times the time there is; about {1 - 1 / share:.0%} of them will be "
        f"skipped; make 'every' longer, or {shorter} shorter"
    )
    return [line]


def ends_before_its_faults(schedule: Callable[[float], Schedule], until_seconds: float) -> list[str]:
    """Say before the run that it is over before the first fault of its schedule; `schedule` makes one with an end."""
    if next(schedule(until_seconds).actions(), None) is not None:
        return []
    line = f"warning: no fault will happen: the run ends after {format_seconds(until_seconds)}"
    first = next(schedule(math.inf).actions(), None)
    if first is None:
        return [f"{line}, and its schedule has none"]
    due = f"the first is due after {format_seconds(first.offset_seconds)}"
    return [f"{line}, {due}; give a longer --duration, or let faults happen more often (--fault-every, every=)"]


def _rule(rule: FaultRule) -> Rule:
    return Rule(
        faults=tuple(_weights(rule).items()),
        target=rule.target,
        every_seconds=rule.every,
        cron=None if rule.cron is None else cron.parse(rule.cron),
        jitter_seconds=rule.jitter,
        hold_seconds=rule.hold,
        parameters=rule.parameters,
    )


def _weights(rule: FaultRule) -> Mapping[str, float]:
    weights = rule.faults if rule.faults is not None else {str(rule.fault): 1.0}
    return {current_name(name): weight for name, weight in weights.items()}


def _named(settings: FaultSettings) -> Iterator[tuple[int, str, str]]:
    for number, rule in enumerate(settings.rules):
        for name in _weights(rule):
            yield number, name, rule.target


class FaultController:
    """Plans the faults when the servers are there, and hands them to a conductor when the load is."""

    def __init__(
        self,
        settings: FaultSettings,
        beginning: RunIdentity,
        testbed: Servers,
        page: FaultRoutes,
        say: Callable[[str], None],
        duration_seconds: float | None = None,
    ) -> None:
        self.conductor: Conductor | None = None
        self.plan: FaultPlan | None = None
        self._settings = settings
        self._beginning = beginning
        self._testbed = testbed
        self._page = page
        self._say = say
        self._until = math.inf if duration_seconds is None else duration_seconds

    def claim_load_end(self) -> str:
        """Return the fault that has ended a process of the load, once for each fault; empty: none has."""
        return "" if self.conductor is None else self.conductor.claim_load_end()

    def prepare(self) -> None:
        """Say what is planned, and what can be asked for by hand."""
        possible = what_is_possible(self._testbed, self._beginning.plan)
        self.plan = plan_faults(self._settings, possible, self._beginning.plan.embedded)
        self._page.possible = possible
        if self._settings.allow_by_hand == "simple":
            self._page.hint = " (faults.allow_by_hand = all starts servers with all that faults need)"
        late = ends_before_its_faults(partial(self._schedule, self.plan), self._until) if self.plan.rules else []
        for line in (*self.plan.lines, *late):
            self._say(line)

    def _schedule(self, plan: FaultPlan, until_seconds: float) -> Schedule:
        since = self._beginning.active_seconds
        return Schedule(
            plan.rules,
            plan.limits,
            seed=self._beginning.seed if self._settings.seed is None else self._settings.seed,
            began_wall_seconds=time.time() - since,
            since_seconds=since,
            until_seconds=until_seconds,
        )

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
        await self.conductor.follow(self._schedule(self.plan, self._until), self._beginning.active_seconds)

    async def finish(self) -> None:
        if self.conductor is not None:
            await self.conductor.finish()
