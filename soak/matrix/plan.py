"""Which cells the matrix has, and what one process must know to make one of them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Literal, get_args

import msgspec

from soak.contracts.presets import PRESETS
from soak.errors import UsageError
from soak.faults import catalogue
from soak.matrix import configurations
from soak.servers.power_cut import PowerCutWay

CELL_SECONDS_MAX = 150.0
"""For one try at a cell, besides its load."""
FAULTS = ("restart", "crash", "shutdown_nosave", "power_cut")
"""The faults a server has to recover its data from, the mildest first."""

BedName = Literal["local", "docker"]
RedisName = Literal["valkey", "6.2"]
PostgresName = Literal["18", "16"]
POWER_CUTS: tuple[PowerCutWay, ...] = get_args(PowerCutWay)
BEDS: tuple[BedName, ...] = get_args(BedName)
REDISES: tuple[RedisName, ...] = get_args(RedisName)
POSTGRESES: tuple[PostgresName, ...] = get_args(PostgresName)


class CellPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One configuration, one fault, and how to bring them together."""

    configuration: str
    fault: str
    load_seconds: float
    """Load before the fault, at least."""
    testbed: BedName = "local"
    redis: RedisName = "valkey"
    postgres: PostgresName = "18"
    redis_image: str | None = None
    """In Docker, another image than the official one."""
    postgres_image: str | None = None
    power_cut: PowerCutWay = "auto"
    preset: str | None = None
    """Hold it to this contract instead of the one its server gives as configured."""

    @property
    def name(self) -> str:
        return f"{self.configuration} × {self.fault}"  # noqa: RUF001  it is a product

    @property
    def seconds_max(self) -> float:
        return self.load_seconds + CELL_SECONDS_MAX


def plan_cells(configurations_wanted: Sequence[str], faults_wanted: Sequence[str], like: CellPlan) -> list[CellPlan]:
    """Return the cells of these configurations and faults, all where none are named; raises `UsageError`."""
    names = _known("configuration", configurations_wanted, configurations.ALL)
    faults = _known("fault of the matrix", faults_wanted, FAULTS)
    if like.preset is not None:
        _known("preset", [like.preset], PRESETS)
    cells = [
        msgspec.structs.replace(like, configuration=name, fault=fault)
        for name in names
        for fault in faults
        if configurations.ALL[name].server in catalogue.ALL[fault].targets
    ]
    if not cells:
        raise UsageError(f"{', '.join(faults)} cannot happen to {', '.join(names)}; choose another fault")
    return cells


def _known(what: str, wanted: Sequence[str], known: Iterable[str]) -> list[str]:
    names = list(known)
    for name in wanted:
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            hint = f"; did you mean {near[0]}?" if near else ";"
            raise UsageError(f"there is no {what} {name!r}{hint} There are {', '.join(names)}")
    # In our own order, each once: rows that are compared stand where they always stand.
    return [name for name in names if name in wanted] if wanted else names
