"""The page of a run that is over, from its folder alone; it changes nothing and asks no server."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import NamedTuple

import msgspec
from aiohttp import web

from soak.api.http import error, is_cross_site
from soak.daemon.audience import HEADERS, frame_of
from soak.daemon.http import refuse_names
from soak.daemon.recorder import chart_points
from soak.errors import UsageError
from soak.page.ended import FILE_NAME, read_saved
from soak.page.record_routes import RecordRoutes, answer_json
from soak.page.state import final_state
from soak.report.outcome import RunSetup
from soak.report.run_report import gather
from soak.report.series import Point, Series


class Recorded(NamedTuple):
    """What was measured; the last minutes are no finer than the rest."""

    whole: dict[str, Series]
    recent: dict[str, list[Point]]


class PastPage:
    """Serves the page of one past run."""

    def __init__(self, folder: Path) -> None:
        """Read all that the page shows; raises `UsageError` where there is no run, or none that can be shown."""
        self._folder = folder
        self._report = gather(folder)
        saved = read_saved(folder)
        if saved is None or saved.status.run != self._report.outcome.run:
            raise UsageError(_why_not(folder, self._report.outcome.setup))
        self._saved = saved
        self._records = RecordRoutes(folder)
        series = {store: self._report.series.get(store, Series()) for store in saved.status.stores}
        self._measured = Recorded(series, {store: [] for store in series})

    @property
    def run(self) -> str:
        return self._report.outcome.run

    def application(self) -> web.Application:
        application = web.Application(middlewares=[refuse_names])
        application.add_routes(
            [
                *self._records.routes(),
                web.get("/events", self._events),
                web.get("/series", self._series),
                web.get("/session", self._session),
                web.get("/faults", self._faults),
            ]
        )
        return application

    async def _events(self, request: web.Request) -> web.Response:
        if is_cross_site(request):
            return error(403, "refused: the request comes from another site")
        await self._records.take_in_all()
        state = final_state(
            self._saved.status,
            self._report.outcome,
            chart_points(self._measured, self._saved.at_wall_seconds),
            at_wall_seconds=self._saved.at_wall_seconds,
            found_version=self._records.version,
            where=shlex.quote(str(self._folder)),
        )
        return web.Response(body=frame_of("end", msgspec.json.encode(state)), headers=HEADERS)

    async def _series(self, _request: web.Request) -> web.Response:
        return answer_json(chart_points(self._measured))

    async def _session(self, _request: web.Request) -> web.Response:
        return answer_json({"permitted": False, "local": True})

    async def _faults(self, _request: web.Request) -> web.Response:
        return answer_json([])


def _why_not(folder: Path, setup: RunSetup | None) -> str:
    if not (folder / FILE_NAME).exists():
        why = "its verifier never answered, or another version of soak wrote it"
        return f"{folder} holds no status for the page: {why}; see 'soak report {folder}'"
    written = f" (soak {setup.version})" if setup is not None else ""
    return f"{folder / FILE_NAME} is damaged, or of another version{written}; see 'soak report {folder}'"
