"""The http store on real sockets: what each answer of a service means, and that nothing is ever sent twice."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientError, web

from soak.checker.message import Garbled, Message
from soak.checker.outcome import NotApplied
from soak.checker.text import MessageGenerator
from soak.errors import ServerUnreachableError, UsageError
from soak.servers.ports import free_port
from soak.stores.http_contract import NOT_APPLIED_STATUSES, HttpAnswerError, parse_address
from soak.stores.protocol import StoreContext
from soak.stores.registry import open_store
from tests.support.http_services import Handler, Service, cut_short, hanging_up, page, serving, silence, with_status
from tests.support.servers.certificates import make_certificate

AUTHOR = MessageGenerator("run-1", 7)
LIMIT_SECONDS = 1.0
SENT = (HttpAnswerError, TimeoutError, ClientError)
"""What is raised once a request has left."""


@pytest.fixture
def service() -> Service:
    return Service()


@pytest.fixture
async def url(service: Service) -> AsyncIterator[str]:
    async with serving(service) as address:
        yield address


@pytest.fixture
async def store(url: str) -> AsyncIterator[Any]:
    opened: Any = await open_store("http", _context(url))
    yield opened
    await opened.close()


def _context(url: str, **changes: Any) -> StoreContext:
    fixed = {"servers": {"http": url}, "namespace": "soak_t", "timeout_seconds": LIMIT_SECONDS}
    return StoreContext(**{**fixed, **changes})


async def test_what_was_said_comes_back_on_one_connection_under_its_namespace(store: Any, service: Service) -> None:
    messages = [AUTHOR.write("s", 0, seq) for seq in range(1, 31)]
    for message in messages:
        await store.append("s", message)
    assert list(await store.history("s")) == messages
    assert list(await store.history("s", 4)) == messages[-4:]
    assert list(await store.history("s", 0)) == []
    assert list(service.sessions) == ["soak_t.s"]
    assert all(isinstance(one, Message) and one.is_intact for one in await store.history("s"))


async def test_cleaning_up_removes_the_namespace_and_nothing_else(store: Any, service: Service) -> None:
    await store.append("s", AUTHOR.write("s", 0, 1))
    service.sessions["soak_t_of_somebody_else.s"].append({"id": "x"})
    await store.clean_up()
    assert list(service.sessions) == ["soak_t_of_somebody_else.s"]


async def test_half_a_character_is_refused_before_it_is_sent(store: Any, service: Service) -> None:
    before = len(service.asked)
    with pytest.raises(NotApplied):
        await store.append("s", Message("r", "s", 0, 1, "user", "\ud800", 1))
    assert len(service.asked) == before


@pytest.mark.parametrize("status", sorted(NOT_APPLIED_STATUSES))
async def test_a_refusal_means_not_applied(store: Any, service: Service, status: int) -> None:
    service.append = _answering(status)
    with pytest.raises(NotApplied):
        await store.append("s", AUTHOR.write("s", 0, 1))


@pytest.mark.parametrize("status", [202, 204, 301, 307, 408, 409, 429, 500, 502, 503, 504])
async def test_any_other_status_leaves_open_what_happened(store: Any, service: Service, status: int) -> None:
    service.append = with_status(service.append, status)
    before = len(service.asked)
    with pytest.raises(HttpAnswerError) as caught:
        await store.append("s", AUTHOR.write("s", 0, 1))
    assert not isinstance(caught.value, NotApplied)
    assert len(service.asked) == before + 1, "it was sent again"


async def test_a_server_error_that_says_so_means_not_applied(store: Any, service: Service) -> None:
    service.append = _answering(503, {"error": "shutting down", "applied": False})
    with pytest.raises(NotApplied):
        await store.append("s", AUTHOR.write("s", 0, 1))


@pytest.mark.parametrize("wrong", [page, silence])
async def test_what_is_no_acknowledgement_acknowledges_nothing(store: Any, service: Service, wrong: Any) -> None:
    service.append = wrong
    with pytest.raises((HttpAnswerError, TimeoutError)) as caught:
        await store.append("s", AUTHOR.write("s", 0, 1))
    assert not isinstance(caught.value, NotApplied)


async def test_an_acknowledgement_of_another_message_is_none(store: Any, service: Service) -> None:
    service.append = with_status(service.append, 200, {"id": "run-1/s/0/99/00000000"})
    with pytest.raises(HttpAnswerError, match="not the message that was sent"):
        await store.append("s", AUTHOR.write("s", 0, 1))


@pytest.mark.parametrize("broken", [hanging_up, cut_short])
async def test_a_lost_answer_is_unknown_and_nothing_is_sent_again(
    store: Any, service: Service, broken: Callable[[Any], Any]
) -> None:
    await store.append("s", AUTHOR.write("s", 0, 1))
    service.append, working = broken(service.append), service.append
    with pytest.raises(SENT) as caught:
        await store.append("s", AUTHOR.write("s", 0, 2))
    assert not isinstance(caught.value, NotApplied)
    service.append = working
    assert len(await store.history("s")) == 2
    assert service.asked.count("/v1/append") == 2


async def test_a_forget_whose_answer_is_lost_is_not_sent_again(store: Any, service: Service) -> None:
    service.forget = hanging_up(service.forget)
    with pytest.raises(SENT) as caught:
        await store.forget("s")
    assert not isinstance(caught.value, NotApplied)
    assert service.asked.count("/v1/forget") == 1


@pytest.mark.parametrize("wrong", [page, silence, "cut", 404, 500, 204])
async def test_what_is_no_history_is_an_error_and_never_an_empty_memory(
    store: Any, service: Service, wrong: Any
) -> None:
    await store.append("s", AUTHOR.write("s", 0, 1))
    if wrong == "cut":
        wrong = cut_short(service.history)
    service.history = _answering(wrong) if isinstance(wrong, int) else wrong
    with pytest.raises(SENT):
        await store.history("s")


async def test_an_item_that_is_no_message_hides_no_other(store: Any, service: Service) -> None:
    message = AUTHOR.write("s", 0, 1)
    await store.append("s", message)
    service.sessions["soak_t.s"].append({"id": "whatever", "role": "user", "content": "hello"})
    service.sessions["soak_t.s"].append("hello")  # type: ignore[arg-type]
    read = await store.history("s")
    assert read[0] == message
    assert [type(one) for one in read[1:]] == [Garbled, Garbled]


async def test_a_service_that_is_away_is_not_applied(service: Service) -> None:
    async with serving(service) as url:
        store: Any = await open_store("http", _context(url))
    try:
        # The connection that is left may still look open; whatever happens on it is not certain.
        with pytest.raises((NotApplied, *SENT)):
            await store.append("s", AUTHOR.write("s", 0, 1))
        with pytest.raises(NotApplied):
            await store.append("s", AUTHOR.write("s", 0, 2))
    finally:
        await store.close()


@pytest.mark.parametrize("wrong", [page, silence])
async def test_an_address_of_something_else_is_one_clear_line(service: Service, url: str, wrong: Any) -> None:
    service.health = wrong
    with pytest.raises(ServerUnreachableError, match="does not answer as a memory") as caught:
        await open_store("http", _context(url))
    assert "\n" not in str(caught.value)


async def test_a_contract_of_the_future_is_refused(service: Service, url: str) -> None:
    service.health = _answering(200, {"contract": "soak-memory/2"})
    with pytest.raises(ServerUnreachableError, match="soak-memory/2"):
        await open_store("http", _context(url))


async def test_the_token_is_sent_and_never_shown(service: Service, url: str) -> None:
    service.token = "sesame/open?"  # noqa: S105
    given = parse_address(url)
    right = type(given)(given.base, service.token).with_token()
    store: Any = await open_store("http", _context(right))
    await store.append("s", AUTHOR.write("s", 0, 1))
    await store.close()
    wrong = type(given)(given.base, "barley").with_token()
    with pytest.raises(ServerUnreachableError, match="401") as caught:
        await open_store("http", _context(wrong))
    assert "barley" not in str(caught.value)
    assert "sesame" not in repr(parse_address(right))
    assert "sesame" not in str(parse_address(right))


async def test_tls_is_checked(service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate = make_certificate(tmp_path)
    ours = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    ours.load_cert_chain(certificate)
    async with serving(service, ssl_context=ours) as url:
        with pytest.raises(ServerUnreachableError, match="certificate"):
            await open_store("http", _context(url))
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        store: Any = await open_store("http", _context(url))
        await store.append("s", AUTHOR.write("s", 0, 1))
        assert len(await store.history("s")) == 1
        await store.close()


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("ftp://host", "none of a web service"),
        ("http://user:secret@host", "bearer token"),
        ("http://host/path?x=1", "ends with its path"),
        ("http://host:seventy", "not understood"),
    ],
)
def test_a_wrong_address_is_one_line_without_its_secret(address: str, told: str) -> None:
    with pytest.raises(UsageError, match=told) as caught:
        parse_address(address)
    assert "secret" not in str(caught.value)


async def test_more_requests_than_connections_wait_in_line(url: str) -> None:
    store: Any = await open_store("http", _context(url, connections_max=2, timeout_seconds=30.0))
    messages = [AUTHOR.write("s", writer, 1) for writer in range(50)]
    await asyncio.gather(*(store.append("s", message) for message in messages))
    assert set(await store.history("s")) == set(messages)
    await store.close()


async def test_nobody_there_is_told_with_the_address() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(ServerUnreachableError, match=url):
        await open_store("http", _context(url))


def _answering(status: int, body: dict[str, Any] | None = None) -> Handler:
    async def answer(_request: web.Request) -> web.StreamResponse:
        return web.json_response(body if body is not None else {"error": "no"}, status=status)

    return answer
