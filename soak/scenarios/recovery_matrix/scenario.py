"""What one cell of the matrix is: a configuration, a fault and a load; and what came of it."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import get_args

import msgspec

from soak.contracts.presets import PRESETS
from soak.errors import ExitCode, UsageError
from soak.faults import catalogue
from soak.scenarios.recovery_matrix.judgement import RecoveryMeasurement
from soak.scenarios.servers import BedName, PostgresName, RedisName, ServerSetup
from soak.scenarios.terminal import chosen
from soak.servers.kinds import POSTGRES, REDIS
from soak.servers.power_cut import PowerCutWay


class ServerConfiguration(msgspec.Struct, frozen=True, kw_only=True):
    """One way to run a server, and the store whose memory it keeps."""

    name: str
    server: str
    """The kind of server the options are for: `redis` or `postgres`."""
    store: str
    options: dict[str, str]
    description: str
    load_seconds_min: float = 0.0
    """Less load than this would end before the configuration has done what it is there for."""


def _redis(name: str, description: str, *, load_seconds_min: float = 0.0, **options: str) -> ServerConfiguration:
    return ServerConfiguration(
        name=name,
        server=REDIS.name,
        store="redis-list",
        options=options,
        description=description,
        load_seconds_min=load_seconds_min,
    )


def _postgres(name: str, description: str, **options: str) -> ServerConfiguration:
    return ServerConfiguration(
        name=name, server=POSTGRES.name, store="postgres", options=options, description=description
    )


_SNAPSHOT_SECONDS = 7.0
"""The first snapshot of `save 5 1` is begun five seconds after the start, and there should be something after it."""

CONFIGURATIONS: dict[str, ServerConfiguration] = {
    configuration.name: configuration
    for configuration in (
        _redis("aof-everysec", "AOF, synced every second", appendonly="yes", appendfsync="everysec", save=""),
        _redis("aof-always", "AOF, synced before each reply", appendonly="yes", appendfsync="always", save=""),
        _redis("aof-no", "AOF, synced when the kernel likes", appendonly="yes", appendfsync="no", save=""),
        _redis("rdb-5", "RDB, save 5 1", appendonly="no", save="5 1", load_seconds_min=_SNAPSHOT_SECONDS),
        _redis("rdb-900", "RDB, save 900 1", appendonly="no", save="900 1"),
        _redis(
            "aof-rdb",
            "AOF everysec and RDB save 5 1",
            appendonly="yes",
            appendfsync="everysec",
            save="5 1",
            load_seconds_min=_SNAPSHOT_SECONDS,
        ),
        _redis("none", "neither AOF nor RDB", appendonly="no", save=""),
        _postgres("postgres-sync", "synchronous_commit on", synchronous_commit="on"),
        _postgres("postgres-async", "synchronous_commit off", synchronous_commit="off"),
    )
}


CELL_SECONDS_MAX = 150.0
"""For one try at a cell, besides its load."""
FAULTS = ("restart", "crash", "shutdown_nosave", "power_cut")
"""The faults a server has to recover its data from, the mildest first."""

POWER_CUTS: tuple[PowerCutWay, ...] = get_args(PowerCutWay)
BEDS: tuple[BedName, ...] = get_args(BedName)
REDISES: tuple[RedisName, ...] = get_args(RedisName)
POSTGRESES: tuple[PostgresName, ...] = get_args(PostgresName)


class RecoveryScenario(ServerSetup, frozen=True, kw_only=True):
    """One configuration, one fault, and how to bring them together."""

    configuration: str
    fault: str
    load_seconds: float
    """Load before the fault, at least."""
    preset: str | None = None
    """Hold it to this contract instead of the one its server gives as configured."""

    @property
    def name(self) -> str:
        return f"{self.configuration} × {self.fault}"  # noqa: RUF001  it is a product

    @property
    def seconds_max(self) -> float:
        return self.load_seconds + CELL_SECONDS_MAX


def plan_cells(
    configurations_wanted: Sequence[str], faults_wanted: Sequence[str], like: RecoveryScenario
) -> list[RecoveryScenario]:
    """Return the cells of these configurations and faults, all where none are named; raises `UsageError`."""
    names = chosen("configuration", configurations_wanted, CONFIGURATIONS)
    faults = chosen("fault of the matrix", faults_wanted, FAULTS)
    if like.preset is not None:
        chosen("preset", [like.preset], PRESETS)
    cells = [
        msgspec.structs.replace(like, configuration=name, fault=fault)
        for name in names
        for fault in faults
        if CONFIGURATIONS[name].server in catalogue.ALL[fault].targets
    ]
    if not cells:
        raise UsageError(f"{', '.join(faults)} cannot happen to {', '.join(names)}; choose another fault")
    return cells


class RecoveryVerdict(enum.Enum):
    """Whether a server kept what its configuration promises."""

    INSIDE = "inside"
    NOT_MADE = "not made"
    BEYOND = "BEYOND"


_BADNESS = {RecoveryVerdict.INSIDE: 0, RecoveryVerdict.NOT_MADE: 1, RecoveryVerdict.BEYOND: 2}


class RecoveryCell(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one cell."""

    configuration: str
    fault: str
    server: str = ""
    """Name and version, as the server reports them."""
    origin: str = ""
    """What the contract was derived from, in words."""
    measured: RecoveryMeasurement | None = None
    """None: the cell could not be made."""
    recovery_seconds: float = 0.0
    """From the fault to the first write and read that succeeded."""
    repairs: list[str] = []
    """What had to be done about its data by hand before it started again, if anything."""
    not_made: str = ""
    """Why the cell could not be made."""
    is_unreachable: bool = False
    """It could not be made because a server cannot be started or does not answer."""
    repeats: int = 1
    """This is the worst of so many."""
    seconds: float = 0.0

    @property
    def verdict(self) -> RecoveryVerdict:
        if self.measured is None:
            return RecoveryVerdict.NOT_MADE
        return RecoveryVerdict.INSIDE if self.measured.is_inside else RecoveryVerdict.BEYOND

    @property
    def outcome(self) -> str:
        if self.measured is None:
            return f"not made: {self.not_made}"
        lost = f"{self.measured.lost:,} of {self.measured.acknowledged:,} lost"
        return f"{lost}, {self.verdict.value} ({self.seconds:.0f} s)"

    @property
    def reasons(self) -> list[str]:
        """Why it is not inside."""
        return [self.not_made] if self.measured is None else self.measured.complaints


