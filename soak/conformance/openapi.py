"""The contract of the http store as an OpenAPI document, made of the same words that the store itself uses."""

from __future__ import annotations

from typing import Any

from soak.stores import http_contract as wire

Node = dict[str, Any]

_OUTCOMES = (
    "What the status means for an append or a forget. Acknowledged: 200 (an append: 201, too) with the body described "
    f"here. Not applied: {', '.join(map(str, sorted(wire.NOT_APPLIED_STATUSES)))}, or any status with the body "
    '{"applied": false}: the service has changed nothing, and will not. Unknown: everything else (another status, '
    "another body, a connection that broke, no answer in time): it may have happened or not. Never answer 200 before "
    "the message is as safe as you promise. Nothing is retried and redirects are not followed. A history that is "
    "answered with anything but 200 and its body is unavailable, never empty."
)


def document() -> Node:
    """Return the whole document."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "A chat memory that can be soaked",
            "version": wire.CONTRACT.partition("/")[2],
            "description": _OUTCOMES,
        },
        "servers": [{"url": "https://chat.staging.example/memory", "description": "whatever --url says"}],
        "security": [{}, {"token": []}],
        "paths": {
            wire.HEALTH: {"get": _health()},
            wire.APPEND: _post(
                "append",
                "Remember a message at the end of a session",
                {"session": _SESSION, "message": _ref("Message")},
                _answer("It is remembered.", {"id": {"type": "string", "description": "the id that was sent"}}),
                also_created=True,
            ),
            wire.HISTORY: _post(
                "history",
                "Read a session, oldest message first; one that nobody wrote to is empty",
                {"session": _SESSION, "last": _LAST},
                _answer("The messages, in the order they were remembered.", _MESSAGES),
                optional=("last",),
            ),
            wire.FORGET: _post(
                "forget",
                "Erase a session; one that is not there is forgotten already",
                {"session": _SESSION},
                _answer("Nothing of it comes back.", {"forgotten": {"const": True}}),
            ),
            wire.SEARCH: _post(
                "search",
                "Optional (feature `search`): the messages of a session that are nearest to a text, nearest first",
                {"session": _SESSION, "text": {"type": "string"}, "limit": {"type": "integer", "minimum": 1}},
                _answer("At most `limit` messages.", _MESSAGES),
            ),
            wire.CLEAN_UP: _post(
                "cleanUp",
                "Optional (feature `clean-up`): erase every session whose id begins with the namespace",
                {"namespace": {"type": "string", "minLength": 1}},
                _answer("They are gone.", {"removed": {"type": "integer", "minimum": 0}}),
            ),
        },
        "components": {"schemas": _SCHEMAS, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
    }


_SESSION: Node = {
    "type": "string",
    "description": "Any text up to 1,000 characters; two ids are one session only if they are equal byte for byte.",
}
_LAST: Node = {"type": "integer", "minimum": 1, "description": "Only the newest so many, still oldest first."}


def _ref(name: str) -> Node:
    return {"$ref": f"#/components/schemas/{name}"}


_MESSAGES: Node = {"messages": {"type": "array", "items": _ref("Message")}}

_SCHEMAS: Node = {
    "Message": {
        "type": "object",
        "required": ["id", "role", "content"],
        "properties": {
            "id": {
                "type": "string",
                "description": "Opaque, unique, up to 1,500 characters. If your memory keeps only role and content, "
                "store it in front of the content and take it off again when you read.",
            },
            "role": {"type": "string"},
            "content": {"type": "string", "description": "Any Unicode text, NUL and the empty text included."},
        },
    },
    "Refusal": {
        "type": "object",
        "properties": {
            "error": {"type": "string", "description": "For people."},
            "applied": {"type": "boolean", "description": "false: nothing was changed, and nothing will be."},
        },
    },
}


def _health() -> Node:
    features = {"type": "array", "items": {"enum": ["search", "clean-up"]}}
    return {
        "operationId": "health",
        "summary": "Say that the memory is ready, and which contract it speaks",
        "responses": {
            "200": _answer(
                "It is ready.",
                {
                    "contract": {"const": wire.CONTRACT},
                    "features": features,
                    "name": {"type": "string"},
                    "started": {"type": "string", "description": "Anything that changes with each start."},
                },
                optional=("features", "name", "started"),
            ),
            "default": _REFUSED,
        },
    }


def _post(
    operation: str,
    summary: str,
    question: Node,
    answer: Node,
    *,
    optional: tuple[str, ...] = (),
    also_created: bool = False,
) -> Node:
    return {
        "post": {
            "operationId": operation,
            "summary": summary,
            "requestBody": {
                "required": True,
                "content": {"application/json": {"schema": _object(question, optional)}},
            },
            "responses": {"200": answer, **({"201": answer} if also_created else {}), "default": _REFUSED},
        }
    }


def _answer(description: str, properties: Node, optional: tuple[str, ...] = ()) -> Node:
    return {
        "description": description,
        "content": {"application/json": {"schema": _object(properties, optional)}},
    }


def _object(properties: Node, optional: tuple[str, ...]) -> Node:
    return {
        "type": "object",
        "required": [name for name in properties if name not in optional],
        "properties": properties,
    }


_REFUSED: Node = {
    "description": "Not done, or not known to be done: see the meaning of the statuses above.",
    "content": {"application/json": {"schema": _ref("Refusal")}},
}
