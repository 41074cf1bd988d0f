"""Serves one memory library behind soak's http contract. Needs nothing but Python's standard library.

A subject is a script that says how its library appends, reads and forgets, and ends with `serve(open_memory)`:

    def open_memory(surroundings: Surroundings) -> Memory: ...

What `append`, `history` and `forget` do is up to the library. Plain methods are called in real threads, one for each
connection; coroutines run on one event loop, as in a service that is written that way. Here nothing is repeated,
mended or smoothed over:

- a return from `append` is the acknowledgement;
- `RefusedError` means that nothing was changed; any other exception leaves it open (status 500);
- an exception from `history` is no answer, and an empty list is an empty memory.

The first line on standard output tells the port. The process ends when its standard input does: whoever started it is
gone then, however it went.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

CONTRACT = "soak-memory/1"
SURROUNDINGS = "SOAK_SUBJECT"
"""The name of the environment variable with all that a subject is told, as JSON."""
BODY_BYTES_MAX = 16 * 2**20
BACKLOG = 512
OPENING_SECONDS_MAX = 120.0
ERROR_CHARACTERS_MAX = 300


class RefusedError(Exception):
    """The library said no before it had changed anything."""


@dataclass(frozen=True)
class Message:
    """What is to be remembered, and what comes back of it. The id must come back with the content."""

    id: Any
    role: Any
    content: Any


@dataclass(frozen=True)
class Surroundings:
    """What a subject is told: where its servers are, and how it is to be used."""

    servers: dict[str, str] = field(default_factory=dict)
    """Address by kind: `redis`, `postgres`. Whoever logs in is allowed to make tables."""
    folder: str = "."
    """For libraries that keep their data in files; all processes of a deployment share it."""
    ttl_seconds: int | None = None
    """How long a session lives, where the library has such an option."""
    process: int = 0
    """Which of the deployment's processes this is, from 0."""

    def postgres_by(self, driver: str) -> str:
        """Return the address of PostgreSQL as SQLAlchemy writes it, without what only libpq understands."""
        return self.servers["postgres"].partition("?")[0].replace("postgresql://", f"postgresql+{driver}://", 1)


def with_id(message: Message) -> str:
    """Put role and id in front of the content, for libraries that have no other place for them."""
    head = f"{message.role} {message.id}"
    return f"{len(head)}:{head}{message.content}"


def without_id(text: Any) -> Message:
    """Take role and id off again; what has none is handed on as it came."""
    if not isinstance(text, str):
        return Message(None, None, text)
    size, _, rest = text.partition(":")
    if not size.isdecimal() or len(rest) < int(size):
        return Message(None, None, text)
    role, _, name = rest[: int(size)].partition(" ")
    return Message(name, role, rest[int(size) :])


def serve(open_memory: Callable[[Surroundings], Any]) -> None:
    """Open the memory, tell the port, and answer until whoever started us is gone."""
    told = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints is for the log
    surroundings = Surroundings(**json.loads(os.environ.get(SURROUNDINGS, "{}")))
    loop = _Loop()
    memory = loop.settled(open_memory(surroundings), OPENING_SECONDS_MAX)
    server = _Server(memory, loop)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    told.write(json.dumps({"port": server.server_port}) + "\n")
    told.close()
    server.serve_forever()


def _end_with_parent() -> None:
    while os.read(0, 4096):
        pass
    os._exit(0)


class _Loop:
    """An event loop in a thread of its own, for libraries that are written for one."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    def settled(self, answer: Any, seconds_max: float | None = None) -> Any:
        """Return the answer itself, or what becomes of it on the loop if it is to be awaited."""
        if not inspect.isawaitable(answer):
            return answer

        async def wait() -> Any:
            return await answer

        return asyncio.run_coroutine_threadsafe(wait(), self._loop).result(seconds_max)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = BACKLOG

    def __init__(self, memory: Any, loop: _Loop) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.memory = memory
        self.loop = loop

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that hang up; everything else has been answered and logged."""


class _BadRequestError(Exception):
    pass


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def do_GET(self) -> None:
        if self.path == "/v1/health":
            self._answer(200, {"contract": CONTRACT, "features": [], "name": sys.argv[0].rpartition("/")[2]})
        else:
            self._answer(404, {"error": "there is nothing here"})

    def do_POST(self) -> None:
        ask = {"/v1/append": _append, "/v1/history": _history, "/v1/forget": _forget}.get(self.path)
        try:
            question = self._question()
            if ask is None:
                self._answer(404, {"error": "there is nothing here"})
                return
            answer = ask(self.server, question)
        except _BadRequestError as error:
            self._answer(400, {"error": str(error)})
        except RefusedError as error:
            self._answer(422, {"error": str(error)[:ERROR_CHARACTERS_MAX], "applied": False})
        except Exception as error:  # noqa: BLE001  whatever a library raises, it says nothing of what has happened
            traceback.print_exc()
            self._answer(500, {"error": f"{type(error).__name__}: {error}"[:ERROR_CHARACTERS_MAX]})
        else:
            self._answer(200, answer)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the name is given
        """Log no requests: there are many, and the client keeps its own record."""

    def _question(self) -> dict[str, Any]:
        size = self.headers.get("Content-Length", "")
        if not size.isdecimal() or int(size) > BODY_BYTES_MAX:
            self.close_connection = True
            raise _BadRequestError(f"a body of at most {BODY_BYTES_MAX} bytes is needed, and its length before it")
        try:
            question = json.loads(self.rfile.read(int(size)))
        except ValueError as error:
            raise _BadRequestError(f"this is no JSON ({error})") from error
        if not isinstance(question, dict) or not isinstance(question.get("session"), str):
            raise _BadRequestError("the session is missing")
        return question

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        encoded = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(encoded)))
        # Headers and body in one go: two small writes would wait for each other on the wire.
        self._headers_buffer.append(b"\r\n" + encoded)  # type: ignore[attr-defined]
        self.flush_headers()


def _append(server: _Server, question: dict[str, Any]) -> dict[str, Any]:
    sent = question.get("message")
    if not isinstance(sent, dict) or not all(isinstance(sent.get(name), str) for name in ("id", "role", "content")):
        raise _BadRequestError("a message has an id, a role and a content, and each is a text")
    message = Message(sent["id"], sent["role"], sent["content"])
    server.loop.settled(server.memory.append(question["session"], message))
    return {"id": message.id}


def _history(server: _Server, question: dict[str, Any]) -> dict[str, Any]:
    last = question.get("last")
    if last is not None and (not isinstance(last, int) or last < 1):
        raise _BadRequestError("last is a number from 1 on")
    messages: Sequence[Message] = server.loop.settled(server.memory.history(question["session"], last))
    return {"messages": [{"id": one.id, "role": one.role, "content": one.content} for one in messages]}


def _forget(server: _Server, question: dict[str, Any]) -> dict[str, Any]:
    server.loop.settled(server.memory.forget(question["session"]))
    return {"forgotten": True}
