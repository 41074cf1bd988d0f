"""The words that the http store and a service speak with each other: paths, names of messages, what an answer means.

Everything but the question whether the service is there is a POST with a JSON body. Session ids travel in the body,
because proxies and frameworks disagree about what a slash or a percent sign in a path is. Reads are POSTs, too, for
anybody on the way may answer a GET from a cache. `soak conformance --openapi` prints the whole contract.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar
from urllib.parse import quote, unquote, urlsplit, urlunsplit

import msgspec

from soak.checker.message import Garbled, Message, Stored
from soak.checker.outcome import NotApplied
from soak.errors import UsageError
from soak.json_input import decode_json

CONTRACT = "soak-memory/1"

HEALTH = "/v1/health"
APPEND = "/v1/append"
HISTORY = "/v1/history"
FORGET = "/v1/forget"
SEARCH = "/v1/search"
CLEAN_UP = "/v1/clean-up"

NOT_APPLIED_STATUSES = frozenset({400, 401, 403, 404, 405, 406, 410, 411, 413, 414, 415, 422, 431, 501})
"""The service saw the request, refused it, and has changed nothing.

A 408, 500, 502, 503 or 504 says nothing of the kind: the sender may have lost the answer of a server that did the
work. A 409 or 429 may be the answer to a second try that a gateway made by itself, after the first was applied. A
service that knows better says so in the body: `{"applied": false}`.
"""
EXCERPT_BYTES = 80

T = TypeVar("T")


class HttpAnswerError(Exception):
    """The service answered with something that the contract does not know: nothing follows from it."""


class HttpRefusedError(HttpAnswerError, NotApplied):
    """The service said that it has changed nothing."""


class Wire(msgspec.Struct, frozen=True, kw_only=True):
    """A message as it is sent and read back. Further fields that a service adds are none of our business."""

    id: str
    role: str
    content: str


class Appended(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to an append: the id of what is now remembered."""

    id: str


