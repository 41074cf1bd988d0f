"""How the service answers: as JSON that nobody keeps, also where a text holds half a character."""

from __future__ import annotations

import json

import msgspec
from starlette.responses import Response

HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


def encoded(value: object) -> bytes:
    """Write a value as JSON. Half a character is no text, but a store may hold one: it is written as its escape."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return json.dumps(value).encode()


def answered(value: object, status: int = 200) -> Response:
    return Response(encoded(value), status, headers=HEADERS, media_type="application/json")


def refusal(status: int, why: str) -> Response:
    """Say no, before anything was changed."""
    return answered({"error": why, "applied": False}, status)
