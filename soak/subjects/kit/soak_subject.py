"""Serves one memory library behind soak's http contract. Needs nothing but Python's standard library.

A subject is a script that says how its library appends, reads and forgets, and ends with `serve(open_memory)`:

    def open_memory(surroundings: Surroundings) -> Memory: ...

What `append`, `history` and `forget` do is up to the library. Plain methods are called in real threads, one for each
connection; coroutines run on one event loop, as in a service that is written that way. Here nothing is repeated,
mended or smoothed over:

- a return from `append` is the acknowledgement;
- `RefusedError` means that nothing was changed; any other exception leaves it open (status 500);
- an exception from `history` is no answer, and an empty list is an empty memory.

A memory may also have `search(session, text, limit)`, and `close()`, which is called when the process is asked to end.

The first line on standard output is the port, as JSON. The process ends when its standard input does: the parent
it is gone then, however it went. Where several processes are wanted on one port, the first one starts the others, and
the kernel shares the connections out among them: none of them belongs to a session, and when one ends, all do.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

CONTRACT = "soak-memory/1"
SURROUNDINGS = "SOAK_SUBJECT"
"""The name of the environment variable with all that a subject has to know, as JSON."""
BODY_BYTES_MAX = 16 * 2**20
BACKLOG = 512
OPENING_SECONDS_MAX = 120.0
ENDING_SECONDS_MAX = 5.0
TWIN = "/twin"
"""Where a second memory is served beside the first."""
ERROR_CHARACTERS_MAX = 300


class RefusedError(Exception):
    """The library said no before it had changed anything."""


@dataclass(frozen=True)
class ChatTurn:
    """What is to be remembered, and what comes back of it. The id must come back with the content."""

    id: Any
    role: Any
    content: Any


@dataclass(frozen=True)
class Surroundings:
    """Where the servers of a subject are, and how it is to be used."""

    servers: dict[str, str] = field(default_factory=dict)
    """Address by kind: `redis`, `postgres`, `chroma`. The login may create tables."""
    folder: str = "."
    """For libraries that keep their data in files; all processes of a deployment share it."""
    ttl_seconds: int | None = None
    """How long a session lives, where the library has such an option."""
    process: int = 0
    """Which of the deployment's processes this is, from 0."""
    port: int = 0
    """Where to listen; 0: on any that is free."""
    processes: int = 1
    """How many share that port; the first one starts the others."""
    factory: str = ""
    """What makes the memory, as `module:factory`, for subjects that leave that open."""
    import_path: str = ""
    """Where that module is looked for besides the packages."""
    started: str = ""
    """The name of this life of the service, the same in all its processes."""

    @property
    def address(self) -> str:
        """The address of its server; without one, the path of a file that all processes share."""
        return next(iter(self.servers.values()), f"{self.folder}/memory.db")

    def found_factory(self) -> Any:
        """Return what `factory` names, such as a class or one of its methods."""
        if self.import_path:
            sys.path.append(self.import_path)
        module, _, path = self.factory.partition(":")
        found: Any = importlib.import_module(module)
        for name in path.split("."):
            found = getattr(found, name)
        return found

    def postgres_by(self, driver: str) -> str:
        """Return the address of PostgreSQL as SQLAlchemy writes it, without what only libpq understands."""
        return self.servers["postgres"].partition("?")[0].replace("postgresql://", f"postgresql+{driver}://", 1)


def with_id(message: ChatTurn) -> str:
    """Put role and id in front of the content, for libraries that have no other place for them."""
    head = f"{message.role} {message.id}"
    return f"{len(head)}:{head}{message.content}"


def without_id(text: Any) -> ChatTurn:
    """Take role and id off again; what has none is handed on as it came."""
    if not isinstance(text, str):
        return ChatTurn(None, None, text)
    size, _, rest = text.partition(":")
    if not size.isdecimal() or len(rest) < int(size):
        return ChatTurn(None, None, text)
    role, _, name = rest[: int(size)].partition(" ")
    return ChatTurn(name, role, rest[int(size) :])


def serve(open_memory: Callable[[Surroundings], Any], twin: Callable[[Surroundings], Any] | None = None) -> None:
    """Open the memory, print the port, and answer until the parent is gone, or asks us to end.

    A twin is another memory, served by the same process under `/twin`: what happens to one happens to both.
    """
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints is for the log
    surroundings = Surroundings(**json.loads(os.environ.get(SURROUNDINGS, "{}")))
    if not surroundings.started:
        surroundings = replace(surroundings, started=f"{os.getpid()}-{time.time_ns()}")
    signal.signal(signal.SIGTERM, _end)
    loop = _Loop()
    memories = {"": loop.settled(open_memory(surroundings), OPENING_SECONDS_MAX)}
    if twin is not None:
        memories[TWIN] = loop.settled(twin(surroundings), OPENING_SECONDS_MAX)
    server = _Server(memories, loop, surroundings)
    others = _Others(surroundings) if surroundings.processes > 1 and not surroundings.process else None
    threading.Thread(target=_end_with_parent, daemon=True).start()
    output.write(json.dumps({"port": server.server_port}) + "\n")
    output.close()
    try:
        server.serve_forever()
    finally:
        server.quiesce()
        if others is not None:
            others.end()
        for memory in memories.values():
            if hasattr(memory, "close"):
                loop.settled(memory.close(), ENDING_SECONDS_MAX)


def _end(*_: Any) -> None:
    """End in good order: what libraries do at the end of a process, they may do."""
    sys.exit(0)


def _end_with_parent() -> None:
    while os.read(0, 4096):
        pass
    os._exit(0)


