"""How a run begins: as a new one, or resumed where a daemon that was killed left it.

A heartbeat every second shows the next daemon until when this one lived.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from soak.clock import boot_identity, now_us
from soak.configuration import Configuration, as_saved, saved
from soak.daemon.folder import DataFolder
from soak.daemon.plan import LEDGER, RunPlan, make_plan, unused_servers, unused_thresholds, without_secrets
from soak.errors import DamagedRecordError, UsageError
from soak.ledger.records import RunHeader
from soak.proc.files import DamagedFileError, read_sealed, remove_sealed, write_sealed
from soak.report import outcome as outcomes
from soak.verifier.result import read_so_far

HEARTBEAT_SECONDS = 1.0
_CHANGES_SHOWN = 3


class Heartbeat(msgspec.Struct, frozen=True, kw_only=True):
    """When the daemon was last known alive."""

    run: str
    boot: str
    """CLOCK_MONOTONIC starts over with each boot: two times of different boots cannot be compared."""
    at_us: int
    active_seconds: float
    """How long the run has been active, all its daemons taken together."""


def read_heartbeat(path: Path) -> Heartbeat | None:
    """Return the last sign of life; None if there is none, or it is damaged."""
    try:
        return read_sealed(path, Heartbeat)
    except DamagedFileError:
        return None


async def write_heartbeats(path: Path, run: str, active_before_seconds: float) -> None:
    """Write the sign of life until cancelled."""
    began = time.monotonic()
    boot = boot_identity()
    while True:
        active = active_before_seconds + time.monotonic() - began
        sign = Heartbeat(run=run, boot=boot, at_us=now_us(), active_seconds=active)
        with contextlib.suppress(OSError):
            # Not synced to disk: it has to survive our death, not the machine's.
            write_sealed(path, sign, is_synced=False)
        await asyncio.sleep(HEARTBEAT_SECONDS)


_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"


class RunState(msgspec.Struct, frozen=True, kw_only=True):
    """What the next daemon must know to resume a run."""

    header: RunHeader
    boot: str
    embedded: list[str]
    given: dict[str, str]
    """Servers that were given, without user and password."""
    testbed: str = "local"
    """Where the others were started."""
    subject: str | None = None
    """The service that was started for the store http."""
    settings: dict[str, Any] | None = None
    """What it was begun with; None: an earlier soak did not write that down."""
    ending: str | None = None
    """Why it was asked to end; its load must not be started again, for the ledger may say already that it has ended."""


@dataclass(frozen=True)
class RunIdentity:
    """Who the run is, and what it has been through already."""

    run: str
    seed: int
    namespace: str
    plan: RunPlan
    configuration: Configuration
    """The settings it runs with: where it is resumed, those it was begun with."""
    resumed: RunHeader | None = None
    last_alive_us: int | None = None
    active_seconds: float = 0.0
    faults_scheduled: int = 0
    faults_skipped: int = 0
    """By the daemons before us."""
    notes: tuple[str, ...] = ()
    ending: str | None = None
    """Why it was to end when its daemon was killed; None: it goes on."""
    is_concluded: bool = False
    """The verifier has given its verdict; only the daemon was killed before it could report it."""


def begin(configuration: Configuration, folder: DataFolder, *, is_fresh: bool = False) -> RunIdentity:
    """Decide whether an unfinished run is resumed; what a finished one left is put aside, and with `is_fresh` any."""
    unfinished, notes = _find_unfinished(folder, is_fresh=is_fresh)
    if unfinished is not None:
        return _resume(configuration, folder, unfinished)
    settings = configuration.settings
    plan = make_plan(settings, settings.stores.names)
    run = "r" + "".join(secrets.choice(_ALPHABET) for _ in range(8))
    return RunIdentity(
        run=run,
        seed=settings.seed if settings.seed is not None else secrets.randbelow(2**63),
        namespace=settings.stores.namespace or f"soak_{run}",
        plan=plan,
        configuration=configuration,
        notes=(*notes, *unused_servers(configuration, plan), *unused_thresholds(configuration, plan)),
    )


def remember(folder: DataFolder, beginning: RunIdentity, header: RunHeader, ending: str | None = None) -> None:
    """Write down what a later daemon needs to go on with this run."""
    state = RunState(
        header=header,
        boot=boot_identity(),
        embedded=sorted(beginning.plan.embedded),
        given={kind: without_secrets(address) for kind, address in sorted(beginning.plan.given.items())},
        testbed=beginning.plan.testbed,
        subject=_named(beginning.plan),
        settings=saved(beginning.configuration.settings),
        ending=ending,
    )
    write_sealed(folder.state_file, state, has_copy=True)


def _find_unfinished(folder: DataFolder, *, is_fresh: bool) -> tuple[RunState | None, list[str]]:
    try:
        state = read_sealed(folder.state_file, RunState)
    except DamagedFileError as error:
        if is_fresh:
            remove_sealed(folder.state_file)
            return None, _put_aside(folder)
        raise DamagedRecordError(
            f"{folder.state_file} and its copy are damaged ({error}), so the run in {folder.path} cannot be resumed; "
            "begin anew with --fresh, or choose another folder with --data-dir"
        ) from None
    if state is None:
        return None, _put_aside(folder)
    if state.boot == boot_identity() and not is_fresh:
        return state, []
    run = state.header.run
    why = "interrupted" if state.boot == boot_identity() else "cut off by a restart of the machine"
    found = folder.violations_on_record(run)
    place = folder.put_aside(run)
    notes = [f"run {run} was {why}{_with(found)}; what is left of it is in {place}, and this is a new run"]
    if set(state.given) - {LEDGER}:
        notes.append(f"what it wrote is still on its servers, under {state.header.namespace}; 'soak clean' removes it")
    return None, notes


def _put_aside(folder: DataFolder) -> list[str]:
    """Move away what an earlier run left, and say how it ended."""
    if finished := folder.result_run():
        return [f"run {finished} is over; what is left of it is in {folder.put_aside(finished)}"]
    so_far = read_so_far(folder.verifier)
    run = so_far.run if so_far is not None else None
    found = folder.violations_on_record()
    if run is None and not found:
        if not any(folder.verifier.iterdir()) and not folder.servers.exists():
            return []
        # A start that failed before its run began leaves servers without a run.
        return [f"a start that failed left something; it is in {folder.put_aside(f'unfinished-{int(time.time())}')}"]
    place = folder.put_aside(run or f"unfinished-{int(time.time())}")
    text = (
        f"run {run or '(its name is lost)'} did not end and cannot be resumed, for {folder.state_file.name} and its "
        f"copy are gone: it is {'a violation' if found else 'inconclusive'}{_with(found)}; what is left of it is in "
        f"{place}, and this is a new run"
    )
    return [text]


def _with(violations: int) -> str:
    return f" with {_violations(violations)} on record" if violations else ""


def _violations(count: int) -> str:
    return f"{count:,} violation{'' if count == 1 else 's'}"


def _resume(configuration: Configuration, folder: DataFolder, state: RunState) -> RunIdentity:
    header = state.header
    resumed, changed = as_saved(configuration, _values(configuration, state))
    if changed:
        others = f" and {len(changed) - _CHANGES_SHOWN} more" if len(changed) > _CHANGES_SHOWN else ""
        raise _changed(folder, header.run, f"{'; '.join(changed[:_CHANGES_SHOWN])}{others}")
    plan = make_plan(resumed.settings, header.stores)
    unused_servers(configuration, plan)
    unused_thresholds(configuration, plan)
    servers = {kind: without_secrets(address) for kind, address in sorted(plan.given.items())}
    if servers != state.given or sorted(plan.embedded) != state.embedded:
        was, now = (", ".join(map(str, given.values())) or "embedded ones" for given in (state.given, servers))
        raise _changed(folder, header.run, f"servers = {was}, not {now}")
    alive, notes = _last_alive(folder, header)
    told = outcomes.read(folder.path)
    before = told if told is not None and told.run == header.run else None
    return RunIdentity(
        run=header.run,
        seed=header.seed,
        namespace=header.namespace,
        plan=plan,
        configuration=resumed,
        resumed=header,
        last_alive_us=alive.at_us,
        active_seconds=alive.active_seconds,
        faults_scheduled=0 if before is None else before.faults_scheduled,
        faults_skipped=0 if before is None else before.faults_skipped,
        notes=(_interrupted(folder, state, alive), *notes),
        ending=state.ending,
        is_concluded=folder.result_run() == header.run,
    )


def _last_alive(folder: DataFolder, header: RunHeader) -> tuple[Heartbeat, tuple[str, ...]]:
    """Return the last sign of life of the daemon before us; where it is lost, what its other files say."""
    alive = read_heartbeat(folder.heartbeat_file)
    if alive is not None and alive.run == header.run:
        return alive, ()
    written = folder.last_written_wall_seconds()
    since = 0.0 if written is None else max(0.0, time.time() - written)
    guessed = Heartbeat(
        run=header.run,
        boot=boot_identity(),
        at_us=now_us() - int(since * 1e6),
        active_seconds=max(0.0, time.time() - since - header.started_wall_seconds),
    )
    what = f"{folder.heartbeat_file.name} is gone or damaged; the daemon before this one was last seen {since:.0f}s ago"
    return guessed, (what,)


def _named(plan: RunPlan) -> str | None:
    return None if plan.subject is None else plan.subject.name


def _values(configuration: Configuration, state: RunState) -> dict[str, Any]:
    """Return the settings of the run; where they were not written down, today's with what its header says."""
    values = saved(configuration.settings) if state.settings is None else state.settings
    header = state.header
    stores = {**values.get("stores", {}), "names": header.stores, "namespace": header.namespace}
    testbed = {**values.get("testbed", {}), "kind": state.testbed}
    return {**values, "seed": header.seed, "stores": stores, "testbed": testbed}


def _interrupted(folder: DataFolder, state: RunState, alive: Heartbeat) -> str:
    """Say which run goes on, since when it stood still, and what it has found; the first line that a person reads."""
    found = _violations(folder.violations_on_record(state.header.run))
    return f"Run {state.header.run} was interrupted {_ago(alive)} ({found}): resuming. --fresh starts anew."


def _ago(alive: Heartbeat) -> str:
    seconds = max(0, now_us() - alive.at_us) // 1_000_000
    for unit, size in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if count := seconds // size:
            return f"{count} {unit}{'' if count == 1 else 's'} ago"
    return f"{seconds} second{'' if seconds == 1 else 's'} ago"


def _changed(folder: DataFolder, run: str, what: str) -> UsageError:
    return UsageError(
        f"run {run} in {folder.path} was interrupted and has {what}; resume it as it was (soak run --data-dir "
        f"{folder.path}), or begin anew with --fresh"
    )
