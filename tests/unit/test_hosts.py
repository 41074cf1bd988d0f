"""Addresses that name several hosts, and those of sentinels."""

from __future__ import annotations

import pytest

from soak.hosts import HostPort, hosts_of, is_cluster, is_sentinel, parse_cluster, parse_sentinel


@pytest.mark.parametrize(
    ("url", "hosts"),
    [
        ("redis://:secret@cache:6379/0", [("cache", 6379)]),
        ("postgresql://soak:p%40ss@a:1,b,[::1]:3/memory", [("a", 1), ("b", None), ("::1", 3)]),
        ("unix:///run/redis.sock", []),
    ],
)
def test_every_host_of_an_address_is_found(url: str, hosts: list[tuple[str, int | None]]) -> None:
    assert list(hosts_of(url)) == [HostPort(*host) for host in hosts]


def test_a_port_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="Port"):
        hosts_of("redis://a:1,b:many/0")


def test_the_address_of_sentinels_names_the_primary_and_both_logins() -> None:
    url = "rediss+sentinel://app:p%40ss@a,b:5000/my%20primary/3?sentinel_password=s%26t&ssl_ca_certs=/ca.pem"
    found = parse_sentinel(url)
    assert is_sentinel(url)
    assert found.sentinels == (HostPort("a", 26379), HostPort("b", 5000))
    assert (found.service, found.database) == ("my primary", 3)
    assert (found.username, found.password, found.sentinel_password) == ("app", "p@ss", "s&t")
    assert found.is_encrypted
    assert found.ssl == {"ssl_ca_certs": "/ca.pem"}


def test_its_text_form_holds_no_secret() -> None:
    found = parse_sentinel("redis+sentinel://:p4ss@a:1,b:2/main?sentinel_password=s3nt")
    assert f"{found} {found!r}" == "main of the sentinels a:1, b:2 SentinelAddress(main of the sentinels a:1, b:2)"


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("redis+sentinel://a:1,b:2", "which primary"),
        ("redis+sentinel:///main", "no sentinel"),
        ("redis+sentinel://a/main/first", "database"),
        ("redis+sentinel://a/main?passwrod=x", "passwrod"),
    ],
)
def test_an_address_that_lacks_something_is_refused_with_an_example(url: str, why: str) -> None:
    with pytest.raises(ValueError, match=why) as refused:
        parse_sentinel(url)
    assert "redis+sentinel://" in str(refused.value)


def test_the_address_of_a_cluster_names_nodes_and_a_login() -> None:
    url = "rediss+cluster://app:p%40ss@a,b:7000?ssl_cert_reqs=none"
    found = parse_cluster(url)
    assert is_cluster(url)
    assert not is_sentinel(url)
    assert found.nodes == (HostPort("a", 6379), HostPort("b", 7000))
    assert (found.username, found.password, found.is_encrypted) == ("app", "p@ss", True)
    assert found.ssl == {"ssl_cert_reqs": "none"}
    assert f"{found} {found!r}" == "the cluster a:6379, b:7000 ClusterAddress(the cluster a:6379, b:7000)"


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("redis+cluster://", "no node"),
        ("redis+cluster://a/3", "database"),
        ("redis+cluster://a?sentinel_password=x", "sentinel_password"),
    ],
)
def test_an_address_of_a_cluster_that_cannot_be_one_is_refused_with_an_example(url: str, why: str) -> None:
    with pytest.raises(ValueError, match=why) as refused:
        parse_cluster(url)
    assert "redis+cluster://" in str(refused.value)
