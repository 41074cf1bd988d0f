"""Asking the servers under test, all the time, how they are configured and whether they restarted.

What changes while the soak runs is an event. A server that gives no answer (paused, down, out of connections) is simply
not heard; that is never a violation.

Where several nodes act as one server, each is compared with what it was itself: their settings may differ from the
beginning, and a failover only says which of them answers for all.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping

import msgspec
import structlog

from soak.checker.faults import BY_ITSELF, Excuse, FaultWindow
from soak.checker.telemetry import (
    FAILOVER,
    Identity,
    ServerRestart,
    ServerSample,
    identity_of,
    restart_between,
    unexplained,
)
from soak.clock import now_us
from soak.contracts.drift import (
    Event,
    ServerRecord,
    SettingChange,
    SettingsRecord,
    differences,
    take_in,
    unsupported,
)
from soak.contracts.guarantees import KEEPS_DATA, WATCHED_SETTINGS, Guarantees, guarantees_given
from soak.contracts.mismatch import CLAUSES, Mismatch
from soak.errors import SoakError
from soak.hosts import is_group
from soak.ledger.records import FaultPhase
from soak.ledger.run import RunJournal
from soak.servers.inspect import NODES_MAX, inspect, inspect_nodes
from soak.servers.kinds import OF_THE_GROUP, PATRONI_SETTINGS, STANDBY_NAMES, kind_of
from soak.tasks import raise_if_cancelled
from soak.verifier.result import ConfigurationStatus, ContractStatus, ServerChange
from soak.verifier.state import SERVER_EVENTS_KEPT, State
from soak.verifier.wall_clocks import WallClocks

_log = structlog.get_logger()

SAMPLE_SECONDS = 2.0
ANSWER_SECONDS_MAX = 2.0
SAMPLES_KEPT = 64
EVENTS_TOLD = 10
PAUSE_SECONDS_MIN = 0.2
NODES_SECONDS = 2.5
"""The nodes of a group are asked less often than the group: their settings do not say whether it restarted."""
SIZE_SECONDS = 60.0
"""How old the size of a database may be: to know it, PostgreSQL stats every file."""


class DriftWatch:
    """Samples each server on a clock of its own, so that one that hangs does not hide the others."""

    def __init__(
        self,
        state: State,
        servers: Mapping[str, str],
        settle_seconds: float = SAMPLE_SECONDS,
        restarts: RestartWatch | None = None,
        walls: WallClocks | None = None,
    ) -> None:
        self._state = state
        self._walls = walls
        self._restarts = restarts
        # Between the first read that lacks something and the one that confirms it, every server is asked, and a
        # restart that took it is on record.
        self._sample_seconds = min(SAMPLE_SECONDS, settle_seconds) / 2
        self._servers = {kind: url for kind, url in servers.items() if kind in WATCHED_SETTINGS}
        self._groups = frozenset(kind for kind, url in self._servers.items() if is_group(url))
        self._seen: dict[tuple[str, str], dict[str, str]] = {}
        """By server and the place of its node, what differed in the last sample."""
        self._sized_at: dict[str, float] = {}
        self._sizes: dict[str, str] = {}

    async def run(self) -> None:
        """Watch until cancelled."""
        servers = [self._watch(kind, url) for kind, url in self._servers.items()]
        nodes = [self._watch_nodes(kind, self._servers[kind]) for kind in self._groups]
        await asyncio.gather(*servers, *nodes, _forever())

    async def _watch(self, kind: str, url: str) -> None:
        while True:
            began = time.monotonic()
            is_heard = await self._sample(kind, url)
            raise_if_cancelled()  # a client library below may have swallowed one
            # One that gives no answer is asked again at once: its first answer shows whether it restarted.
            pause = self._sample_seconds - (time.monotonic() - began) if is_heard else 0.0
            await asyncio.sleep(max(PAUSE_SECONDS_MIN, pause))

    async def _watch_nodes(self, kind: str, url: str) -> None:
        while True:
            began, asked = time.monotonic(), now_us()
            # What a fault of ours does to them is no drift, and a question may hang in the link that it cuts.
            if not self._is_our_doing(kind, asked, asked):
                try:
                    nodes = await inspect_nodes(kind_of(kind), url, timeout_seconds=ANSWER_SECONDS_MAX)
                except Exception as error:  # noqa: BLE001  as below
                    _log.debug("nodes_not_sampled", server=kind, error=str(error))
                else:
                    self.take_nodes(kind, nodes, asked)
            raise_if_cancelled()
            await asyncio.sleep(max(PAUSE_SECONDS_MIN, NODES_SECONDS - (time.monotonic() - began)))

    async def _sample(self, kind: str, url: str) -> bool:
        asked = now_us()
        with_size = time.monotonic() - self._sized_at.get(kind, float("-inf")) > SIZE_SECONDS
        try:
            sample = await inspect(kind, url, timeout_seconds=ANSWER_SECONDS_MAX, with_size=with_size)
        except Exception as error:  # noqa: BLE001  whatever a server or its driver does, the verification goes on
            _log.debug("server_not_sampled", server=kind, error=str(error))
            self._state.answering.discard(kind)
            return False
        if with_size:
            self._sized_at[kind] = time.monotonic()
        self.take(self._with_size(sample), asked)
        if self._walls is not None:
            self._walls.take(sample, asked, is_planned=self._is_our_doing(kind, sample.at, asked))
        if self._restarts is not None:
            await self._restarts.take(sample, asked)
        return True

    def _with_size(self, sample: ServerSample) -> ServerSample:
        """Put in the last known size of the database where none was asked for."""
        size = sample.telemetry.get("database_bytes") or self._sizes.get(sample.server)
        if size is None:
            return sample
        self._sizes[sample.server] = size
        return msgspec.structs.replace(sample, telemetry={**sample.telemetry, "database_bytes": size})

    def take(self, sample: ServerSample, asked: int) -> None:
        """Keep a sample, and notice what differs from the beginning of the run."""
        state, kind = self._state, sample.server
        state.answering.add(kind)
        state.catching_up.take(sample)
        state.samples.setdefault(kind, deque(maxlen=SAMPLES_KEPT)).append(sample)
        record = self._record(kind)
        if kind in self._groups:
            of_all = {name: value for name, value in sample.configuration.items() if name in _OF_ALL_NODES}
            sample = msgspec.structs.replace(sample, configuration=of_all)
        self._compare(record, sample, asked)

    def take_nodes(self, kind: str, nodes: Mapping[str, Mapping[str, str] | None], asked: int) -> None:
        """Notice what differs from the beginning at each node of a group; None: it gave no answer."""
        record, at = self._record(kind), now_us()
        for place, configuration in nodes.items():
            if configuration is None or (place not in record.nodes and len(record.nodes) >= NODES_MAX):
                continue
            node = record.nodes.setdefault(place, SettingsRecord())
            before = node.drifts
            sample = ServerSample(server=kind, at=at, configuration=_of_one_node(configuration))
            self._compare(node, sample, asked, place)
            record.drifts += node.drifts - before

    def _record(self, kind: str) -> ServerRecord:
        known = self._state.tally.servers
        if (record := known.get(kind)) is None or not (record.baseline or record.nodes):
            header = self._state.header
            record = known.setdefault(kind, ServerRecord())
            record.baseline = dict(header.configurations.get(kind, {}))
            record.nodes = {
                place: SettingsRecord(baseline=_of_one_node(configuration))
                for place, configuration in header.nodes.get(kind, {}).items()
            }
        return record

    def _compare(self, record: SettingsRecord, sample: ServerSample, asked: int, place: str = "") -> None:
        kind = sample.server
        for setting, value in sample.configuration.items():
            record.baseline.setdefault(setting, value)
        if self._is_our_doing(kind, sample.at, asked):
            self._seen.pop((kind, place), None)
            return
        changes = take_in(record, sample, self._seen.get((kind, place), {}))
        self._seen[kind, place] = differences(record, sample)
        for change in changes:
            self._tell(kind, change, place)

    def _is_our_doing(self, kind: str, at: int, asked: int) -> bool:
        """Whether a planned fault was under way: it restores what it changes."""
        return any(
            window.planned
            and window.target == kind
            and window.started <= at
            and (window.ended is None or window.ended >= asked)
            for window in self._state.faults.values()
        )

    def _tell(self, server: str, change: SettingChange, place: str) -> None:
        how = "is back at" if change.is_over else "was changed to"
        text = f"{_named(server, place)}: {change.setting} {how} {_shown(change.now)}"
        text += "" if change.is_over else f" while the soak runs, it was {_shown(change.before)}"
        unmet = [] if change.is_over else [one.fact for one in unmet_promises(self._state) if one.server == server]
        text = "; ".join([text, *unmet])
        event = Event(
            at_wall_seconds=time.time(),
            server=server,
            setting=change.setting,
            before=change.before,
            now=change.now,
            text=text,
        )
        events = self._state.tally.events
        events.append(event)
        del events[:-SERVER_EVENTS_KEPT]
        _log.warning(
            "configuration_drift_over" if change.is_over else "configuration_drift",
            server=server,
            setting=change.setting,
            before=change.before,
            now=change.now,
            detail=text,
        )


_OF_ALL_NODES = (STANDBY_NAMES,)
"""What is compared of a group as one. Its role is none of that: a failover changes who answers."""


def _of_one_node(configuration: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in configuration.items() if name not in OF_THE_GROUP}


def _named(server: str, place: str) -> str:
    return f"{server} at {place}" if place else server


async def _forever() -> None:
    await asyncio.Event().wait()


def _shown(value: str) -> str:
    return value or '""'


# What can be said of it at any moment ------------------------------------------------------------------------


def unmet_promises(state: State) -> list[Mismatch]:
    """Return what the stores promise and their servers, by their last answer, cannot keep."""
    header = state.header
    given = {server: _given_now(state, server) for server in KEEPS_DATA if state.samples.get(server)}
    return unsupported(header.contracts, state.targets, given, waits=header.waits_for_replicas)


def _given_now(state: State, server: str) -> Guarantees:
    begun = state.header.configurations.get(server, {})
    # What Patroni said was asked when the run began.
    of_patroni = {name: begun[name] for name in PATRONI_SETTINGS if name in begun}
    record = state.tally.servers.get(server, ServerRecord())
    nodes = {place: {**node.baseline, **node.drifted} for place, node in record.nodes.items()}
    return guarantees_given(server, {**of_patroni, **state.samples[server][-1].configuration}, nodes)


def servers_of(state: State) -> list[str]:
    """Return the servers under test whose configuration is watched."""
    needed = dict.fromkeys(kind for needs in state.targets.values() for kind in needs)
    return [kind for kind in needed if kind in WATCHED_SETTINGS]


def latest_samples(state: State) -> dict[str, ServerSample | None]:
    """Return what each server said when it was last asked; None: it did not answer, or was not asked yet."""
    return {
        server: state.samples[server][-1] if server in state.answering and state.samples.get(server) else None
        for server in servers_of(state)
    }


def drift_now(state: State) -> dict[str, dict[str, int]]:
    """Return for every setting of every server whether it differs from what it was, as 0 or 1."""
    records = state.tally.servers
    return {
        server: {
            setting: int(server in records and any(setting in one.drifted for _, one in _parts(records[server])))
            for setting in WATCHED_SETTINGS[server]
        }
        for server in servers_of(state)
    }


def unmet_now(state: State) -> dict[str, dict[str, int]]:
    """Return for every store and clause whether its server cannot keep it, as 0 or 1."""
    unmet = {(one.store, one.clause) for one in unmet_promises(state)}
    return {store: {clause: int((store, clause) in unmet) for clause in CLAUSES} for store in state.header.stores}


def drift_warnings(state: State) -> list[str]:
    """Say what differs from the beginning, and which promises cannot be kept, as long as that is so."""
    changed = [
        f"{_named(server, place)}: {setting} is {_shown(now)}, it was {_shown(one.baseline.get(setting, ''))} when the "
        "run began"
        for server, record in state.tally.servers.items()
        for place, one in _parts(record)
        for setting, now in one.drifted.items()
    ]
    return changed + [one.fact for one in unmet_promises(state)]


def drift_notes(state: State) -> list[str]:
    """Say what has changed during the run, the latest last: it changes no verdict, but must be seen."""
    events = state.tally.events
    notes = [
        event.text if event.what in {"restart", "clock"} else f"configuration drift: {event.text}"
        for event in events[-EVENTS_TOLD:]
    ]
    earlier = len(events) - len(notes)
    return [f"{earlier} earlier events of servers, see /status"] * bool(earlier) + notes


def obtained(state: State, store: str) -> str:
    """Say how the contract of a store came about."""
    return state.header.origins.get(store, "the store's own")


def contracts_now(state: State) -> dict[str, ContractStatus]:
    """Return what each store promises, and what its servers cannot keep of that."""
    unmet = unmet_promises(state)
    return {
        store: ContractStatus(
            obtained=obtained(state, store),
            promises=contract.clauses(),
            unmet=[one.fact for one in unmet if one.store == store],
        )
        for store, contract in state.header.contracts.items()
    }


def configurations_now(state: State) -> dict[str, ConfigurationStatus]:
    """Return how each server was configured, and what differs from that now."""
    now = now_us()
    return {
        server: ConfigurationStatus(
            at_the_beginning=_of_all_parts(record, lambda one: one.baseline),
            drifted=_of_all_parts(record, lambda one: one.drifted),
            drifts=record.drifts,
            sampled_seconds_ago=_age_seconds(state, server, now),
            identity_checked_us=state.faults.samples([server]).get(server),
        )
        for server, record in state.tally.servers.items()
    }


def _parts(record: ServerRecord) -> list[tuple[str, SettingsRecord]]:
    """Return the record of the server itself, and those of its nodes with their places."""
    return [("", record), *record.nodes.items()]


def _of_all_parts(record: ServerRecord, settings_of: Callable[[SettingsRecord], dict[str, str]]) -> dict[str, str]:
    return {
        f"{setting} of {place}" if place else setting: value
        for place, one in _parts(record)
        for setting, value in settings_of(one).items()
    }


def latest_events(state: State) -> list[ServerChange]:
    return [
        ServerChange(at_wall_seconds=event.at_wall_seconds, server=event.server, what=event.what, text=event.text)
        for event in state.tally.events[-EVENTS_TOLD:]
    ]


def _age_seconds(state: State, server: str, now: int) -> float | None:
    samples = state.samples.get(server)
    return round((now - samples[-1].at) / 1e6, 3) if samples else None


# Servers that restart by themselves: noticed by their identity, recorded in the ledger as faults that are not ours.
#
# The window is written exactly once: its name is made of the server and of what it is now, so that a verifier that was
# restarted, or another one, gives it the same name, and the second record is dropped where it is read.


ON_ITS_WAY_SECONDS = 0.2
"""How long the daemon's record of a server's death may take to arrive."""


class RestartWatch:
    """Holds each sample of a server against the one before, and records a restart that nobody has announced."""

    def __init__(self, state: State, journal: RunJournal, caught_up: Callable[[], Awaitable[bool]]) -> None:
        self._state = state
        self._journal = journal
        self._caught_up = caught_up

    async def take(self, sample: ServerSample, asked: int) -> None:
        """Take in an answer. A restart it shows is in the ledger, and read back, before the sample counts."""
        now = identity_of(sample.telemetry)
        if now is None:
            return
        record = self._state.tally.servers.setdefault(sample.server, ServerRecord())
        if record.identity is not None:
            restart = restart_between(record.identity, record.identity_seen, sample)
            if restart is not None and not await self._is_recorded(restart):
                return  # the next sample shows it again
        record.identity = _more_complete(now, record.identity)
        record.identity_seen = asked
        self._state.faults.note_sample(sample.server, asked)

    async def _is_recorded(self, restart: ServerRestart) -> bool:
        """Make sure that a restart is on record, as a fault or as its own; False if that is not possible now."""
        if self._unexplained(restart) is None:
            return True
        await asyncio.sleep(ON_ITS_WAY_SECONDS)
        if not await self._caught_up():
            return False
        left = self._unexplained(restart)
        if left is None:
            return True
        try:
            await self._journal.faults(*phases_of(left))
        except SoakError as error:
            _log.warning("restart_not_recorded", server=restart.server, error=str(error))
            return False
        _log.warning("server_restarted_unexpectedly", server=restart.server, kind=restart.kind, fault=restart.fault)
        return await self._caught_up()

    def _unexplained(self, restart: ServerRestart) -> ServerRestart | None:
        faults = self._state.faults
        return None if restart.fault in faults else unexplained(restart, faults.values())


def phases_of(restart: ServerRestart) -> tuple[FaultPhase, FaultPhase]:
    """Return the records of a restart: from when it may have been gone until the new one was there."""

    def phase(name: str, at: int) -> FaultPhase:
        return FaultPhase(
            fault=restart.fault,
            kind=restart.kind,
            target=restart.server,
            phase=name,
            at=at,
            excuses=restart.excuses,
            promotes=restart.promotes,
            planned=False,
        )

    return phase("start", restart.gone), phase("end", restart.back)


def note_end(state: State, window: FaultWindow) -> None:
    """Count a fault that is over, and tell of it where nobody has planned it."""
    if _is_told_already(state, window):
        return
    # A server that went down with its daemon may have been killed, for all we know.
    kind = window.kind if window.planned else "failover" if window.kind == "failover" else "crash"
    proves_nothing = window.excuses is Excuse.NOTHING or not window.keeps_data
    counts = state.tally.faults_tried if proves_nothing else state.tally.recoveries_tried
    counts[kind] = counts.get(kind, 0) + 1
    _note_restart(state, window)


def _is_told_already(state: State, window: FaultWindow) -> bool:
    """Whether this is a failover by itself that the daemon and the verifier have both noticed."""
    if window.planned or window.kind != FAILOVER.kind:
        return False
    return any(
        one is not window
        and not one.planned
        and (one.kind, one.target) == (window.kind, window.target)
        and one.ended is not None
        and _overlap(one, window)
        for one in state.faults.values()
    )


def _note_restart(state: State, window: FaultWindow) -> None:
    """Tell of a server that restarted by itself, once its window has ended; not of one that soak broke."""
    if window.planned or window.kind not in BY_ITSELF or window.ended is None:
        return
    if any(one.planned and one.target == window.target and _overlap(one, window) for one in state.faults.values()):
        return
    counts = state.tally.unexpected_restarts
    counts[window.target] = counts.get(window.target, 0) + 1
    ended_seconds_ago = (now_us() - window.ended) / 1e6
    event = Event(
        at_wall_seconds=time.time() - ended_seconds_ago, server=window.target, what="restart", text=_told(window)
    )
    state.tally.events.append(event)
    del state.tally.events[:-SERVER_EVENTS_KEPT]


def _told(window: FaultWindow) -> str:
    seconds = ((window.ended or window.started) - window.started) / 1e6
    if window.kind == "failover":
        what = f"another server answers as {window.target} since at most {seconds:.1f}s"
    else:
        what = f"{window.target} restarted by itself, it was gone for at most {seconds:.1f}s"
    return f"{what} ({window.kind}, not ours); what its contract lets a {window.kind} take is tolerated"


def _overlap(one: FaultWindow, other: FaultWindow) -> bool:
    begins_in_time = other.ended is None or one.started <= other.ended
    return begins_in_time and (one.ended is None or one.ended >= other.started)


def _more_complete(now: Identity, before: Identity | None) -> Identity:
    """Keep what is known of the same life where the latest sample tells less."""
    if before is None or now.workers or now.process != before.process:
        return now
    return before
