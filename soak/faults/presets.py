"""Schedules by name: rules for whatever servers there are, made of what is possible on them."""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Mapping, Sequence

import msgspec

from soak.faults.schedule import Rule
from soak.servers.kinds import KINDS

Possible = Mapping[str, Mapping[str, str | None]]
"""By server and name of the fault: why it cannot happen there; None: it can."""

_NO_CONTRACT = "no contract excuses what it takes"
_ONCE = "it happens once, for good"
LEFT_TO_RULES = {
    "wiped_volume": _NO_CONTRACT,
    "file_corruption": _NO_CONTRACT,
    "aof_truncation": _NO_CONTRACT,
    "ttl_change": _NO_CONTRACT,
    "downgrade": _NO_CONTRACT,
    "early_failover": "it loses what the replica had not received",
    "cancelled_commits": "it acknowledges what no standby has",
    "eviction": "only a contract that allows eviction excuses what it takes",
    "failover": _ONCE,
    "upgrade": _ONCE,
    "rolling_upgrade": _ONCE,
    "failover_command": "writes are refused for up to a minute after it",
}
"""What ends a run by itself, or can be done only once, and so happens only where a rule names it."""


class Preset(enum.StrEnum):
    """What kind of weather it is."""

    NONE = "none"
    AUTO = "auto"
    """`recovery` on servers that were started here, unless there are rules; what `soak run` does by default."""
    GENTLE = "gentle"
    RECOVERY = "recovery"
    FAILOVER = "failover"
    CHAOS = "chaos"


class _Recipe(msgspec.Struct, frozen=True, kw_only=True):
    description: str
    faults: Mapping[str, float] | None
    """Names and weights; None: everything."""
    every_seconds: float
    jitter_share: float
    hold_seconds: float
    in_turn: bool = False
    first_seconds: float | None = None
    """When the first server is broken first; the others follow one after the other, evenly. None: after `every`."""


RECIPES = {
    Preset.GENTLE: _Recipe(
        description="clean restarts and short pauses, now and then",
        faults={"restart": 1.0, "pause": 2.0, "sqlite_lock": 2.0},
        every_seconds=900.0,
        jitter_share=0.6,
        hold_seconds=3.0,
    ),
    Preset.RECOVERY: _Recipe(
        description="restarts from the append-only file, from a snapshot, and after a crash, in turn",
        faults={"restart_from_aof": 1.0, "restart_from_rdb": 1.0, "crash": 1.0, "restart": 1.0, "writer_crash": 1.0},
        every_seconds=120.0,
        jitter_share=0.2,
        hold_seconds=2.0,
        in_turn=True,
        first_seconds=15.0,
    ),
    Preset.FAILOVER: _Recipe(
        description="the primary of a group is killed, cut off and replaced, its replicas lag, in turn",
        faults={
            "primary_crash": 1.0,
            "patroni_switchover": 1.0,
            "standby_switchover": 1.0,
            "coordinated_failover": 1.0,
            "partial_partition": 1.0,
            "primary_partition": 1.0,
            "machine_crash": 1.0,
            "patroni_failover": 1.0,
            "dcs_outage": 1.0,
            "standby_outage": 1.0,
            "standby_lag": 1.0,
            "link_cut": 1.0,
            "sentinel_failover": 1.0,
            "cluster_failover": 1.0,
            "cluster_failover_force": 1.0,
            "cluster_takeover": 1.0,
            "slot_migration": 1.0,
            "slow_replication": 1.0,
            "sentinel_away": 1.0,
            "primary_restart": 1.0,
            "rolling_restart": 1.0,
        },
        every_seconds=60.0,
        jitter_share=0.2,
        hold_seconds=3.0,
        in_turn=True,
        first_seconds=15.0,
    ),
    Preset.CHAOS: _Recipe(
        description="everything that is possible, crashes most",
        faults=None,
        every_seconds=180.0,
        jitter_share=0.6,
        hold_seconds=5.0,
    ),
}
_CHAOS_WEIGHTS = {"crash": 3.0, "pause": 2.0, "power_cut": 2.0}
_MORE_SPECIFIC = {"restart": ("restart_from_aof", "restart_from_rdb")}
"""Left out where the more specific ones are possible: they are clean restarts, too."""


_LEFT_OUT_LINES_MAX = 4
"""A preset of everything leaves out more than anybody reads before a run: then it is counted."""


