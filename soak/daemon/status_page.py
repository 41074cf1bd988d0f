"""The status page over HTTP: its files, the state as it changes, violations and their stories, what may be done."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import msgspec
from aiohttp import web

import soak
from soak import log
from soak.api.connections import read_body
from soak.api.http import error, is_cross_site, json_response
from soak.api.permission import Permission, stranger
from soak.api.status import SoakStatus
from soak.daemon.audience import Audience, frame_of
from soak.daemon.folder import DataFolder
from soak.daemon.recorder import ChartPoints, Measurements, chart_points
from soak.daemon.violation_index import ViolationFilter, ViolationIndex
from soak.errors import UsageError
from soak.json_input import decode_json
from soak.page.assets import INDEX, answer_file, read_assets
from soak.page.standing import Measure, Standing, assess
from soak.report.outcome import RunOutcome
from soak.report.story import Story, story_of
from soak.report.violation_records import ViolationRecord, resolve
from soak.verifier import evidence_file
from soak.verifier.evidence_file import UnreadableEvidenceError
from soak.verifier.result import Totals

ASSETS_PATH = "/page/"
EVENTS_PATH = "/events"
VIOLATIONS_PATH = "/violations"
SESSION_PATH = "/session"
CODES_PATH = "/codes"
STOP_PATH = "/stop"
SERIES_PATH = "/series"
FRESH_SECONDS = 10.0
"""Points told with each state: one that missed a few of them has them all the same."""
RECOVERIES_SHOWN_MAX = 60
STORIES_AT_ONCE_MAX = 2
"""Evidence files may be large; reading them must not become the daemon's main occupation."""

_log = log.get_logger("soak.page")
_ID = "{id:[0-9a-f]{4,64}}"