def not_made(plan: RecoveryScenario, reason: str, *, is_unreachable: bool = False) -> RecoveryCell:
    """Return the result of a cell that could not be made: it proves nothing."""
    return RecoveryCell(
        configuration=plan.configuration, fault=plan.fault, not_made=reason, is_unreachable=is_unreachable
    )


def worst_of(results: Sequence[RecoveryCell]) -> RecoveryCell:
    """Return the worst of several tries at one cell, with the longest recovery of them all."""
    worst = max(results, key=_badness)
    return msgspec.structs.replace(
        worst,
        recovery_seconds=max(result.recovery_seconds for result in results),
        repairs=[repair for result in results for repair in result.repairs],
        repeats=len(results),
        seconds=sum(result.seconds for result in results),
    )


def _badness(result: RecoveryCell) -> tuple[int, int, float, int]:
    measured = result.measured
    if measured is None:
        return _BADNESS[result.verdict], 0, 0.0, 0
    return _BADNESS[result.verdict], measured.beyond, measured.recovery_point_seconds, measured.lost


def exit_code_of(results: Sequence[RecoveryCell]) -> ExitCode:
    """Return what the command answers with: a loss beyond a promise outweighs what could not be tried."""
    verdicts = {result.verdict for result in results}
    if RecoveryVerdict.BEYOND in verdicts:
        return ExitCode.VIOLATION
    if results and all(result.is_unreachable for result in results):
        return ExitCode.UNREACHABLE
    return ExitCode.INCONCLUSIVE if RecoveryVerdict.NOT_MADE in verdicts or not results else ExitCode.PASS
