"""The page of a daemon, with a status that is made up."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import aiohttp

from soak.api.permission import Permission
from soak.api.status import ChildStatus, ServerStatus, SoakStatus
from soak.daemon.consumption import ProcessUse, Use
from soak.daemon.folder import DataFolder
from soak.daemon.http import HttpServer
from soak.daemon.recorder import SeriesRecorder
from soak.daemon.status_page import StatusPage
from soak.exposition import Exposition
from soak.page.standing import Measure
from soak.settings import HttpSettings
from tests.support.statuses import soak_status


def a_snapshot(verifier: dict[str, Any] | None = None, **changes: Any) -> SoakStatus:
    child = ChildStatus(name="verifier", state="running", pid=1, restarts=2, last_exit=-9)
    server = ServerStatus(kind="redis", embedded=True, state="running", pid=2, restarts=1, address="redis://h:1")
    return soak_status(verifier, **{"seed": "7", "children": [child], "servers": [server], **changes})


class Source:
    """What the page asks, in place of a whole daemon."""

    def __init__(self, snapshot: SoakStatus, verifier_text: str | None) -> None:
        self._snapshot = snapshot
        self._verifier_text = verifier_text

    async def snapshot(self) -> SoakStatus:
        return self._snapshot

    async def verifier_metrics(self, _exposition: Exposition) -> str | None:
        return self._verifier_text

    def use(self) -> Use:
        return Use(
            processes={"load": ProcessUse(resident_bytes=4096, open_files=7, threads=3, cpu_seconds=1.5, processes=2)},
            folder_bytes={"logs": 512},
            disk_free_bytes=1024,
            loop_delay_seconds=0.25,
        )


TOKEN = "0123456789abcdef"  # noqa: S105  of this test only
SECONDS_MAX = 30.0


class Served:
    """A page that is served, and what was asked of it."""

    def __init__(self, folder: Path) -> None:
        self.stops: list[str] = []
        self.permission = Permission(TOKEN)
        self.page = StatusPage(
            DataFolder(folder),
            self.permission,
            Measure(minimum_verified=1, unverified_seconds_max=60.0, tests_alarm=True),
            SeriesRecorder(folder / "series.jsonl", "r1", ["redis-list"]),
            stop=self.stops.append,
            why_no_faults=lambda: "",
        )
        self.http = HttpServer(HttpSettings(port=0), Source(a_snapshot(), None), self.page.routes())
        self.client = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=SECONDS_MAX))

    async def get(self, path: str, **headers: str) -> tuple[int, str, Any]:
        async with self.client.get(self.http.address + path, headers=_headers(headers)) as answer:
            return answer.status, await answer.text(), answer.headers

    async def post(self, path: str, body: object, **headers: str) -> tuple[int, dict[str, Any]]:
        async with self.client.post(self.http.address + path, json=body, headers=_headers(headers)) as answer:
            return answer.status, await answer.json()

    async def until_watched_by(self, count: int) -> None:
        async with asyncio.timeout(SECONDS_MAX):
            while self.page._audience.size != count:
                await asyncio.sleep(0.02)
                await self.page.show(a_snapshot())  # who has left is noticed by the next state


def _headers(given: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in given.items()}
