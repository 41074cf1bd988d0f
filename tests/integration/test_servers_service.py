"""A memory behind HTTP that was given: a restart has to be seen, and what cannot be done to it is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from soak.daemon.folder import DataFolder
from soak.errors import ServerUnreachableError
from soak.faults import ALL
from soak.servers.external.backend import OperatorCommand
from soak.servers.external.servers import ExternalServers
from tests.support.http_services import Service, serving

RESTARTED = OperatorCommand("true {server}")


def _servers(folder: Path, url: str, *faults: str) -> ExternalServers:
    return ExternalServers(folder, {"http": url}, allow_faults=faults, restart_command=RESTARTED)


async def test_one_that_does_not_say_when_it_was_started_is_not_restarted(tmp_path: Path) -> None:
    async with serving(Service()) as url:
        servers = _servers(tmp_path, url, "restart")
        await servers.start(["http"])
        with pytest.raises(ServerUnreachableError, match="a restart cannot be noticed"):
            await ALL["restart"].inject(servers, "http")
        await servers.stop()


async def test_a_restart_is_over_when_a_new_one_answers_and_not_before(tmp_path: Path) -> None:
    service = Service()
    starts = iter(["first", "first", "first", "second", "second", "second", "second", "second"])
    seen: list[str] = []

    async def health(_request: web.Request) -> web.StreamResponse:
        seen.append(next(starts, "second"))
        return web.json_response({"contract": "soak-memory/1", "started": seen[-1]})

    service.health = health
    async with serving(service) as url:
        servers = _servers(tmp_path, url, "restart")
        await servers.start(["http"])
        await ALL["restart"].inject(servers, "http")
        await ALL["restart"].heal(servers, "http")
        await servers.stop()
    assert "second" in seen


async def test_faults_of_the_network_are_refused_with_the_reason(tmp_path: Path) -> None:
    async with serving(Service()) as url:
        servers = _servers(tmp_path, url, "partition", "connection_exhaustion")
        addresses = await servers.start(["http"])
        assert addresses["http"] == url
        reason: Any = servers.refuses("partition", "http")
        assert "not done yet" in reason
        await servers.stop()


def test_what_is_to_be_healed_on_a_given_server_is_not_put_aside_with_the_run(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path)
    folder.prepare()
    note = folder.servers / "external" / "redis" / "unhealed.json"
    note.parent.mkdir(parents=True)
    note.write_text("{}")
    (folder.servers / "redis").mkdir()
    aside = folder.put_aside("r1")
    assert note.exists()
    assert (aside / folder.servers.name / "redis").exists()
