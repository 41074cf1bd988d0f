"""One trial: a flaw and its correct twin are soaked, and what was found is compared with what is true."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from soak.checker.verdict import Verdict
from soak.flaws.flaw import PATIENCE_SECONDS, Flaw, FlawSetup, WrongFrom
from soak.scenarios.runner import run_scenarios
from soak.scenarios.selftest.observation import EvidenceSummary, StoreObservation
from soak.scenarios.selftest.scenario import Pace, SoakResult, SoakScenario
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
    """Why the trial failed; empty if the flaw was found and nothing was reported of its twin."""
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        return not self.failures


def not_made(flaw: Flaw, reason: str) -> FlawTrial:
    """Return the result of a trial that could not run: it proves nothing, so it fails."""
    return FlawTrial(
        flaw=flaw.name,
        expected_kinds=sorted(kind.value for kind in flaw.kinds),
        expected_causes=sorted(cause.value for cause in flaw.causes),
        failures=[f"the trial could not be made: {reason}"],
    )


def scenarios_of(flaw: Flaw, pace: Pace = Pace.QUICK) -> list[SoakScenario]:
    """Return the soaks of a flaw and its twin: one where only the stores differ, else one of each."""
    wrong, right = flaw.wrong, flaw.right
    if wrong.can_share_a_server_with(right):
        return [_scenario(flaw.name, flaw, wrong, pace, (wrong.store, right.store), flaw)]
    return [
        _scenario(flaw.name, flaw, wrong, pace, (wrong.store,), flaw),
        _scenario(f"{flaw.name}, its twin", flaw, right, pace, (right.store,), None),
    ]


def _scenario(
    name: str, flaw: Flaw, setup: FlawSetup, pace: Pace, stores: tuple[str, ...], expectation: Flaw | None
) -> SoakScenario:
    is_on_replica = setup.fault is not None and setup.fault.target == POSTGRES_REPLICA.name
    return SoakScenario(
        name=name,
        stores=stores,
        servers=setup.servers,
        load=flaw.load,
        fault=setup.fault,
        expectation=expectation,
        seconds_max=pace.trial_seconds_max,
        weight=float(is_on_replica or flaw.patience_seconds > PATIENCE_SECONDS),
        patience_seconds=pace.patience_seconds(flaw),
        derives_contract=setup.derives_contract,
        pace=pace,
    )


def trial_of(flaw: Flaw, results: Sequence[SoakResult]) -> FlawTrial:
    """Return what the soaks of a flaw show."""
    if reasons := [result.not_made for result in results if result.not_made]:
        return not_made(flaw, "; ".join(reasons))
    wrong, right = (one for result in results for one in result.seen.values())
    seconds = sum(result.seconds for result in results)
    return msgspec.structs.replace(judge(flaw, wrong, right), seconds=seconds)


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
"""On two cores: one soak waits where another one works."""


def make_trials(flaws: Sequence[Flaw], side_by_side: int, pace: Pace) -> tuple[list[FlawTrial], float] | None:
    """Make the trials of these flaws, in their order, and say how long it took; None if interrupted."""
    scenarios = {flaw.name: scenarios_of(flaw, pace) for flaw in flaws}
    ran = run_scenarios([one for each in scenarios.values() for one in each], "trials", side_by_side)
    if ran is None:
        return None
    results = iter(ran.results)
    trials = [trial_of(flaw, [next(results) for _ in scenarios[flaw.name]]) for flaw in flaws]
    return trials, ran.seconds
