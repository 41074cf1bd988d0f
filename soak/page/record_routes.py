"""What the page asks for of any run, live or past: its own files, the violations on record, their stories."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
from aiohttp import web

from soak.api.http import error, json_response
from soak.errors import UsageError
from soak.page.assets import INDEX, answer_file, read_assets
from soak.page.violation_index import ViolationFilter, ViolationIndex
from soak.report.story import Story, story_of
from soak.report.violation_records import ViolationRecord, resolve
from soak.verifier import evidence_file
from soak.verifier.evidence_file import UnreadableEvidenceError

ASSETS_PATH = "/page/"
VIOLATIONS_PATH = "/violations"
VERIFIER_NAME = "verifier"
STORIES_AT_ONCE_MAX = 2
"""Evidence files may be large; reading them must not become the server's main occupation."""
_ID = "{id:[0-9a-f]{4,64}}"


class RecordRoutes:
    """Serves what is on record in the folder of one run."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._assets = read_assets()
        self._found = ViolationIndex(folder / VERIFIER_NAME)
        self._taking_in = asyncio.Lock()
        self._stories = asyncio.Semaphore(STORIES_AT_ONCE_MAX)

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/", self._index),
            web.get(ASSETS_PATH + "{name}", self._asset),
            web.get(VIOLATIONS_PATH, self._violations),
            web.get(f"{VIOLATIONS_PATH}/{_ID}", self._story),
            web.get(f"{VIOLATIONS_PATH}/{_ID}/evidence", self._evidence),
        ]

    @property
    def version(self) -> int:
        """Grows with every violation, so that the page knows when to list them again."""
        return self._found.version

    async def take_in(self) -> None:
        """Read what was found since the last time."""
        async with self._taking_in:
            await asyncio.to_thread(self._found.take_in)

    async def take_in_all(self) -> None:
        """Read the whole journal of a run that is over, a piece at a time."""
        before = -1
        while before != self.version:
            before = self.version
            await self.take_in()

    async def _index(self, request: web.Request) -> web.Response:
        return self._file(request, INDEX)

    async def _asset(self, request: web.Request) -> web.Response:
        return self._file(request, request.match_info["name"])

    def _file(self, request: web.Request, name: str) -> web.Response:
        asset = self._assets.get(name)
        if asset is None:
            return error(404, "the page has no such file")
        return answer_file(request, asset)

    async def _violations(self, request: web.Request) -> web.Response:
        try:
            wanted = msgspec.convert(dict(request.query), ViolationFilter)
        except msgspec.ValidationError as problem:
            return error(400, str(problem))
        await self.take_in()
        return answer_json({"version": self.version, "violations": [_listed(r) for r in self._found.newest(wanted)]})

    async def _story(self, request: web.Request) -> web.Response:
        try:
            async with self._stories:
                return answer_json(await asyncio.to_thread(self._tell, request.match_info["id"]))
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
        return self._found.get(identity) or resolve(self._folder, identity)[0]


def answer_json(value: object) -> web.Response:
    return json_response(value, headers={"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"})


def _listed(record: ViolationRecord) -> dict[str, object]:
    fields = record.as_dict()
    del fields["evidence"]  # a path on this machine; the page has an address for it
    return fields
