"""One trial: a flaw and its correct twin are soaked, and what was found is compared with what is true."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec

from soak.checker.patterns import SHOWN_BY_MIN
from soak.checker.verdict import Verdict
from soak.flaws import catalogue
from soak.flaws.flaw import PATIENCE_SECONDS, Flaw, FlawSetup, WrongFrom
from soak.scenarios.runner import ScenarioKind, run_all
from soak.scenarios.selftest.observation import VERIFIED_MIN, EvidenceSummary, StoreObservation
from soak.scenarios.selftest.rig import Pace, SoakPlan, SoakRig
from soak.scenarios.terminal import ScenarioProgress
from soak.servers.kinds import POSTGRES_REPLICA


class FlawTrial(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one trial."""

    flaw: str
    expected_kinds: list[str]
    expected_causes: list[str]
    found_kinds: dict[str, int] = {}
    """How many violations of each kind were found, the most frequent first."""
    cause: str = ""
    """The probable cause named most often."""
    seconds_to_detect: float | None = None
    affected: int = 0
    """Violations of an expected kind."""
    twin_verdict: str = ""
    twin_verified: int = 0
    twin_shadowed_reads: int = 0
    """Messages that a replica of the twin showed late because of the fault: tolerated, and counted."""
    twin_shadowed_lag_seconds_max: float = 0.0
    example: str = ""
    """The first message that was reported as an expected kind."""
    failures: list[str] = []
    """Why the trial is lost; empty: the flaw was found and its twin was left alone."""
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        return not self.failures

    @property
    def outcome(self) -> str:
        found = f"found as {next(iter(self.found_kinds), '-')}" if self.passed else "; ".join(self.failures)
        return f"{found} ({self.seconds:.0f} s)"


def not_made(flaw: Flaw, reason: str) -> FlawTrial:
    """Return the result of a trial that did not take place: it proves nothing, and so it is lost."""
    return FlawTrial(
        flaw=flaw.name,
        expected_kinds=sorted(kind.value for kind in flaw.kinds),
        expected_causes=sorted(cause.value for cause in flaw.causes),
        failures=[f"the trial could not be made: {reason}"],
    )


async def make_trial(flaw: Flaw, folder: Path, pace: Pace = Pace.QUICK) -> FlawTrial:
    """Soak the flaw and its twin: in one rig where only the stores differ, else in two, one after the other."""
    if flaw.wrong.can_share_a_server_with(flaw.right):
        plan = _plan(flaw, flaw.wrong, (flaw.wrong.store, flaw.right.store), pace)
        seen = await SoakRig(plan, folder).soak(
            lambda now: _is_found(flaw, now[flaw.wrong.store]) and _is_tried(now[flaw.right.store])
        )
        return judge(flaw, seen[flaw.wrong.store], seen[flaw.right.store])
    alone = _plan(flaw, flaw.wrong, (flaw.wrong.store,), pace)
    wrong = await SoakRig(alone, folder / "wrong").soak(lambda now: _is_found(flaw, now[flaw.wrong.store]))
    alone = _plan(flaw, flaw.right, (flaw.right.store,), pace)
    right = await SoakRig(alone, folder / "right").soak(lambda now: _is_tried(now[flaw.right.store]))
    return judge(flaw, wrong[flaw.wrong.store], right[flaw.right.store])


def _plan(flaw: Flaw, setup: FlawSetup, stores: tuple[str, ...], pace: Pace) -> SoakPlan:
    return SoakPlan(stores=stores, setup=setup, load=flaw.load, patience_seconds=pace.patience_seconds(flaw), pace=pace)


def _is_found(flaw: Flaw, seen: StoreObservation) -> bool:
    kinds = {kind.value for kind in flaw.kinds}
    healed = not flaw.heals or any(seen.healed.get(kind) for kind in kinds)
    # What all of them have in common is said of several only.
    enough = SHOWN_BY_MIN if flaw.says else 1
    return healed and sum(seen.violations.get(kind, 0) for kind in kinds) >= enough


def _is_tried(seen: StoreObservation) -> bool:
    return seen.verified >= 2 * VERIFIED_MIN


def judge(flaw: Flaw, wrong: StoreObservation, right: StoreObservation) -> FlawTrial:
    """Compare what was found with what is true. Pure."""
    kinds = {kind.value for kind in flaw.kinds}
    causes = {cause.value for cause in flaw.causes}
    relevant = [one for one in wrong.evidence if one.kind in kinds]
    named = Counter[str]()
    for one in relevant:
        named[one.cause] += one.count
    cause = named.most_common(1)[0][0] if named else ""
    affected = sum(count for kind, count in wrong.violations.items() if kind in kinds)
    return FlawTrial(
        flaw=flaw.name,
        expected_kinds=sorted(kinds),
        expected_causes=sorted(causes),
        found_kinds=dict(Counter(wrong.violations).most_common()),
        cause=cause,
        seconds_to_detect=_seconds_to_detect(flaw, wrong, relevant),
        affected=affected,
        twin_verdict=right.verdict,
        twin_verified=right.verified,
        twin_shadowed_reads=right.shadowed_reads,
        twin_shadowed_lag_seconds_max=right.shadowed_lag_seconds_max,
        example=relevant[0].message if relevant else "",
        failures=[*_misses(flaw, wrong, affected, cause), *_false_alarms(right)],
    )