class _Others:
    """The further processes of a service. They end with the first one, however that ends, and it ends with them."""

    def __init__(self, surroundings: Surroundings) -> None:
        self._children: list[subprocess.Popen[bytes]] = []
        self._is_ending = False
        for number in range(1, surroundings.processes):
            its_own = {**asdict(surroundings), "process": number}
            child = subprocess.Popen(  # noqa: S603  this script again
                [sys.executable, "-P", *sys.argv],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, SURROUNDINGS: json.dumps(its_own)},
            )
            self._children.append(child)
        for child in self._children:
            if not child.stdout or not child.stdout.readline():
                self.end()
                raise RuntimeError("another process of the service did not come up")
            threading.Thread(target=self._watch, args=(child,), daemon=True).start()

    def end(self) -> None:
        self._is_ending = True
        for child in self._children:
            child.terminate()
        for child in self._children:
            with suppress(subprocess.TimeoutExpired):
                child.wait(ENDING_SECONDS_MAX)

    def _watch(self, child: subprocess.Popen[bytes]) -> None:
        child.wait()
        if not self._is_ending:
            os._exit(1)


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

    def __init__(self, memories: dict[str, Any], loop: _Loop, surroundings: Surroundings) -> None:
        self.allow_reuse_port = surroundings.processes > 1
        super().__init__(("127.0.0.1", surroundings.port), _Handler)
        self.memories = memories
        self.loop = loop
        self.started = surroundings.started
        self._under_way = 0
        self._is_ending = False
        self._changed = threading.Condition()

    def quiesce(self) -> None:
        """Take no further request, and wait for those under way: every acknowledgement is sent before the end."""
        with self._changed:
            self._is_ending = True
            self._changed.wait_for(lambda: not self._under_way, ENDING_SECONDS_MAX)

    def begin(self) -> bool:
        """Return whether a request may begin; it has to be ended then."""
        with self._changed:
            self._under_way += not self._is_ending
            return not self._is_ending

    def end(self) -> None:
        with self._changed:
            self._under_way -= 1
            self._changed.notify_all()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that hang up; everything else has been answered and logged."""


class _BadRequestError(Exception):
    pass


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def do_GET(self) -> None:
        memory, path = self._addressed()
        if path == "/v1/health":
            features = ["search"] if hasattr(memory, "search") else []
            name = sys.argv[0].rpartition("/")[2]
            self._answer(
                200, {"contract": CONTRACT, "features": features, "name": name, "started": self.server.started}
            )
        else:
            self._answer(404, {"error": "there is nothing here"})

    def do_POST(self) -> None:
        if not self.server.begin():
            self.close_connection = True
            self._answer(503, {"error": "the service is being stopped", "applied": False})
            return
        try:
            self._ask()
        finally:
            self.server.end()

    def _ask(self) -> None:
        memory, path = self._addressed()
        ask = {"/v1/append": _append, "/v1/history": _history, "/v1/forget": _forget}.get(path)
        if path == "/v1/search" and hasattr(memory, "search"):
            ask = _search
        try:
            question = self._question()
            if ask is None:
                self._answer(404, {"error": "there is nothing here"})
                return
            answer = ask(memory, self.server.loop, question)
        except _BadRequestError as error:
            self._answer(400, {"error": str(error)})
        except RefusedError as error:
            self._answer(422, {"error": str(error)[:ERROR_CHARACTERS_MAX], "applied": False})
        except Exception as error:  # noqa: BLE001  whatever a library raises, it says nothing of what has happened
            traceback.print_exc()
            self._answer(500, {"error": f"{type(error).__name__}: {error}"[:ERROR_CHARACTERS_MAX]})
        else:
            self._answer(200, answer)

    def _addressed(self) -> tuple[Any, str]:
        """Return the memory that is asked, and the path without what names it."""
        memories = self.server.memories
        if TWIN in memories and self.path.startswith(TWIN + "/"):
            return memories[TWIN], self.path.removeprefix(TWIN)
        return memories[""], self.path

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


def _append(memory: Any, loop: _Loop, question: dict[str, Any]) -> dict[str, Any]:
    sent = question.get("message")
    if not isinstance(sent, dict) or not all(isinstance(sent.get(name), str) for name in ("id", "role", "content")):
        raise _BadRequestError("a message has an id, a role and a content, and each is a text")
    message = ChatTurn(sent["id"], sent["role"], sent["content"])
    loop.settled(memory.append(question["session"], message))
    return {"id": message.id}


def _history(memory: Any, loop: _Loop, question: dict[str, Any]) -> dict[str, Any]:
    last = question.get("last")
    if last is not None and (not isinstance(last, int) or last < 1):
        raise _BadRequestError("last is a number from 1 on")
    return _listed(loop.settled(memory.history(question["session"], last)))


def _search(memory: Any, loop: _Loop, question: dict[str, Any]) -> dict[str, Any]:
    text, limit = question.get("text"), question.get("limit")
    if not isinstance(text, str) or not isinstance(limit, int) or limit < 1:
        raise _BadRequestError("a search has a text, and a limit from 1 on")
    return _listed(loop.settled(memory.search(question["session"], text, limit)))


def _forget(memory: Any, loop: _Loop, question: dict[str, Any]) -> dict[str, Any]:
    loop.settled(memory.forget(question["session"]))
    return {"forgotten": True}


def _listed(messages: Sequence[ChatTurn]) -> dict[str, Any]:
    return {"messages": [{"id": one.id, "role": one.role, "content": one.content} for one in messages]}
