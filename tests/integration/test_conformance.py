"""`soak conformance` is silent on a correct service and names what is wrong with each wrong one."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest
from aiohttp import ClientSession, web
from openapi_spec_validator import validate

from soak.conformance import document
from soak.conformance.examination import CHECKS, ConformanceResult, examine
from soak.stores import http_contract
from tests.support.http_services import Service, cut_short, page, serving, silence, with_status

LIMIT_SECONDS = 2.0
TOKEN = "sesame"  # noqa: S105


async def findings(service: Service, *only: str) -> dict[str, ConformanceResult]:
    """Make all checks, or only those with these names, on a service that wants a token."""
    checks = [check for check in CHECKS if not only or check.name in only]
    async with serving(service) as url:
        address = url.replace("://", f"://:{TOKEN}@")
        found = examine(address, timeout_seconds=LIMIT_SECONDS, checks=checks)
        return {finding.check: finding async for finding in found}


async def test_a_correct_service_passes_every_check_and_nothing_of_the_visit_stays() -> None:
    service = Service()
    service.token = TOKEN
    found = await findings(service)
    assert {name: finding.outcome for name, finding in found.items()} == {check.name: "ok" for check in CHECKS}
    assert not service.sessions


def forgetful(service: Service) -> None:
    async def append(request: web.Request) -> web.StreamResponse:
        question = await service.question(request)
        return web.json_response({"id": question["message"]["id"]})

    service.append = append


def deduplicating(service: Service) -> None:
    correct = service.append

    async def append(request: web.Request) -> web.StreamResponse:
        question = await service.question(request)
        if any(one["content"] == question["message"]["content"] for one in service.sessions[question["session"]]):
            return web.json_response({"id": question["message"]["id"]})
        return await correct(request)

    service.append = append


def folding(service: Service) -> None:
    correct = service.question

    async def question(request: web.Request) -> dict[str, Any]:
        asked = await correct(request)
        return {**asked, "session": str(asked.get("session")).lower()}

    service.question = question


def capped(service: Service) -> None:
    async def history(request: web.Request) -> web.StreamResponse:
        question = await service.question(request)
        messages = service.sessions.get(question["session"], [])[:1000]
        return web.json_response({"messages": messages[-question["last"] :] if "last" in question else messages})

    service.history = history


def trimming(service: Service) -> None:
    correct = service.question

    async def question(request: web.Request) -> dict[str, Any]:
        asked = await correct(request)
        if "message" in asked:
            asked["message"]["content"] = asked["message"]["content"].strip()
        return asked

    service.question = question


def without_last(service: Service) -> None:
    async def history(request: web.Request) -> web.StreamResponse:
        question = await service.question(request)
        return web.json_response({"messages": service.sessions.get(question["session"], [])})

    service.history = history


def unforgetting(service: Service) -> None:
    async def forget(request: web.Request) -> web.StreamResponse:
        return web.json_response({"forgotten": True})

    service.forget = forget


def not_found_when_empty(service: Service) -> None:
    correct = service.history

    async def history(request: web.Request) -> web.StreamResponse:
        if (await service.question(request))["session"] not in service.sessions:
            return web.json_response({"error": "no such session"}, status=404)
        return await correct(request)

    service.history = history


def open_to_all(service: Service) -> None:
    service.token = None


def trusting(service: Service) -> None:
    async def append(request: web.Request) -> web.StreamResponse:
        try:
            question = json.loads(await request.read())
            service.sessions[question["session"]].append(question["message"])
            return web.json_response({"id": question["message"]["id"]}, status=201)
        except (ValueError, KeyError, TypeError):
            return web.json_response({"id": "whatever"})

    service.append = append


def truncating(service: Service) -> None:
    service.history = cut_short(service.history)


def html(service: Service) -> None:
    service.append = page


def hanging(service: Service) -> None:
    service.forget = silence


def lying(service: Service) -> None:
    service.append = with_status(service.append, 400)


def unsearchable(service: Service) -> None:
    async def search(request: web.Request) -> web.StreamResponse:
        return web.json_response({"messages": []})

    service.search = search


def searched(service: Service, choose: Callable[[str, dict[str, Any]], bool], limit: int = 1_000) -> None:
    """Let a search show all messages that are chosen, by session and message, whatever was asked for."""

    async def search(request: web.Request) -> web.StreamResponse:
        session = (await service.question(request))["session"]
        pairs = [(name, message) for name, messages in service.sessions.items() for message in messages]
        chosen = [message for name, message in [*pairs, *remembered] if name == session or choose(name, message)]
        return web.json_response({"messages": chosen[-limit:]})

    remembered: list[tuple[str, dict[str, Any]]] = []
    forget = service.forget

    async def note(request: web.Request) -> web.StreamResponse:
        session = (await service.question(request))["session"]
        remembered.extend((session, message) for message in service.sessions.get(session, []))
        return await forget(request)

    service.search, service.forget = search, note


def unlimited(service: Service) -> None:
    searched(service, lambda _session, _message: False)


def searching_everywhere(service: Service) -> None:
    searched(service, lambda _session, _message: True)


def finding_the_last(service: Service) -> None:
    searched(service, lambda _session, _message: False, limit=1)


@pytest.mark.parametrize(
    ("spoil", "check"),
    [
        (forgetful, "what is appended is in the history"),
        (deduplicating, "identical turns are all kept"),
        (folding, "sessions that look alike are apart"),
        (capped, "a session of 1050 messages is read whole"),
        (trimming, "hard text comes back unchanged"),
        (without_last, "the last N are the newest N"),
        (unforgetting, "forgetting forgets that session and no other"),
        (not_found_when_empty, "a session nobody wrote to is empty"),
        (open_to_all, "strangers are refused"),
        (trusting, "nonsense is refused"),
        (truncating, "what is appended is in the history"),
        (html, "what is appended is in the history"),
        (hanging, "forgetting forgets that session and no other"),
        (lying, "what is appended is in the history"),
        (unsearchable, "search finds what was said"),
        (finding_the_last, "search finds what was said"),
        (unlimited, "search returns no more than was asked for"),
        (searching_everywhere, "search sees its own session only"),
        (unlimited, "search shows nothing forgotten"),
    ],
)
async def test_a_wrong_service_is_told_what_is_wrong(spoil: Callable[[Service], None], check: str) -> None:
    service = Service()
    service.token = TOKEN
    spoil(service)
    finding = (await findings(service, check))[check]
    assert finding.outcome == "wrong"
    assert finding.found
    assert finding.advice


async def test_the_contract_is_a_valid_document_and_a_correct_service_answers_as_it_says() -> None:
    described = document()
    validate(described)
    service = Service()
    message = {"id": "x/1", "role": "user", "content": "hello"}
    questions = {
        "/v1/append": {"session": "a", "message": message},
        "/v1/history": {"session": "a", "last": 3},
        "/v1/search": {"session": "a", "text": "hello", "limit": 2},
        "/v1/forget": {"session": "a"},
        "/v1/clean-up": {"namespace": "a"},
    }
    assert set(described["paths"]) == {"/v1/health", *questions}
    health = described["paths"]["/v1/health"]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    assert health["properties"]["contract"] == {"const": http_contract.CONTRACT}
    assert ", ".join(map(str, sorted(http_contract.NOT_APPLIED_STATUSES))) in described["info"]["description"]
    async with serving(service) as url, ClientSession() as client:
        for path, question in questions.items():
            operation = described["paths"][path]["post"]
            _validate(described, operation["requestBody"]["content"]["application/json"]["schema"], question)
            async with client.post(url + path, json=question) as answer:
                told = operation["responses"][str(answer.status)]["content"]["application/json"]["schema"]
                _validate(described, told, await answer.json())
        async with client.get(url + "/v1/health") as answer:
            told = described["paths"]["/v1/health"]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
            _validate(described, told, await answer.json())


def _validate(described: dict[str, Any], schema: dict[str, Any], value: object) -> None:
    jsonschema.Draft202012Validator({**schema, "components": described["components"]}).validate(value)
