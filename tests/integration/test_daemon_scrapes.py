"""What a scraper is answered, in both ways, and how long a run that is over waits for it."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import pytest

from soak.api.status import SoakStatus
from soak.daemon import http as daemon_http
from soak.daemon.consumption import Use
from soak.daemon.http import SCRAPER_HEADER, HttpServer, Scrapes
from soak.exposition import Exposition, asked_for
from soak.settings import HttpSettings
from tests.support.daemon_page import a_snapshot
from tests.support.openmetrics import openmetrics_families

PROMETHEUS_ACCEPTS = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
FROM_VERIFIER = {
    Exposition.TEXT: "# HELP soak_x_total x\n# TYPE soak_x_total counter\nsoak_x_total 5\n",
    Exposition.OPENMETRICS: '# HELP soak_x x\n# TYPE soak_x counter\nsoak_x_total 5 # {violation="ab"} 1.0\n# EOF\n',
}


class Source:
    def __init__(self, snapshot: SoakStatus) -> None:
        self._snapshot = snapshot

    async def snapshot(self) -> SoakStatus:
        return self._snapshot

    async def verifier_metrics(self, exposition: Exposition) -> str | None:
        return FROM_VERIFIER[exposition]

    def use(self) -> Use:
        return Use()


async def scrape(snapshot: SoakStatus, accept: str) -> tuple[str, str]:
    server = HttpServer(HttpSettings(port=0), Source(snapshot))
    await server.start()
    try:
        async with (
            aiohttp.ClientSession() as client,
            client.get(server.address + "/metrics", headers={"Accept": accept}) as answer,
        ):
            return answer.headers["Content-Type"], await answer.text()
    finally:
        await server.close()


async def test_prometheus_gets_openmetrics_with_exemplars_and_one_end() -> None:
    kind, text = await scrape(a_snapshot(), PROMETHEUS_ACCEPTS)
    assert kind.startswith("application/openmetrics-text")
    assert text.endswith("# EOF\n")
    assert text.count("# EOF") == 1
    samples = [sample for family in openmetrics_families(text) for sample in family.samples]
    assert [one.exemplar.labels for one in samples if one.exemplar] == [{"violation": "ab"}]
    assert "soak_verifier_up" in {one.name for one in samples}


async def test_a_person_gets_plain_text() -> None:
    kind, text = await scrape(a_snapshot(), "text/html,*/*;q=0.8")
    assert kind == Exposition.TEXT.value
    assert "soak_x_total 5\n" in text
    assert "# EOF" not in text
    assert asked_for("") is Exposition.TEXT


@pytest.mark.parametrize(
    ("changes", "phase", "verdict"),
    [
        ({"phase": "running", "verdict": "undecided"}, "running", "undecided"),
        ({"phase": "done", "verdict": "pass"}, "done", "pass"),
    ],
)
async def test_phase_and_verdict_are_one_of_all_that_could_be(
    changes: dict[str, Any], phase: str, verdict: str
) -> None:
    _, text = await scrape(a_snapshot(**changes), PROMETHEUS_ACCEPTS)
    values = {
        (family.name, sample.labels.get("phase") or sample.labels.get("verdict")): sample.value
        for family in openmetrics_families(text)
        for sample in family.samples
        if family.name in {"soak_phase", "soak_verdict"}
    }
    assert len(values) == 9
    assert {key for key, value in values.items() if value} == {("soak_phase", phase), ("soak_verdict", verdict)}


# Waiting for the next one ------------------------------------------------------------------------------------


def come(to: Scrapes, *, as_prometheus: bool = True) -> None:
    with to.one({SCRAPER_HEADER: "10"} if as_prometheus else {}):
        pass


async def test_nobody_is_waited_for_if_nobody_came_or_only_a_person() -> None:
    found = Scrapes()
    assert found.expected_seconds() == 0.0
    come(found, as_prometheus=False)
    assert found.expected_seconds() == 0.0
    assert await found.until_next() is False


async def test_one_who_has_come_is_waited_for_until_answered_again() -> None:
    found = Scrapes()
    come(found)
    assert 0.0 < found.expected_seconds() <= 2 * daemon_http.INTERVAL_SECONDS_FIRST + daemon_http.MARGIN_SECONDS
    waiting = asyncio.create_task(found.until_next())
    await asyncio.sleep(0)
    come(found, as_prometheus=False)
    await asyncio.sleep(0.05)
    assert not waiting.done()
    come(found)
    assert await asyncio.wait_for(waiting, 10) is True


async def test_one_who_asked_before_the_end_is_not_told_of_it() -> None:
    found = Scrapes()
    come(found)
    with found.one({SCRAPER_HEADER: "10"}):
        waiting = asyncio.create_task(found.until_next())
        await asyncio.sleep(0)
    await asyncio.sleep(0.05)
    assert not waiting.done()
    come(found)
    assert await asyncio.wait_for(waiting, 10) is True


async def test_one_who_stays_away_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon_http, "MARGIN_SECONDS", 0.05)
    found = Scrapes()
    come(found)
    come(found)  # comes all the time, as it seems
    assert await found.until_next() is False
    await asyncio.sleep(0.1)
    assert found.expected_seconds() == 0.0