class PresetRules(msgspec.Struct, frozen=True, kw_only=True):
    """What a preset means on these servers."""

    rules: tuple[Rule, ...]
    left_out: tuple[str, ...]
    """What it would have, and why it is not possible here: one line each."""


def rules_of(preset: Preset, possible: Possible, every_seconds: float | None = None) -> PresetRules:
    """Make the rules of a preset from what is possible; a pace of its own may be given."""
    if preset is Preset.NONE:
        return PresetRules(rules=(), left_out=())
    recipe = RECIPES[Preset.RECOVERY if preset is Preset.AUTO else preset]
    every = every_seconds if every_seconds is not None else recipe.every_seconds
    mixes = {target: mix for target, faults in possible.items() if (mix := _mix(recipe, target, faults))}
    rules = [
        Rule(
            faults=mix,
            target=target,
            every_seconds=every,
            first_seconds=_first(recipe, every, number / len(mixes)),
            jitter_seconds=every * recipe.jitter_share,
            hold_seconds=recipe.hold_seconds,
            in_turn=recipe.in_turn,
        )
        for number, (target, mix) in enumerate(mixes.items())
    ]
    return PresetRules(rules=tuple(rules), left_out=tuple(_left_out(preset, recipe, possible)))


def _first(recipe: _Recipe, every: float, share: float) -> float | None:
    return None if recipe.first_seconds is None else min(recipe.first_seconds, every) + share * every


def _left_to_rules(target: str, fault: str) -> str | None:
    return LEFT_TO_RULES.get(fault) or (KINDS[target].not_survived.get(fault) if target in KINDS else None)


def _mix(recipe: _Recipe, target: str, faults: Mapping[str, str | None]) -> tuple[tuple[str, float], ...]:
    can = [name for name, reason in faults.items() if reason is None and not _left_to_rules(target, name)]
    if recipe.faults is None:
        return tuple((name, _CHAOS_WEIGHTS.get(name, 1.0)) for name in can)
    names = [name for name in recipe.faults if name in can]
    if recipe.in_turn:
        names = [name for name in names if not any(other in names for other in _MORE_SPECIFIC.get(name, ()))]
    return tuple((name, recipe.faults[name]) for name in names)


def why_nothing(preset: Preset, possible: Possible) -> str:
    """Say why nothing of a preset is possible: the reason that most of its faults share, on the first server."""
    recipe = RECIPES[preset]
    for target, faults in possible.items():
        wanted = [name for name in recipe.faults or faults if name in faults]
        reasons = [reason for name in wanted if (reason := faults[name] or _left_to_rules(target, name))]
        if not reasons:
            continue
        most = max(reasons, key=reasons.count)
        named = next(name for name in wanted if most in {faults[name], _left_to_rules(target, name)})
        others = f" and {len(wanted) - 1} more" if len(wanted) > 1 else ""
        return f"{named}{others} of {target}: {most}"
    return f"none of its faults can happen to {' or '.join(possible) or 'no server'}"


def _left_out(preset: Preset, recipe: _Recipe, possible: Possible) -> list[str]:
    wanted: Sequence[str] = list(
        recipe.faults or dict.fromkeys(name for faults in possible.values() for name in faults)
    )
    by_rule: dict[tuple[str, str], list[str]] = defaultdict(list)
    together: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name in wanted:
        for target, faults in possible.items():
            if name in faults and (reason := faults[name]):
                together[target, reason].append(name)
            elif name in faults and (reason := _left_to_rules(target, name)):
                by_rule[name, reason].append(target)
    lines = [
        f"the preset {preset} leaves out {name} of {', '.join(targets)}: {reason}; a rule may name it"
        for (name, reason), targets in by_rule.items()
    ]
    lines += [
        f"the preset {preset} leaves out {', '.join(names)} of {target}: {reason}"
        for (target, reason), names in together.items()
    ]
    if recipe.faults is not None or len(lines) <= _LEFT_OUT_LINES_MAX:
        return lines
    absent = {name for names in together.values() for name in names}
    lines = [f"the preset {preset} leaves out {len(absent)} faults that need other servers ('soak faults --try')"]
    if by_rule:
        names = ", ".join(f"{name} of {' and '.join(targets)}" for (name, _), targets in by_rule.items())
        lines.append(f"the preset {preset} leaves out, unless a rule names it: {names}")
    return lines
