"""Which reply acknowledges a write, however the bytes come in parts."""

from __future__ import annotations

import pytest

from soak.servers.exchange import HttpExchange, PostgresExchange, RedisExchange


def message(kind: bytes, body: bytes) -> bytes:
    return kind + (len(body) + 4).to_bytes(4) + body


READY = message(b"Z", b"I")
IN_TRANSACTION = message(b"Z", b"T")
INSERTED = message(b"C", b"INSERT 0 1\0")
COMMITTED = message(b"C", b"COMMIT\0")
SELECTED = message(b"C", b"SELECT 1\0")
LOOKS_LIKE_ONE = message(b"D", (INSERTED + READY) * 100)


def in_parts(data: bytes, size: int) -> list[bytes]:
    return [data[place : place + size] for place in range(0, len(data), size)]


def command(*words: bytes) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 6, 7, 11, 16, 22, 44, 100, 10_000])
@pytest.mark.parametrize(
    ("answer", "times"),
    [
        (message(b"R", b"\0\0\0\0") + message(b"S", b"name\0value\0") * 10 + READY, 0),
        (message(b"1", b"") + message(b"t", b"\0\0") + READY, 0),
        (message(b"2", b"") + INSERTED + READY, 1),
        (SELECTED + READY, 0),
        (LOOKS_LIKE_ONE + SELECTED + READY, 0),
        (LOOKS_LIKE_ONE + SELECTED + READY + INSERTED + READY + SELECTED + READY + INSERTED + READY, 2),
        (INSERTED + IN_TRANSACTION, 0),
        (INSERTED + IN_TRANSACTION + INSERTED + IN_TRANSACTION + COMMITTED + READY, 1),
    ],
)
def test_postgres_acknowledges_when_it_is_ready_after_a_write(answer: bytes, times: int, size: int) -> None:
    exchange = PostgresExchange()
    parts = in_parts(answer, size)
    found = sum(exchange.acknowledges(part) for part in parts)
    # Several in one part are one reply to lose.
    assert found == times if size <= len(READY) else found <= times
    assert (found > 0) == (times > 0)


@pytest.mark.parametrize(("answer", "acknowledged"), [(b"N", True), (b"S", False)])
def test_the_bare_answer_to_a_request_for_encryption_is_passed_over(answer: bytes, acknowledged: bool) -> None:
    exchange = PostgresExchange()
    exchange.requested(b"\x00\x00\x00\x08\x04\xd2\x16\x2f")
    assert not exchange.acknowledges(answer)
    # What is encrypted cannot be read, and is not guessed at.
    assert exchange.acknowledges(INSERTED + READY) is acknowledged


@pytest.mark.parametrize(
    ("request_", "reply", "acknowledged"),
    [
        (command(b"RPUSH", b"session", b"text"), b":1\r\n", True),
        (command(b"rpush", b"session", b"text"), b":1\r\n", True),
        (command(b"JSON.SET", b"session", b"$", b"{}"), b"+OK\r\n", True),
        (command(b"LRANGE", b"session", b"0", b"-1"), b"*0\r\n", False),
        (command(b"HELLO", b"3", b"AUTH", b"default", b"RPUSH"), b"%0\r\n", False),
        (command(b"LLEN", b"session") + command(b"RPUSH", b"session", b"text"), b":0\r\n", True),
        (command(b"MULTI"), b"+OK\r\n", False),
        (command(b"RPUSH", b"session", b"text"), b"+QUEUED\r\n", False),
        (command(b"EXEC"), b"*1\r\n:1\r\n", True),
    ],
)
def test_redis_acknowledges_what_may_write(request_: bytes, reply: bytes, acknowledged: bool) -> None:
    exchange = RedisExchange()
    exchange.requested(request_)
    assert exchange.acknowledges(reply) is acknowledged
    # The rest of an answer acknowledges nothing more.
    assert not exchange.acknowledges(b"rest")


def test_a_redis_request_in_parts_is_one_request() -> None:
    exchange = RedisExchange()
    for part in in_parts(command(b"RPUSH", b"session", b"x" * 1_000), 400):
        exchange.requested(part)
    assert exchange.acknowledges(b":1\r\n")


@pytest.mark.parametrize(
    ("request_line", "answer", "is_acknowledgement"),
    [
        (b"POST /v1/append HTTP/1.1", b"HTTP/1.1 200 OK", True),
        (b"POST /twin/v1/forget HTTP/1.1", b"HTTP/1.1 201 Created", True),
        (b"POST /v1/append HTTP/1.1", b"HTTP/1.1 500 no", False),
        (b"POST /v1/history HTTP/1.1", b"HTTP/1.1 200 OK", False),
        (b"POST /v1/search HTTP/1.1", b"HTTP/1.1 200 OK", False),
        (b"GET /v1/health HTTP/1.1", b"HTTP/1.1 200 OK", False),
        (b"POST /api/v2/tenants/t/databases/d/collections/1/add HTTP/1.1", b"HTTP/1.1 201 Created", True),
        (b"POST /api/v2/tenants/t/databases/d/collections/1/get HTTP/1.1", b"HTTP/1.1 200 OK", False),
    ],
)
def test_a_write_over_http_is_acknowledged_by_its_path_and_its_status(
    request_line: bytes, answer: bytes, *, is_acknowledgement: bool
) -> None:
    exchange = HttpExchange()
    exchange.requested(request_line + b"\r\nContent-Length: 9\r\n\r\n")
    exchange.requested(b'{"a": "b"')
    assert exchange.acknowledges(answer + b"\r\n") is is_acknowledgement
    assert not exchange.acknowledges(b"the rest of it"), "a reply is lost once"