class Forgotten(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a forget."""

    forgotten: bool


class CleanedUp(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a clean-up."""

    removed: int


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """What a service says of itself."""

    contract: str
    features: list[str] = []
    """Of `search` and `clean-up`, those it has."""
    name: str = ""
    started: str = ""
    """Anything that changes with each start: without it a restart cannot be noticed."""


class _Answer(msgspec.Struct, frozen=True, kw_only=True):
    messages: list[msgspec.Raw]


class _Refusal(msgspec.Struct, frozen=True, kw_only=True):
    applied: bool | None = None
    error: str = ""


_ANSWER = msgspec.json.Decoder(_Answer)
_WIRE = msgspec.json.Decoder(Wire)
_REFUSAL = msgspec.json.Decoder(_Refusal)


def to_wire(message: Message) -> Wire:
    """Give a message an id that says which one it is, with the checksum of its content: opaque to the service."""
    name = f"{message.run}/{message.session}/{message.writer}/{message.seq}/{message.checksum:08x}"
    return Wire(id=name, role=message.role, content=message.content)


def named(wire: Wire) -> Message:
    """Make the message again whose name and checksum are in the id; raises `ValueError` where they are not."""
    run, rest = wire.id.split("/", 1)
    session, writer, seq, checksum = rest.rsplit("/", 3)
    return Message(run, session, int(writer), int(seq), wire.role, wire.content, int(checksum, 16))


def from_wire(raw: bytes) -> Stored:
    """Decode one item of a reply as a message; anything else is kept as it came."""
    try:
        return named(_WIRE.decode(raw))
    except (ValueError, TypeError) as error:
        return Garbled(raw=bytes(raw), reason=f"this is no message with id, role and content: {error}")


def read_messages(body: bytes) -> Sequence[Stored]:
    """Read the answer to a history or a search; one bad item hides no other."""
    try:
        items = _ANSWER.decode(body).messages
    except (ValueError, TypeError) as error:
        raise HttpAnswerError(f"the answer is not {{'messages': [...]}} ({error}): {excerpt(body)}") from None
    return [from_wire(bytes(item)) for item in items]


def check_acknowledgement(status: int, body: bytes, wanted_id: str) -> None:
    """Return if this answer says that the message is remembered; raises what it says otherwise."""
    answer = expect(status, body, Appended, allowed=(200, 201))
    if answer.id != wanted_id:
        raise HttpAnswerError(f"the answer acknowledges {answer.id!r}, not the message that was sent")


def check_forgotten(status: int, body: bytes) -> None:
    """Return if this answer says that the session is forgotten; raises what it says otherwise."""
    if not expect(status, body, Forgotten).forgotten:
        raise HttpRefusedError("the service says that it did not forget")


def check_history(status: int, body: bytes) -> Sequence[Stored]:
    """Return the messages of an answer to a history; anything else but a history is no history, and no loss either."""
    if status != 200:
        raise HttpAnswerError(f"status {status} instead of a history: {excerpt(body)}")
    return read_messages(body)


def read_cleaned_up(status: int, body: bytes) -> int:
    return expect(status, body, CleanedUp).removed


def read_health(status: int, body: bytes) -> Health:
    return expect(status, body, Health)


def refuses(status: int, body: bytes) -> bool:
    """Whether an answer that acknowledges nothing says for certain that nothing was changed."""
    if status in NOT_APPLIED_STATUSES:
        return True
    try:
        return _REFUSAL.decode(body).applied is False
    except (ValueError, TypeError):
        return False


def excerpt(body: bytes) -> str:
    """Show the beginning of an answer in one line."""
    text = " ".join(body[:EXCERPT_BYTES].decode("utf-8", "backslashreplace").split())
    return repr(text + ("…" if len(body) > EXCERPT_BYTES else ""))


def expect(status: int, body: bytes, kind: type[T], allowed: tuple[int, ...] = (200,)) -> T:
    """Read an answer of one of these statuses; raises what any other one says, or that it is not understood."""
    if status not in allowed:
        error = HttpRefusedError if refuses(status, body) else HttpAnswerError
        raise error(f"status {status}: {excerpt(body)}")
    try:
        return decode_json(body, type=kind)
    except (ValueError, TypeError) as error:
        raise HttpAnswerError(
            f"status {status}, but the body is not what the contract says ({error}): {excerpt(body)}"
        ) from None


# The address of a memory behind HTTP: where it is, and the token that opens it.


SCHEMES = ("http", "https")


@dataclass(frozen=True)
class HttpAddress:
    """Without the token this is what may be shown."""

    base: str
    """Ends without a slash."""
    token: str | None = field(default=None, repr=False)

    def __str__(self) -> str:
        return self.base

    @property
    def is_encrypted(self) -> bool:
        return self.base.startswith("https:")

    def url(self, path: str) -> str:
        return self.base + path

    def with_token(self) -> str:
        """Return it as one text, the way addresses of all servers are handed on: the token stands as a password."""
        if self.token is None:
            return self.base
        parts = urlsplit(self.base)
        return urlunsplit(parts._replace(netloc=f":{quote(self.token, safe='')}@{parts.netloc}"))


def parse_address(text: str) -> HttpAddress:
    """Read `https://[:token@]host[:port][/path]`; raises `UsageError` with what is wrong, without the token."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise UsageError(f"the address of the http store is not understood ({error}); {_EXAMPLE}") from None
    if parts.scheme not in SCHEMES or not parts.hostname:
        raise UsageError(f"the address of the http store is none of a web service; {_EXAMPLE}")
    if parts.username:
        raise UsageError("the http store logs in with a bearer token, not with a user; give it in servers.http_token")
    if parts.query or parts.fragment:
        raise UsageError(f"the address of the http store ends with its path, not with ? or #; {_EXAMPLE}")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    where = host if port is None else f"{host}:{port}"
    token = unquote(parts.password) if parts.password else None
    return HttpAddress(urlunsplit((parts.scheme, where, parts.path.rstrip("/"), "", "")), token)


_EXAMPLE = "write one like https://chat.staging.example/memory"
