"""What the verifier tells for the sake of alerts: settings, ages, planned faults, and which violation it was."""

from __future__ import annotations

import json
import time

import aiohttp

from soak.checker.faults import Excuse, Promotion
from soak.clock import now_us
from soak.exposition import Exposition
from soak.ledger.records import FaultPhase
from soak.settings import SoakSettings
from soak.verifier.endpoint import read_last_metrics
from soak.verifier.status import settings_seconds
from tests.support.openmetrics import openmetrics_families
from tests.support.verifying import Soaking, verifying


async def test_ages_begin_with_the_first_message_and_settings_are_those_in_force(soaking: Soaking) -> None:
    before = time.time()
    async with soaking() as script, verifying(script, coverage=7) as verifier:
        await verifier.until(lambda status: status["run"])
        assert await verifier.metric("soak_last_acknowledged_timestamp_seconds") == 0.0
        assert 'soak_setting_seconds{name="verifier.coverage"} 7.0' in (await verifier.get("/metrics")).decode()
        assert await verifier.metric("soak_phase", phase="running") == 1.0
        await script.say("chat", 3)
        await verifier.until_verified(3)
        assert before - 1 < await verifier.metric("soak_last_acknowledged_timestamp_seconds") < time.time() + 1
        assert 0.0 <= await verifier.metric("soak_coverage_age_seconds") < time.time() - before + 1
        await verifier.finish()
        text = read_last_metrics(verifier.folder, Exposition.TEXT)
        assert text is not None
        assert 'soak_verified_messages_total{store="redis-list"} 3.0' in text
        assert 'phase="done",run="' in text


async def test_only_what_was_planned_counts_as_a_planned_fault(soaking: Soaking) -> None:
    async with soaking() as script, verifying(script) as verifier:
        await verifier.until(lambda status: status["run"])
        phase = FaultPhase(
            fault="f",
            kind="crash",
            target="redis",
            phase="start",
            at=now_us(),
            excuses=Excuse.CRASH,
            promotes=Promotion.NONE,
            planned=False,
        )
        await script.journal.fault(phase)
        await verifier.until_metric(1, "soak_faults_active")
        assert await verifier.metric("soak_planned_faults_active") == 0
        elsewhere = FaultPhase(
            fault="e",
            kind="crash",
            target="postgres",
            phase="start",
            at=now_us(),
            excuses=Excuse.CRASH,
            promotes=Promotion.NONE,
        )
        await script.journal.fault(elsewhere)
        await verifier.until_metric(1, "soak_planned_faults_active")
        assert await verifier.metric("soak_store_planned_faults_active") == 0, "of no server of this store"
        await script.fault("g", "start")
        await verifier.until_metric(2, "soak_planned_faults_active")
        assert await verifier.metric("soak_store_planned_faults_active") == 1


async def test_the_exemplar_of_a_violation_is_its_id(soaking: Soaking) -> None:
    async with soaking() as script, verifying(script) as verifier:
        said = await script.say("private-chat", 4)
        await verifier.until_verified(4)
        await script.remove(said[1])
        await script.say("private-chat", 1)
        await verifier.until_found()
        endpoint = json.loads((verifier.folder / "endpoint.json").read_bytes())
        address = f"http://{endpoint['host']}:{endpoint['port']}/metrics"
        accept = {"Accept": "application/openmetrics-text; version=1.0.0"}
        async with aiohttp.ClientSession() as http, http.get(address, headers=accept) as answer:
            text = await answer.text()
        exemplars = [
            sample.exemplar.labels["violation"]
            for family in openmetrics_families(text)
            for sample in family.samples
            if sample.exemplar
        ]
        assert exemplars == [verifier.journal()[0]["id"]]
        assert "private-chat" not in text


def test_a_limit_that_is_switched_off_is_none() -> None:
    settings = SoakSettings.model_validate({"faults": {"recovery_max": None}, "verifier": {"canary": "none"}})
    assert settings_seconds(settings)["faults.recovery_max"] == float("inf")
    assert settings_seconds(settings)["verifier.canary"] == 0.0
