"""What a server says of itself at one moment: its effective configuration, its own counters, and which process it is.

A process that is another than before has restarted in between. Redis names its process (`run_id`). PostgreSQL tells
when its first process was started, and, to whom it shows the activity of others, when its checkpointer was: that one is
started anew also where the first process lives on and all others died, which loses what a crash loses.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from soak.checker.faults import Excuse, FaultWindow, Promotion

FOLDER_MARK = "data_folder"
"""Of a server that is started here: a mark of the folder with its data, another one when that was made anew."""


class ServerSample(msgspec.Struct, frozen=True, kw_only=True):
    """One sample of one server. It corroborates a cause; it never excuses a loss."""

    server: str
    """By its kind: `redis`, `postgres`."""
    at: int
    """Microseconds of CLOCK_MONOTONIC."""
    configuration: dict[str, str] = {}
    telemetry: dict[str, str] = {}


class Unplanned(NamedTuple):
    """How the window of something that nobody planned is recorded, whoever notices it."""

    kind: str
    excuses: Excuse
    promotes: Promotion


CRASH = Unplanned("crash", Excuse.CRASH, Promotion.NONE)
FAILOVER = Unplanned("failover", Excuse.FAILOVER, Promotion.BESIDE_THE_OLD)
"""Another server answers: nobody knows whether the old one knows that."""
WHOLE_SECONDS_ERROR_US = 1_000_000
"""Redis takes the whole seconds of two times and tells the difference: 1 may be a moment, or almost two seconds."""
_KEY_CHARACTERS = 12


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """One life of a server."""

    process: str
    workers: str = ""
    """Of the processes that its first process has started; empty: it does not tell."""

    def is_another_than(self, before: Identity) -> bool:
        if self.process != before.process:
            return True
        return bool(self.workers and before.workers) and self.workers != before.workers

    @property
    def key(self) -> str:
        """Short and always the same, to recognise a restart that was recorded before."""
        return hashlib.sha256(f"{self.process}/{self.workers}".encode()).hexdigest()[:_KEY_CHARACTERS]


class ServerRestart(msgspec.Struct, frozen=True, kw_only=True):
    """A server that is another one than before. Times are microseconds of CLOCK_MONOTONIC."""

    server: str
    identity: Identity
    gone: int
    """The last time at which the one before is known to have been there."""
    back: int
    """No later than this the new one was there."""
    is_other_server: bool = False
    """The new one is older than the last sign of the one before: something else has taken over its address."""
    is_group: bool = False
    """It is a group of servers that replace each other."""

    @property
    def fault(self) -> str:
        """Identity of its window in the ledger: whoever notices the same restart gives it the same."""
        return f"{self.kind}-{self.server}-{self.identity.key}"

    @property
    def kind(self) -> str:
        return self.recorded.kind

    @property
    def excuses(self) -> Excuse:
        return self.recorded.excuses

    @property
    def promotes(self) -> Promotion:
        return self.recorded.promotes

    @property
    def recorded(self) -> Unplanned:
        return FAILOVER if self.is_other_server else CRASH


def identity_of(telemetry: Mapping[str, str]) -> Identity | None:
    """Return who says this; None where it does not tell."""
    process = telemetry.get("run_id") or telemetry.get("postmaster_started")
    return None if process is None else Identity(process=process, workers=telemetry.get("checkpointer_started", ""))


def restart_between(before: Identity, gone: int, sample: ServerSample) -> ServerRestart | None:
    """Return the restart between the last sign of one identity and a sample; None if there was none."""
    now = identity_of(sample.telemetry)
    if now is None or not now.is_another_than(before):
        return None
    began = sample.at - _uptime_us_min(sample.telemetry)
    is_other_server = began < gone
    back = sample.at if is_other_server else began
    return ServerRestart(
        server=sample.server,
        identity=now,
        gone=gone,
        back=back,
        is_other_server=is_other_server,
        is_group="topology" in sample.configuration,
    )


def unexplained(restart: ServerRestart, windows: Iterable[FaultWindow]) -> ServerRestart | None:
    """Return what of a restart no fault explains that is on record; None if one does.

    A fault during which the server goes on serving explains no restart: if it died of it, that is a crash. One in which
    no node of a group takes over from another explains none that did. Where a fault has ended, and what the server was
    then is known and not what it is now, it restarted after that.
    """
    gone = restart.gone
    for window in windows:
        if window.planned and window.target != restart.server and _is_of_one_group(window.target, restart.server):
            # A failover, or an upgrade, of one of them restarts the other one, too.
            if window.started <= restart.back and (window.ended is None or window.ended >= gone):
                return None
            continue
        if window.target != restart.server or window.excuses is Excuse.NOTHING or window.serves:
            continue
        if restart.is_group and restart.is_other_server and window.promotes is Promotion.NONE:
            continue
        if window.started > restart.back or (window.ended is not None and window.ended < gone):
            continue
        after = identity_of(window.telemetry_after)
        if window.ended is None or after is None or not restart.identity.is_another_than(after):
            return None
        gone = max(gone, window.ended)
    return msgspec.structs.replace(restart, gone=gone, back=max(gone, restart.back))


def _is_of_one_group(one: str, other: str) -> bool:
    """Whether two servers are a primary and its replica."""
    return one.partition("-")[0] == other.partition("-")[0]


def _uptime_us_min(telemetry: Mapping[str, str]) -> int:
    """Return for how long, at least, the server has been there by its own word; 0 where it does not tell."""
    for name in ("checkpointer_uptime_seconds", "uptime_seconds", "uptime_in_seconds"):
        try:
            told_us = int(float(telemetry[name]) * 1e6)
        except (KeyError, ValueError):
            continue
        return max(0, told_us - (WHOLE_SECONDS_ERROR_US if name == "uptime_in_seconds" else 0))
    return 0
