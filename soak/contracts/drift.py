"""Configuration that changes while a soak runs: what differs from the beginning, and what is no longer kept for it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from soak.checker.contract import Contract
from soak.checker.telemetry import Identity, ServerSample
from soak.contracts.guarantees import WATCHED_SETTINGS, Guarantees, keeper_of
from soak.contracts.mismatch import Mismatch, find_mismatches
from soak.servers.kinds import STANDBY_NAMES


class SettingsRecord(msgspec.Struct):
    """How one server, or one node of it, was configured when the run began, and what differs from that now."""

    baseline: dict[str, str] = {}
    drifted: dict[str, str] = {}
    """By setting, the value it has now."""
    drifts: int = 0


class ServerRecord(SettingsRecord):
    """One server; where it is several nodes, what they say as one."""

    nodes: dict[str, SettingsRecord] = {}
    """By place."""
    identity: Identity | None = None
    """Which process of it answered last."""
    identity_seen: int = 0
    """When that one was last asked, in microseconds of CLOCK_MONOTONIC."""


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened to a server while the soak ran, and was no fault of ours."""

    at_wall_seconds: float
    server: str
    text: str
    what: str = "drift"
    """`drift` of its configuration, `restart`, or `clock`: its wall clock was set, or it was suspended."""
    setting: str = ""
    before: str = ""
    now: str = ""


class SettingChange(msgspec.Struct, frozen=True, kw_only=True):
    """A setting that went away from what it was at the beginning, or came back to it."""

    setting: str
    before: str
    now: str
    is_over: bool


def differences(record: SettingsRecord, sample: ServerSample) -> dict[str, str]:
    """Return the settings that are not as they were at the beginning; what is not reported is not a difference."""
    return {
        setting: sample.configuration[setting]
        for setting in WATCHED_SETTINGS.get(sample.server, ())
        if setting in sample.configuration
        and setting in record.baseline
        and _meaning(setting, sample.configuration[setting]) != _meaning(setting, record.baseline[setting])
    }


def _meaning(setting: str, value: str) -> str:
    """Return what of a value matters: a failover may name another standby, and commits wait as before."""
    return str(bool(value)) if setting == STANDBY_NAMES else value


def take_in(record: SettingsRecord, sample: ServerSample, confirmed: Mapping[str, str]) -> list[SettingChange]:
    """Bring the record up to date, and return what changed.

    A difference counts when the sample before showed it, too: one sample may have come in between two commands.
    """
    found = differences(record, sample)
    changes = [
        SettingChange(
            setting=setting, before=record.drifted.get(setting, record.baseline[setting]), now=now, is_over=False
        )
        for setting, now in found.items()
        if confirmed.get(setting) == now and record.drifted.get(setting) != now
    ]
    changes += [
        SettingChange(setting=setting, before=before, now=sample.configuration[setting], is_over=True)
        for setting, before in record.drifted.items()
        if setting not in found and setting in sample.configuration
    ]
    for change in changes:
        if change.is_over:
            del record.drifted[change.setting]
        else:
            record.drifted[change.setting] = change.now
            record.drifts += 1
    return changes


def unsupported(
    contracts: Mapping[str, Contract],
    needs: Mapping[str, tuple[str, ...]],
    given: Mapping[str, Guarantees],
    *,
    waits: bool = False,
) -> list[Mismatch]:
    """Return what the stores promise and their servers, by what they give now, cannot keep."""
    return [
        mismatch
        for store, contract in contracts.items()
        if (server := keeper_of(needs.get(store, ()))) is not None and server in given
        for mismatch in find_mismatches(store, contract, given[server], waits=waits)
    ]
