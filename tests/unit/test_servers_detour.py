"""The way to a given server through a proxy: what of its address changes, and where there is no such way."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from soak.errors import UsageError
from soak.faults import ALL
from soak.faults.fault import NetworkFault
from soak.hosts import HostPort, parse_cluster, parse_sentinel
from soak.servers.detour import detour_to, detour_to_group
from soak.servers.external.backend import IN_THE_WAY, OVER_THE_WIRE
from soak.servers.kinds import KINDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from soak.hosts import ClusterAddress, SentinelAddress

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
    assert detour.places == (place,)
    assert detour.through(HostPort("127.0.0.1", 7)) == told


@pytest.mark.parametrize(
    ("url", "places", "told"),
    [
        (
            f"postgresql://u:{SECRET}@one,two:2/x?target_session_attrs=read-write",
            [("one", 5432), ("two", 2)],
            f"postgresql://u:{SECRET}@127.0.0.1:7,127.0.0.1:8/x?target_session_attrs=read-write",
        ),
        ("postgresql://one,two/x?port=6", [("one", 6), ("two", 6)], "postgresql://127.0.0.1:7,127.0.0.1:8/x?port=6"),
        ("postgresql://a,[::1]/x?port=6,9", [("a", 6), ("::1", 9)], "postgresql://127.0.0.1:7,127.0.0.1:8/x?port=6,9"),
    ],
)
def test_every_host_of_a_postgres_gets_a_proxy_of_its_own(url: str, places: list[tuple[str, int]], told: str) -> None:
    detour = detour_to(KINDS["postgres"], url)
    assert list(detour.places) == places
    assert detour.through(HostPort("127.0.0.1", 7), HostPort("127.0.0.1", 8)) == told


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
        ("postgres", f"postgresql://u:{SECRET}@one,%2Frun%2Fpostgres/x", "a socket of this machine"),
        ("redis", f"redis://u:{SECRET}@one,two/0", "several hosts"),
        ("redis", f"rediss://u:{SECRET}@cache", "ssl_check_hostname=false"),
        ("postgres", f"postgresql://u:{SECRET}@db/x?sslmode=verify-full", "sslmode=verify-ca"),
    ],
)
def test_where_there_is_no_way_the_reason_is_one_line_without_the_password(kind: str, url: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint) as caught:
        detour_to(KINDS[kind], url)
    assert SECRET not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "parse", "is_opaque"),
    [
        ("redis+sentinel://u:p@s1:26379,s2/memory", parse_sentinel, False),
        ("rediss+sentinel://s1/memory?ssl_check_hostname=false", parse_sentinel, True),
        ("redis+cluster://a:7000,b:7000", parse_cluster, False),
    ],
)
def test_the_address_of_a_group_says_which_proxy_leads_to_which_server(
    url: str, parse: Callable[[str], SentinelAddress | ClusterAddress], is_opaque: bool
) -> None:
    servers = [HostPort("10.0.0.1", 6379), HostPort("fd00::2", 6379)]
    proxies = [HostPort("127.0.0.1", 7), HostPort("127.0.0.1", 8)]
    detour = detour_to_group(url, servers)
    assert detour.is_opaque is is_opaque
    before, after = parse(url), parse(detour.through(*proxies))
    assert after == before._replace(via=dict(zip(servers, proxies, strict=True)))


def test_a_group_whose_certificates_are_compared_with_names_has_no_detour() -> None:
    with pytest.raises(UsageError, match="ssl_check_hostname=false"):
        detour_to_group("rediss+cluster://a:7000", [HostPort("10.0.0.1", 6379)])


def test_a_mode_from_the_environment_counts_as_one_in_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGSSLMODE", "verify-full")
    with pytest.raises(UsageError, match="verify-ca"):
        detour_to(KINDS["postgres"], "postgresql://db/x")
    assert not detour_to(KINDS["postgres"], "postgresql://db/x?sslmode=disable").is_opaque


def test_all_faults_of_the_network_can_be_had_on_the_way_and_nothing_else_is_taken_for_one() -> None:
    assert {name for name, fault in ALL.items() if isinstance(fault, NetworkFault)} == IN_THE_WAY
    assert set(ALL) >= OVER_THE_WIRE
