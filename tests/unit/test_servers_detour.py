"""The way to a given server through a proxy: what of its address changes, and where there is no such way."""

from __future__ import annotations

import pytest

from soak.errors import UsageError
from soak.faults import ALL
from soak.faults.fault import NetworkFault
from soak.servers.detour import detour_to
from soak.servers.external.backend import IN_THE_WAY, OVER_THE_WIRE
from soak.servers.kinds import KINDS

SECRET = "p%40ss:w0rd"  # noqa: S105  of nobody


@pytest.mark.parametrize(
    ("kind", "url", "place", "told"),
    [
        ("redis", "redis://cache", ("cache", 6379), "redis://127.0.0.1:7"),
        ("redis", f"redis://me:{SECRET}@cache:6380/3?a=b", ("cache", 6380), f"redis://me:{SECRET}@127.0.0.1:7/3?a=b"),
        ("redis", "redis://[::1]:6380/3", ("::1", 6380), "redis://127.0.0.1:7/3"),
        ("redis", "redis://:a@b@cache:1/0", ("cache", 1), "redis://:a@b@127.0.0.1:7/0"),
        ("postgres", "postgresql://u@db/x", ("db", 5432), "postgresql://u@127.0.0.1:7/x"),
        (
            "postgres",
            f"postgres://u:{SECRET}@db:6/x?sslmode=verify-ca&sslrootcert=/ca.pem",
            ("db", 6),
            f"postgres://u:{SECRET}@127.0.0.1:7/x?sslmode=verify-ca&sslrootcert=/ca.pem",
        ),
        (
            "postgres-replica",
            "postgresql://db/x?port=6&sslmode=disable",
            ("db", 6),
            "postgresql://127.0.0.1:7/x?port=6&sslmode=disable",
        ),
    ],
)
def test_an_address_keeps_all_but_its_place(kind: str, url: str, place: tuple[str, int], told: str) -> None:
    detour = detour_to(KINDS[kind], url)
    assert (detour.host, detour.port) == place
    assert detour.through("127.0.0.1", 7) == told


@pytest.mark.parametrize(
    ("kind", "url", "is_opaque"),
    [
        ("redis", "redis://cache", False),
        ("redis", "rediss://cache?ssl_check_hostname=false", True),
        ("redis", "rediss://cache?ssl_cert_reqs=none", True),
        ("postgres", "postgresql://db/x?sslmode=disable", False),
        ("postgres", "postgresql://db/x?sslmode=require", True),
        ("postgres", "postgresql://db/x", True),
    ],
)
def test_what_may_be_encrypted_is_opaque(kind: str, url: str, is_opaque: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PGSSLMODE", raising=False)
    assert detour_to(KINDS[kind], url).is_opaque is is_opaque


@pytest.mark.parametrize(
    ("kind", "url", "complaint"),
    [
        ("redis", f"unix://:{SECRET}@/run/redis.sock", "a socket of this machine"),
        ("postgres", f"postgresql://u:{SECRET}@%2Frun%2Fpostgres/x", "a socket of this machine"),
        ("postgres", "postgresql:///x", "names no host"),
        ("postgres", f"postgresql://u:{SECRET}@one,two/x", "several hosts .one,two."),
        ("postgres", f"postgresql://u:{SECRET}@one:1,two:2/x", "several hosts .one:1,two:2."),
        ("redis", f"rediss://u:{SECRET}@cache", "ssl_check_hostname=false"),
        ("postgres", f"postgresql://u:{SECRET}@db/x?sslmode=verify-full", "sslmode=verify-ca"),
    ],
)
def test_where_there_is_no_way_the_reason_is_one_line_without_the_password(kind: str, url: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint) as caught:
        detour_to(KINDS[kind], url)
    assert SECRET not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_mode_from_the_environment_counts_as_one_in_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGSSLMODE", "verify-full")
    with pytest.raises(UsageError, match="verify-ca"):
        detour_to(KINDS["postgres"], "postgresql://db/x")
    assert not detour_to(KINDS["postgres"], "postgresql://db/x?sslmode=disable").is_opaque


def test_all_faults_of_the_network_can_be_had_on_the_way_and_nothing_else_is_taken_for_one() -> None:
    assert {name for name, fault in ALL.items() if isinstance(fault, NetworkFault)} == IN_THE_WAY
    assert set(ALL) >= OVER_THE_WIRE
