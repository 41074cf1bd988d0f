"""One trial: a flaw and its correct twin are soaked, and what is said of them is held against what is true."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from soak.checker.patterns import SHOWN_BY_MIN
from soak.checker.verdict import Verdict
from soak.flaws.flaw import Flaw, Setup, WrongFrom
from soak.selftest.pace import Pace
from soak.selftest.result import Trial
from soak.selftest.rig import Rig, RigPlan
from soak.selftest.seen import VERIFIED_MIN, Seen, Told


async def make_trial(flaw: Flaw, folder: Path, pace: Pace = Pace.QUICK) -> Trial:
    """Soak the flaw and its twin: in one rig where only the stores differ, else in two, one after the other."""
    if flaw.wrong.can_share_a_server_with(flaw.right):
        plan = _plan(flaw, flaw.wrong, (flaw.wrong.store, flaw.right.store), pace)
        seen = await Rig(plan, folder).soak(
            lambda now: _is_found(flaw, now[flaw.wrong.store]) and _is_tried(now[flaw.right.store])
        )
        return judge(flaw, seen[flaw.wrong.store], seen[flaw.right.store])
    alone = _plan(flaw, flaw.wrong, (flaw.wrong.store,), pace)
    wrong = await Rig(alone, folder / "wrong").soak(lambda now: _is_found(flaw, now[flaw.wrong.store]))
    alone = _plan(flaw, flaw.right, (flaw.right.store,), pace)
    right = await Rig(alone, folder / "right").soak(lambda now: _is_tried(now[flaw.right.store]))
    return judge(flaw, wrong[flaw.wrong.store], right[flaw.right.store])


def _plan(flaw: Flaw, setup: Setup, stores: tuple[str, ...], pace: Pace) -> RigPlan:
    return RigPlan(stores=stores, setup=setup, load=flaw.load, patience_seconds=pace.patience_seconds(flaw), pace=pace)


def _is_found(flaw: Flaw, seen: Seen) -> bool:
    kinds = {kind.value for kind in flaw.kinds}
    healed = not flaw.heals or any(seen.healed.get(kind) for kind in kinds)
    # What all of them have in common is said of several only.
    enough = SHOWN_BY_MIN if flaw.says else 1
    return healed and sum(seen.violations.get(kind, 0) for kind in kinds) >= enough


def _is_tried(seen: Seen) -> bool:
    return seen.verified >= 2 * VERIFIED_MIN


def judge(flaw: Flaw, wrong: Seen, right: Seen) -> Trial:
    """Hold what was said against what is true. Pure."""
    kinds = {kind.value for kind in flaw.kinds}
    causes = {cause.value for cause in flaw.causes}
    relevant = [told for told in wrong.told if told.kind in kinds]
    named = Counter[str]()
    for told in relevant:
        named[told.cause] += told.count
    cause = named.most_common(1)[0][0] if named else ""
    affected = sum(count for kind, count in wrong.violations.items() if kind in kinds)
    return Trial(
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


def _misses(flaw: Flaw, wrong: Seen, affected: int, cause: str) -> list[str]:
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
    if unfounded := [fact for told in wrong.told for fact in told.unfounded]:
        failures.append(f"{len(unfounded)} facts were stated that its evidence does not support: {unfounded[0]}")
    return failures


def _is_said(text: str, wrong: Seen, flaw: Flaw) -> bool:
    kinds = {kind.value for kind in flaw.kinds}
    sentences = [sentence for told in wrong.told if told.kind in kinds for sentence in told.said]
    return any(text in sentence for sentence in [*sentences, *wrong.in_common])


def _false_alarms(right: Seen) -> list[str]:
    if right.verdict == Verdict.PASS.value:
        return []
    if right.violations:
        found = ", ".join(f"{count} {kind}" for kind, count in right.violations.items())
        return [f"FALSE ALARM: the twin is right, and was accused of {found}"]
    return [f"the twin was not judged: {'; '.join(right.reasons)}"]


def _seconds_to_detect(flaw: Flaw, wrong: Seen, relevant: list[Told]) -> float | None:
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