def _misses(flaw: Flaw, wrong: StoreObservation, affected: int, cause: str) -> list[str]:
    total = sum(wrong.violations.values())
    if not total:
        return [f"not found: {wrong.verified} messages were verified, and nothing was said"]
    found = ", ".join(f"{count} {kind}" for kind, count in Counter(wrong.violations).most_common())
    expected = " or ".join(sorted(kind.value for kind in flaw.kinds))
    failures = []
    if not affected:
        failures.append(f"found as another kind ({found}), not as {expected}")
    elif affected * 2 < total:
        failures.append(f"found mostly as another kind ({found}), not as {expected}")
    if affected and cause not in {one.value for one in flaw.causes}:
        causes = " or ".join(sorted(one.value for one in flaw.causes))
        failures.append(f"the cause was said to be {cause!r}, it is {causes}")
    if affected and flaw.heals and not any(wrong.healed.get(kind.value) for kind in flaw.kinds):
        failures.append("that it came back was not noticed")
    if affected:
        failures += [f"{text!r} was not said of it" for text in flaw.says if not _is_said(text, wrong, flaw)]
    if unfounded := [fact for one in wrong.evidence for fact in one.unfounded]:
        failures.append(f"{len(unfounded)} facts were stated that its evidence does not support: {unfounded[0]}")
    return failures


def _is_said(text: str, wrong: StoreObservation, flaw: Flaw) -> bool:
    kinds = {kind.value for kind in flaw.kinds}
    sentences = [sentence for one in wrong.evidence if one.kind in kinds for sentence in one.said]
    return any(text in sentence for sentence in [*sentences, *wrong.in_common])


def _false_alarms(right: StoreObservation) -> list[str]:
    if right.verdict == Verdict.PASS.value:
        return []
    if right.violations:
        found = ", ".join(f"{count} {kind}" for kind, count in right.violations.items())
        return [f"FALSE ALARM: the twin is right, and was accused of {found}"]
    return [f"the twin was not judged: {'; '.join(right.reasons)}"]


def _seconds_to_detect(flaw: Flaw, wrong: StoreObservation, relevant: list[EvidenceSummary]) -> float | None:
    """Return the time from the first moment the wrong state could be read to the first report.

    An upper bound: that moment is the acknowledgement of the message, or the fault that spoiled it if that is later.
    The state may in truth have become readable still later.
    """
    if not relevant:
        return None
    first = relevant[0]
    since = [first.acknowledged or 0]
    if flaw.wrong_from is WrongFrom.FAULT_STARTED:
        since.append(wrong.fault_started or 0)
    if flaw.wrong_from is WrongFrom.FAULT_ENDED:
        since.append(wrong.fault_ended or 0)
    if not max(since):
        return None
    return max(0.0, (first.found - max(since)) / 1e6 - flaw.latent_seconds)


SIDE_BY_SIDE = 3
"""On two cores: one trial waits where another one works."""


class FlawScenario(msgspec.Struct, frozen=True):
    """Which flaw, and how closely the verifier looks."""

    name: str
    pace: Pace

    @property
    def flaw(self) -> Flaw:
        return catalogue.find(self.name)

    @property
    def seconds_max(self) -> float:
        return self.pace.trial_seconds_max


async def _make(plan: FlawScenario, folder: Path) -> FlawTrial:
    return await make_trial(plan.flaw, folder, plan.pace)


KIND = ScenarioKind(
    name="selftest",
    module=__name__,
    plan=FlawScenario,
    result=FlawTrial,
    make=_make,
    not_made=lambda plan, reason, _: not_made(plan.flaw, reason),
)


async def make_trials(
    flaws: Sequence[Flaw], progress: ScenarioProgress, side_by_side: int = SIDE_BY_SIDE, pace: Pace = Pace.QUICK
) -> list[FlawTrial]:
    """Make the trials of these flaws; the results come in their order."""
    scenarios = [FlawScenario(flaw.name, pace) for flaw in flaws]
    return await run_all(KIND, scenarios, progress, side_by_side, takes_long=lambda one: _takes_long(one.flaw))


def _takes_long(flaw: Flaw) -> bool:
    """Whether it needs two rigs, a replica, or patience."""
    disturbance = flaw.wrong.disturbance
    is_slow = disturbance is not None and disturbance.target == POSTGRES_REPLICA.name
    return is_slow or flaw.patience_seconds > PATIENCE_SECONDS or not flaw.wrong.can_share_a_server_with(flaw.right)
