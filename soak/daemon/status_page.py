"""The status page over HTTP: its files, the state as it changes, violations and their stories, what may be done."""

from __future__ import annotations

import asyncio
import shlex
import time
from collections.abc import Callable

import msgspec
from aiohttp import web

from soak import log
from soak.api.connections import read_body
from soak.api.http import error, is_cross_site
from soak.api.permission import Permission, stranger
from soak.api.status import SoakStatus, VerifierStatus
from soak.daemon.audience import HEADERS, Audience, frame_of
from soak.daemon.folder import DataFolder
from soak.daemon.recorder import Measurements, chart_points
from soak.errors import UsageError
from soak.json_input import decode_json
from soak.page.ended import read_saved, save
from soak.page.record_routes import RecordRoutes, answer_json
from soak.page.standing import Measure, assess
from soak.page.state import PageState, final_state, shown, warnings_of
from soak.report.outcome import RunOutcome

EVENTS_PATH = "/events"
SESSION_PATH = "/session"
CODES_PATH = "/codes"
STOP_PATH = "/stop"
SERIES_PATH = "/series"
FRESH_SECONDS = 10.0
"""Points sent with each state, so that a page that missed a few has them all the same."""
SAVE_SECONDS = 5.0
"""How far the saved status may be behind; a violation is saved at once."""

_log = log.get_logger("soak.page")


class Code(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The single-use code of a control link."""

    code: str


class StatusPage:
    """Serves the page, streams the status to it, and carries out what it is permitted to ask for."""

    def __init__(
        self,
        folder: DataFolder,
        permission: Permission,
        measure: Measure,
        measurements: Measurements,
        *,
        stop: Callable[[str], None],
        why_no_faults: Callable[[], str],
    ) -> None:
        self._folder = folder
        self._permission = permission
        self._measure = measure
        self._measurements = measurements
        self._stop = stop
        self._why_no_faults = why_no_faults
        self._records = RecordRoutes(folder.path)
        self._audience = Audience()
        self._snapshot: SoakStatus | None = None
        self._known: VerifierStatus | None = None
        """The last that the verifier has answered: a verifier that is away takes nothing of it back."""
        self._end: bytes | None = None
        self._saved_at = float("-inf")
        self._saved_violations = 0

    def routes(self) -> list[web.RouteDef]:
        return [
            *self._records.routes(),
            web.get(EVENTS_PATH, self._events),
            web.get(SERIES_PATH, self._series),
            web.get(SESSION_PATH, self._session),
            web.post(SESSION_PATH, self._let_in),
            web.post(CODES_PATH, self._new_code),
            web.post(STOP_PATH, self._drain),
        ]

    # What it tells ------------------------------------------------------------------------------------------

    async def show(self, snapshot: SoakStatus) -> None:
        """Send the status to every open page, and save it now and then; called about every second."""
        if self._end is not None:
            return
        try:
            if self._snapshot is None and snapshot.verifier is None:
                self._known = await asyncio.to_thread(self._known_before, snapshot.run)
            self._snapshot, self._known = snapshot, snapshot.verifier or self._known
            await self._save()
            if self._audience.size:
                await self._records.take_in()
                self._audience.publish(frame_of("state", self._state(snapshot)))
        except Exception:  # noqa: BLE001  a page without new state says so itself, and the soak goes on
            _log.exception("page_update_failed")

    def end(self, outcome: RunOutcome) -> None:
        """Send the end to every open page, and close the streams; whoever comes later hears it, too."""
        if self._snapshot is None:
            self._audience.end(b"")
            return
        now = time.time()
        last = self._with_known(self._snapshot)
        state = final_state(
            last,
            outcome,
            chart_points(self._measurements, now - FRESH_SECONDS),
            at_wall_seconds=now,
            found_version=self._records.version,
            where=f"{outcome.run} --data-dir {shlex.quote(str(self._folder.path))}",
        )
        self._end = frame_of("end", msgspec.json.encode(state))
        self._audience.end(self._end)
        if last.verifier is not None:
            try:
                save(self._folder.path, msgspec.structs.replace(last, phase=state.soak.phase), now)
            except OSError as problem:
                _log.warning("status_not_saved", error=str(problem))

    def _known_before(self, run: str) -> VerifierStatus | None:
        """Return what an earlier daemon of this run knew."""
        try:
            saved = read_saved(self._folder.path)
        except UsageError:
            return None  # of a newer soak
        return saved.status.verifier if saved is not None and saved.status.run == run else None

    async def _save(self) -> None:
        if self._snapshot is None or self._known is None:
            return
        violations = self._known.totals.violations
        if time.monotonic() - self._saved_at < SAVE_SECONDS and violations == self._saved_violations:
            return
        self._saved_at, self._saved_violations = time.monotonic(), violations
        try:
            await asyncio.to_thread(save, self._folder.path, self._with_known(self._snapshot), time.time())
        except OSError as problem:
            _log.warning("status_not_saved", error=str(problem))

    def _with_known(self, snapshot: SoakStatus) -> SoakStatus:
        return msgspec.structs.replace(snapshot, verifier=snapshot.verifier or self._known)

    def _state(self, snapshot: SoakStatus) -> bytes:
        return msgspec.json.encode(
            PageState(
                now_wall_seconds=time.time(),
                standing=assess(snapshot, self._measure, self._known),
                found_version=self._records.version,
                why_no_faults=self._why_no_faults(),
                warnings=warnings_of(snapshot),
                verifier_silent=snapshot.verifier is None,
                points=chart_points(self._measurements, time.time() - FRESH_SECONDS),
                soak=shown(self._with_known(snapshot)),
            )
        )

    async def _events(self, request: web.Request) -> web.StreamResponse:
        if is_cross_site(request):
            # It could not read a word, and would take the place of somebody who can.
            return error(403, "refused: the request comes from another site")
        if self._end is not None:
            return web.Response(body=self._end, headers=HEADERS)
        if self._audience.is_full or self._snapshot is None:
            why = "too many pages are open" if self._snapshot is not None else "the soak is starting"
            return error(503, f"{why}; try again in a moment")
        await self._records.take_in()
        return await self._audience.attend(request, frame_of("state", self._state(self._snapshot)))

    async def _series(self, _request: web.Request) -> web.Response:
        return answer_json(chart_points(self._measurements))

    # What may be done ---------------------------------------------------------------------------------------

    async def _session(self, request: web.Request) -> web.Response:
        """Say whether a page may act, so that it offers no buttons that would be refused."""
        refusal = self._permission.refusal(request)
        is_stranger = refusal is not None and refusal.status == 403
        return answer_json({"permitted": refusal is None, "local": not is_stranger})

    async def _let_in(self, request: web.Request) -> web.Response:
        if (refusal := stranger(request)) is not None:
            return refusal
        try:
            code = decode_json(await read_body(request), type=Code).code
        except msgspec.MsgspecError as problem:
            return error(400, f"invalid request: {problem}")
        token = self._permission.token_for(code)
        if token is None:
            return error(401, "this link was used before, or has expired; 'soak page' prints a new one")
        return answer_json({"token": token})

    async def _new_code(self, request: web.Request) -> web.Response:
        return self._permission.refusal(request) or answer_json({"code": self._permission.new_code()})

    async def _drain(self, request: web.Request) -> web.Response:
        if (refusal := self._permission.refusal(request)) is not None:
            return refusal
        self._stop("the page")
        return answer_json({"stopping": True})
