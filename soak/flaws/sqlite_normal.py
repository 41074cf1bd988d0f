"""A file that is faster, and forgets in a power cut."""

from __future__ import annotations

from soak.checker.causes import Cause
from soak.flaws.flaw import GONE, Flaw, WrongFrom
from soak.flaws.served import same_service
from soak.scenarios.scenario import ScenarioFault
from soak.servers.kinds import HTTP

FLAW = Flaw(
    name="sqlite_normal",
    incident="SQLite with WAL and synchronous=NORMAL; power fails, and the last seconds are rolled back",
    code="PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL. Every guide for web services has these two lines.",
    mocks="An in-memory database has no disk. A process that is killed loses nothing: the kernel still has the pages.",
    user="The machine was power-cycled. The file was whole, and the end of every conversation was missing.",
    kinds=GONE,
    causes=frozenset({Cause.UNSYNCED_TAIL}),
    setups=same_service("sqlite_normal", ScenarioFault(fault="power_cut", target=HTTP.name, after_seconds=2.5)),
    wrong_from=WrongFrom.FAULT_ENDED,
)
