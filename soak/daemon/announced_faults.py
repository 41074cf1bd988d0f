"""Faults that others cause: a chaos tool outside, or an operator, says when one begins and when it is over.

The announcement says what the fault excuses. The window is in the ledger before the announcement is answered, so an
operator who waits for the answer breaks nothing that soak does not know of. Open windows are kept in the data folder: a
daemon that was killed takes them up again.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from soak.checker.faults import Excuse, Promotion
from soak.clock import now_us
from soak.errors import SoakError, UsageError
from soak.ledger.records import FaultPhase
from soak.ledger.run import RunJournal
from soak.proc.files import DamagedFileError, read_sealed, write_sealed

PATH = "/faults/windows"
FILE_NAME = "announced.json"
OPEN_MAX = 64
REASON_CHARACTERS_MAX = 500
KIND = "announced"
KINDS = {
    Excuse.NOTHING: KIND,
    Excuse.CLEAN: "restart",
    Excuse.CRASH: "crash",
    Excuse.POWER: "power_cut",
    Excuse.FAILOVER: "early_failover",
}
"""What the ledger calls it: the fault of ours that excuses the same, so that it is explained and measured alike."""
_ID_BYTES = 4


class Announcement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A fault that somebody else is about to cause."""

    server: str
    excuses: Excuse
    reason: str = ""


class AnnouncedWindow(msgspec.Struct, frozen=True, kw_only=True):
    """A fault that somebody else has announced."""

    id: str
    server: str
    excuses: Excuse
    reason: str
    began_us: int
    """Microseconds of CLOCK_MONOTONIC."""
    began_wall_seconds: float
    ended_wall_seconds: float | None = None


class UnknownWindowError(UsageError):
    """No open window has this id."""


class AnnouncedWindows:
    """The windows that are open, and their records in the ledger."""

    def __init__(self, file: Path, run: str, servers: Iterable[str], say: Callable[[str], None]) -> None:
        self._file = file
        self._run = run
        self._servers = tuple(servers)
        self._say = say
        self._open: dict[str, AnnouncedWindow] = {}
        self._changing = asyncio.Lock()
        self.journal: RunJournal | None = None
        """None while no run is open."""

    def take_up(self, *, is_resumed: bool) -> None:
        """Go on with the windows that an earlier daemon of this run has left open; say so where they are not known."""
        try:
            kept = read_sealed(self._file, _Kept) if is_resumed else None
            problem = "" if kept is not None or not is_resumed else "gone"
        except DamagedFileError as error:
            kept, problem = None, f"damaged ({error})"
        if problem:
            self._say(
                f"{self._file.name} is {problem}: which announced faults are open is not known here; "
                "those that are stay open, and nothing is confirmed as lost on their servers"
            )
        known = kept.windows if kept is not None and kept.run == self._run else []
        # From now on it is there, so a daemon after us can tell that it is gone.
        self._keep({window.id: window for window in known})

    @property
    def active(self) -> list[str]:
        return sorted(f"{KINDS[window.excuses]} of {window.server}, announced" for window in self._open.values())

    @property
    def windows(self) -> list[AnnouncedWindow]:
        return list(self._open.values())

    async def begin(self, announcement: Announcement) -> AnnouncedWindow:
        """Open a window; raises `UsageError` where that makes no sense, `SoakError` where the ledger is away."""
        journal = self._checked(announcement)
        async with self._changing:
            if len(self._open) >= OPEN_MAX:
                raise UsageError(f"{OPEN_MAX} announced faults are open; end one first ('soak fault list')")
            window = AnnouncedWindow(
                id=f"{KIND}-{announcement.server}-{secrets.token_hex(_ID_BYTES)}",
                server=announcement.server,
                excuses=announcement.excuses,
                reason=announcement.reason,
                began_us=now_us(),
                began_wall_seconds=time.time(),
            )
            # Kept first, and also if the ledger gives no answer: one that is in there could never be ended otherwise.
            self._keep({**self._open, window.id: window})
            await journal.fault(_phase(window, "start", window.began_us))
        self._say(f"fault announced: {window.id} of {window.server}, excuses {window.excuses.value}; {window.reason}")
        return window

    async def end(self, name: str) -> AnnouncedWindow:
        """Close a window; raises `UnknownWindowError` where none of this name is open."""
        if self.journal is None:
            raise UsageError("the soak is not running yet")
        async with self._changing:
            window = self._open.get(name)
            if window is None:
                raise UnknownWindowError(f"no announced fault {name} is open; 'soak fault list' shows those that are")
            # Its beginning again, which is dropped where it is known: the ledger may not have had it.
            await self.journal.faults(_phase(window, "start", window.began_us), _phase(window, "end", now_us()))
            self._keep({other: one for other, one in self._open.items() if other != name})
        self._say(f"fault over: {window.id} of {window.server}")
        return msgspec.structs.replace(window, ended_wall_seconds=time.time())

    async def end_all(self) -> list[str]:
        """Close what is still open when the load has ended; says of each why the run proves less for it."""
        left = self.windows
        for window in left:
            with contextlib.suppress(SoakError):
                await self.end(window.id)
        return [
            f"the fault {window.id} of {window.server} was announced and never ended, "
            "so what was acknowledged since then cannot be judged"
            for window in left
        ]

    def _checked(self, announcement: Announcement) -> RunJournal:
        if announcement.server not in self._servers:
            raise UsageError(f"{announcement.server} is no server under test; there are {', '.join(self._servers)}")
        if len(announcement.reason) > REASON_CHARACTERS_MAX:
            raise UsageError(f"the reason is longer than {REASON_CHARACTERS_MAX} characters; shorten it")
        if self.journal is None:
            raise UsageError("the soak is not running yet")
        return self.journal

    def _keep(self, windows: dict[str, AnnouncedWindow]) -> None:
        self._open = windows
        write_sealed(self._file, _Kept(run=self._run, windows=list(windows.values())), has_copy=True)


class _Kept(msgspec.Struct):
    run: str
    windows: list[AnnouncedWindow]


def _phase(window: AnnouncedWindow, phase: str, at: int) -> FaultPhase:
    return FaultPhase(
        fault=window.id,
        kind=KINDS[window.excuses],
        target=window.server,
        phase=phase,
        at=at,
        excuses=window.excuses,
        promotes=Promotion.BESIDE_THE_OLD if window.excuses is Excuse.FAILOVER else Promotion.NONE,
        telemetry={"reason": window.reason or KIND},
    )
