"""The runbook at the daemon's own address."""

from __future__ import annotations

import re

import aiohttp
import pytest

from soak.daemon.http import HttpServer
from soak.daemon.runbook import PATH, Runbook, page
from soak.settings import HttpSettings
from tests.support.alert_files import alerts
from tests.support.daemon_page import Source, a_snapshot


@pytest.mark.parametrize("elsewhere", [None, "https://docs.example.org/soak/runbook"])
async def test_alerts_find_their_section_here_or_are_sent_on(elsewhere: str | None) -> None:
    server = HttpServer(HttpSettings(port=0), Source(a_snapshot(), None), Runbook(elsewhere).routes())
    await server.start()
    try:
        async with (
            aiohttp.ClientSession() as client,
            client.get(server.address + PATH, allow_redirects=False) as answer,
        ):
            text = await answer.text()
            assert (answer.status, answer.headers.get("Location")) == (200 if elsewhere is None else 302, elsewhere)
            assert (text == page()) is (elsewhere is None)
    finally:
        await server.close()


def test_every_alert_has_its_section_and_every_link_on_the_page_leads_somewhere() -> None:
    anchors = set(re.findall(r'<h2 id="([^"]+)"', page()))
    assert anchors == {name.lower() for name in alerts()}
    for link in re.findall(r'href="([^"]+)"', page()):
        assert link.removeprefix("#") in anchors or link.startswith("http://127.0.0.1"), link
    assert "<script" not in page()
