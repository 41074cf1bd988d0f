"""How a run begins: anew, or where a daemon that was killed left it."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass

import msgspec

from soak.configuration import Configuration
from soak.daemon import heartbeat
from soak.daemon.folder import DataFolder
from soak.daemon.plan import Plan, make_plan, without_secrets
from soak.errors import UsageError
from soak.join import JoinInfo
from soak.testbed.state import write_whole

_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"


class RunState(msgspec.Struct, frozen=True, kw_only=True):
    """What the next daemon must know to resume a run, besides the join file."""

    run: str
    boot: str
    embedded: list[str]
    given: dict[str, str]
    """Servers that were given, without user and password."""
    testbed: str = "local"
    """Where the others were started."""
    subject: str | None = None
    """The service that was started for the store http."""


@dataclass(frozen=True)
class Beginning:
    """Who the run is, and what it has been through already."""

    run: str
    seed: int
    namespace: str
    plan: Plan
    resumed: JoinInfo | None = None
    last_alive_us: int | None = None
    active_seconds: float = 0.0
    notes: tuple[str, ...] = ()


def begin(configuration: Configuration, folder: DataFolder) -> Beginning:
    """Decide whether an unfinished run is resumed; what a finished one left is put aside."""
    unfinished, notes = _find_unfinished(folder)
    if unfinished is not None:
        return _resume(configuration, folder, unfinished)
    settings = configuration.settings
    plan = make_plan(settings, settings.stores.names)
    run = "r" + "".join(secrets.choice(_ALPHABET) for _ in range(8))
    return Beginning(
        run=run,
        seed=settings.seed if settings.seed is not None else secrets.randbelow(2**63),
        namespace=settings.stores.namespace or f"soak_{run}",
        plan=plan,
        notes=tuple(notes),
    )


def remember(folder: DataFolder, beginning: Beginning) -> None:
    """Write down what a later daemon needs to go on with this run."""
    state = RunState(
        run=beginning.run,
        boot=heartbeat.boot_identity(),
        embedded=sorted(beginning.plan.embedded),
        given={kind: without_secrets(address) for kind, address in sorted(beginning.plan.given.items())},
        testbed=beginning.plan.testbed,
        subject=_named(beginning.plan),
    )
    write_whole(folder.state_file, msgspec.json.encode(state))


def _find_unfinished(folder: DataFolder) -> tuple[tuple[JoinInfo, RunState] | None, list[str]]:
    info: JoinInfo | None = None
    state: RunState | None = None
    try:
        info = msgspec.json.decode(folder.join_file.read_bytes(), type=JoinInfo)
        state = msgspec.json.decode(folder.state_file.read_bytes(), type=RunState)
    except FileNotFoundError:
        pass
    except (OSError, msgspec.MsgspecError) as error:
        raise UsageError(
            f"what is left of an earlier run in {folder.path} cannot be read ({error}); choose another data folder"
        ) from None
    if info is not None and state is not None and folder.result_run() != info.header.run:
        if state.boot == heartbeat.boot_identity():
            return (info, state), []
        place = folder.put_aside(info.header.run)
        return None, [
            f"run {info.header.run} was cut off by a restart of the machine; what is left of it is in {place}"
        ]
    return None, _put_finished_aside(folder, info)


def _put_finished_aside(folder: DataFolder, info: JoinInfo | None) -> list[str]:
    finished = folder.result_run() or (info.header.run if info is not None else None)
    if finished is None and not any(folder.verifier.iterdir()) and not folder.servers.exists():
        return []
    if finished is None:
        # A start that failed before its run began leaves servers without a run.
        finished = f"unfinished-{int(time.time())}"
    return [f"run {finished} is over; what is left of it is in {folder.put_aside(finished)}"]


def _resume(configuration: Configuration, folder: DataFolder, unfinished: tuple[JoinInfo, RunState]) -> Beginning:
    info, state = unfinished
    header = info.header
    settings = configuration.settings
    given = configuration.origin
    _refuse_change(folder, header.run, "stores.names", header.stores, settings.stores.names, given("stores.names"))
    _refuse_change(folder, header.run, "seed", header.seed, settings.seed, given("seed"))
    _refuse_change(
        folder, header.run, "stores.namespace", header.namespace, settings.stores.namespace, given("stores.namespace")
    )
    plan = make_plan(settings, header.stores)
    servers = {kind: without_secrets(address) for kind, address in sorted(plan.given.items())}
    if servers != state.given or sorted(plan.embedded) != state.embedded:
        raise _changed(folder, header.run, "servers", state.given or "embedded ones", servers or "embedded ones")
    if plan.testbed != state.testbed:
        raise _changed(folder, header.run, "testbed.kind", state.testbed, plan.testbed)
    if _named(plan) != state.subject:
        raise _changed(folder, header.run, "testbed.subject", state.subject, _named(plan))
    alive = heartbeat.read(folder.heartbeat_file)
    if alive is not None and alive.run != header.run:
        alive = None
    return Beginning(
        run=header.run,
        seed=header.seed,
        namespace=header.namespace,
        plan=plan,
        resumed=info,
        last_alive_us=alive.at_us if alive is not None else None,
        active_seconds=alive.active_seconds if alive is not None else 0.0,
    )


def _named(plan: Plan) -> str | None:
    return None if plan.subject is None else plan.subject.name


def _refuse_change(folder: DataFolder, run: str, key: str, before: object, now: object, origin: str | None) -> None:
    if origin is not None and now is not None and now != before:
        raise _changed(folder, run, key, before, now)


def _changed(folder: DataFolder, run: str, what: str, before: object, now: object) -> UsageError:
    return UsageError(
        f"{folder.path} holds the unfinished run {run} with {what} = {before}, not {now}; "
        "resume it unchanged, or choose another folder with --data-dir"
    )