class Code(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The single-use code of a control link."""

    code: str


class PageState(msgspec.Struct, frozen=True, kw_only=True):
    """The event `state`: all that the page shows."""

    now_wall_seconds: float
    version: str
    standing: Standing
    found_version: int
    """Grows with every violation, so that the page knows when to list them again."""
    why_no_faults: str
    points: ChartPoints
    soak: SoakStatus


class PageEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The event `end`: how the run ended."""

    run: str
    verdict: str
    exit_code: int
    reasons: list[str]
    notes: list[str]
    tried: str
    finished: bool
    data_dir: str
    totals: Totals | None


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
        self._assets = read_assets()
        self._audience = Audience()
        self._found = ViolationIndex(folder.verifier)
        self._taking_in = asyncio.Lock()
        self._stories = asyncio.Semaphore(STORIES_AT_ONCE_MAX)
        self._snapshot: SoakStatus | None = None
        self._violations_known = 0

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/", self._index),
            web.get(ASSETS_PATH + "{name}", self._asset),
            web.get(EVENTS_PATH, self._events),
            web.get(SERIES_PATH, self._series),
            web.get(VIOLATIONS_PATH, self._violations),
            web.get(f"{VIOLATIONS_PATH}/{_ID}", self._story),
            web.get(f"{VIOLATIONS_PATH}/{_ID}/evidence", self._evidence),
            web.get(SESSION_PATH, self._session),
            web.post(SESSION_PATH, self._let_in),
            web.post(CODES_PATH, self._new_code),
            web.post(STOP_PATH, self._drain),
        ]

    # What it tells ------------------------------------------------------------------------------------------

    async def show(self, snapshot: SoakStatus) -> None:
        """Send the status to every open page; called about every second."""
        self._snapshot = snapshot
        self._violations_known = max(self._violations_known, snapshot.totals.violations)
        if not self._audience.size:
            return
        try:
            await self._take_in()
            self._audience.publish(frame_of("state", self._state(snapshot)))
        except Exception:  # noqa: BLE001  a page that cannot be told says so itself, and the soak goes on
            _log.exception("page_update_failed")

    def end(self, outcome: RunOutcome) -> None:
        """Send the end to every open page, and close the streams."""
        end = PageEnd(
            run=outcome.run,
            verdict=outcome.verdict,
            exit_code=outcome.exit_code,
            reasons=outcome.reasons,
            notes=outcome.notes,
            tried="" if outcome.result is None or outcome.result.tried is None else outcome.result.tried.text,
            finished=outcome.finished,
            data_dir=outcome.data_dir,
            totals=None if outcome.result is None else outcome.result.totals,
        )
        self._audience.end(frame_of("end", msgspec.json.encode(end)))

    def _state(self, snapshot: SoakStatus) -> bytes:
        return msgspec.json.encode(
            PageState(
                now_wall_seconds=time.time(),
                version=soak.__version__,
                standing=assess(snapshot, self._measure, self._violations_known),
                found_version=self._found.version,
                why_no_faults=self._why_no_faults(),
                points=chart_points(self._measurements, time.time() - FRESH_SECONDS),
                soak=_shown(snapshot),
            )
        )

    async def _events(self, request: web.Request) -> web.StreamResponse:
        if is_cross_site(request):
            # It could not read a word, and would take the place of somebody who can.
            return error(403, "refused: the request comes from another site")
        if self._audience.is_full or self._snapshot is None:
            why = "too many pages are open" if self._snapshot is not None else "the soak is starting"
            return error(503, f"{why}; try again in a moment")
        await self._take_in()
        return await self._audience.attend(request, frame_of("state", self._state(self._snapshot)))

    async def _series(self, _request: web.Request) -> web.Response:
        return _json(chart_points(self._measurements))

    async def _take_in(self) -> None:
        async with self._taking_in:
            await asyncio.to_thread(self._found.take_in)

    # Its files ----------------------------------------------------------------------------------------------

    async def _index(self, request: web.Request) -> web.Response:
        return self._file(request, INDEX)

    async def _asset(self, request: web.Request) -> web.Response:
        return self._file(request, request.match_info["name"])

    def _file(self, request: web.Request, name: str) -> web.Response:
        asset = self._assets.get(name)
        if asset is None:
            return error(404, "the page has no such file")
        return answer_file(request, asset)

    # Violations ---------------------------------------------------------------------------------------------

    async def _violations(self, request: web.Request) -> web.Response:
        try:
            wanted = msgspec.convert(dict(request.query), ViolationFilter)
        except msgspec.ValidationError as problem:
            return error(400, str(problem))
        await self._take_in()
        return _json({"version": self._found.version, "violations": [_listed(r) for r in self._found.newest(wanted)]})

    async def _story(self, request: web.Request) -> web.Response:
        try:
            async with self._stories:
                return _json(await asyncio.to_thread(self._tell, request.match_info["id"]))
        except UnreadableEvidenceError as problem:
            return error(500, str(problem))
        except UsageError as problem:
            return error(404, str(problem))

    async def _evidence(self, request: web.Request) -> web.StreamResponse:
        try:
            record = await asyncio.to_thread(self._record, request.match_info["id"])
        except UsageError as problem:
            return error(404, str(problem))
        path = record.evidence
        if path is None:
            return error(404, "this violation has no evidence file")
        headers = {
            "Content-Disposition": f'attachment; filename="{path.name}"',
            "Content-Type": "application/json",
            "X-Content-Type-Options": "nosniff",
        }
        return web.FileResponse(path, headers=headers)

    def _tell(self, identity: str) -> Story:
        record = self._record(identity)
        file = evidence_file.read(record.evidence) if record.evidence is not None else None
        return story_of(record, file, self._found.newest(ViolationFilter(store=record.violation.store)))

    def _record(self, identity: str) -> ViolationRecord:
        return self._found.get(identity) or resolve(self._folder.path, identity)[0]

    # What may be done ---------------------------------------------------------------------------------------

    async def _session(self, request: web.Request) -> web.Response:
        """Say whether a page may act, so that it offers no buttons that would be refused."""
        refusal = self._permission.refusal(request)
        is_stranger = refusal is not None and refusal.status == 403
        return _json({"permitted": refusal is None, "local": not is_stranger})

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
        return _json({"token": token})

    async def _new_code(self, request: web.Request) -> web.Response:
        return self._permission.refusal(request) or _json({"code": self._permission.new_code()})

    async def _drain(self, request: web.Request) -> web.Response:
        if (refusal := self._permission.refusal(request)) is not None:
            return refusal
        self._stop("the page")
        return _json({"stopping": True})


def _shown(snapshot: SoakStatus) -> SoakStatus:
    """Leave out what the page does not show in full."""
    if snapshot.verifier is None:
        return snapshot
    recoveries = snapshot.verifier.recoveries[-RECOVERIES_SHOWN_MAX:]
    return msgspec.structs.replace(snapshot, verifier=msgspec.structs.replace(snapshot.verifier, recoveries=recoveries))


def _listed(record: ViolationRecord) -> dict[str, object]:
    told = record.as_dict()
    del told["evidence"]  # a path on this machine; the page has an address for it
    return told


def _json(value: object) -> web.Response:
    return json_response(value, headers={"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"})
