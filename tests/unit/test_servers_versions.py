"""Server versions by name, and flags that take one in place of an address."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import pytest

from soak.commands.flags import SOAKING, add_flags, read_configuration
from soak.errors import ServerUnreachableError, UsageError
from soak.servers import binaries
from soak.servers.versions import ServerRelease, ServerVersion, next_release, postgres_version, redis_version


@pytest.mark.parametrize(
    ("text", "name", "image"),
    [
        ("6.2", "redis-6.2", "redis:6.2"),
        ("redis-7.4", "redis-7.4", "redis:7.4"),
        ("7.0.15", "redis-7.0.15", "redis:7.0.15"),
        ("valkey", "valkey-9", "valkey/valkey:9.0"),
        ("Valkey-9", "valkey-9", "valkey/valkey:9.0"),
        ("valkey-8.1", "valkey-8.1", "valkey/valkey:8.1"),
        ("redis", "redis-6.2", "redis:6.2"),
    ],
)
def test_a_redis_version_is_read(text: str, name: str, image: str) -> None:
    version = redis_version(text)
    assert (version.name, version.image) == (name, image)


@pytest.mark.parametrize("text", ["", "localhost", "postgres-16", "6.2x", "-6", "7.", "123"])
def test_what_is_no_redis_version_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no address, version or topology; write one like"):
        redis_version(text)


def test_a_postgres_version_is_read() -> None:
    assert postgres_version("16") == postgres_version("postgres-16") == ServerVersion("postgres", "16")
    assert (postgres_version("18").major, postgres_version("18").image) == (18, "postgres:18")


def test_a_version_covers_its_patches_and_nothing_else() -> None:
    assert redis_version("7.0").covers("7.0.15")
    assert redis_version("7").covers("7.4.1")
    assert not redis_version("7.0").covers("7.04.1")
    assert not redis_version("7.0.1").covers("7.0.15")


def read(*words: str) -> dict[str, str]:
    parser = argparse.ArgumentParser()
    add_flags(parser, SOAKING)
    leaves = read_configuration(parser.parse_args(words)).leaves()
    return {leaf.key: f"{leaf.text} from {leaf.origin}" for leaf in leaves}


def test_a_flag_takes_an_address_or_a_version() -> None:
    found = read("--redis", "6.2", "--postgres", "16")
    assert found["servers.redis_version"] == "redis-6.2 from --redis"
    assert found["servers.postgres_version"] == "postgres-16 from --postgres"
    assert found["servers.redis"] == "- from default"
    found = read("--redis", "redis://cache:6379/3")
    assert found["servers.redis"] == "redis://cache:6379/3 from --redis"
    assert found["servers.redis_version"] == "valkey-9 from default"


@pytest.mark.parametrize("words", [("--redis", "localhost"), ("--postgres", "banana"), ("--testbed", "moon")])
def test_a_flag_that_is_neither_is_one_clear_line(words: tuple[str, str]) -> None:
    with pytest.raises(UsageError, match=words[0]) as caught:
        read(*words)
    assert "\n" not in str(caught.value)


def test_a_version_that_cannot_be_had_says_what_to_do() -> None:
    with pytest.raises(
        ServerUnreachableError, match=r"Redis 5\.0 is not available here.*testbed\.redis_binary"
    ) as caught:
        binaries.redis_program(redis_version("5.0"))
    assert "\n" not in str(caught.value)
    with pytest.raises(ServerUnreachableError, match="PostgreSQL 9 is not available here"):
        binaries.postgres_folder(9)


def test_a_program_of_ones_own_is_taken_if_it_is_what_was_asked_for(tmp_path: Path) -> None:
    program = tmp_path / "my-redis"
    shutil.copy(binaries.redis_server(), program)
    assert binaries.redis_program(redis_version("6.2"), program) == program
    with pytest.raises(ServerUnreachableError, match=r"is 6\.2\.\d+, not 7\.0"):
        binaries.redis_program(redis_version("7.0"), program)
    with pytest.raises(ServerUnreachableError, match="is no Redis or Valkey server"):
        binaries.redis_program(redis_version("7.0"), Path("/bin/true"))


def test_a_server_that_is_installed_here_is_found_by_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "redis-server"
    program.write_text("#!/bin/sh\necho 'Redis server v=7.0.15 sha=0'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    binaries.installed_version.cache_clear()
    try:
        assert binaries.redis_program(redis_version("7.0")) == program
        with pytest.raises(ServerUnreachableError, match=r"redis-server is 7\.0\.15"):
            binaries.redis_program(redis_version("7.2"))
    finally:
        binaries.installed_version.cache_clear()


def releases(*names: str) -> list[ServerRelease]:
    return [ServerRelease(redis_version(name)) for name in names]


@pytest.mark.parametrize(
    ("now", "wanted", "expected"),
    [
        ("6.2", None, "redis-7.0"),
        ("7.0", None, "redis-7.2"),
        ("7.2", None, "valkey-8.1"),
        ("8.0", None, None),
        ("7.4", None, None),
        ("valkey-8.1", None, "valkey-9"),
        ("valkey-9", None, None),
        ("6.2", "valkey-9", "valkey-9"),
        ("6.2", "valkey-8", "valkey-8.1"),
        ("6.2", "7.4", None),
        ("valkey-8.1", "7.2", None),
    ],
)
def test_an_upgrade_is_the_next_step_that_can_be_had_unless_another_is_wanted(
    now: str, wanted: str | None, expected: str | None
) -> None:
    have = releases("valkey-9", "7.2", "6.2", "7.0", "valkey-8.1")
    found = next_release(redis_version(now), have, redis_version(wanted) if wanted else None)
    assert (found.version.name if found else None) == expected


def test_patches_are_no_upgrades_and_a_postgres_is_no_redis() -> None:
    assert not redis_version("7.0.15").is_upgrade_of(redis_version("7.0"))
    assert postgres_version("18").is_upgrade_of(postgres_version("16"))
    assert not postgres_version("16").is_upgrade_of(postgres_version("18"))
    assert not postgres_version("18").is_upgrade_of(redis_version("6.2"))
