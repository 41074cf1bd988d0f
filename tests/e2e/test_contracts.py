"""What is promised and what the server gives, from the command line: refused, allowed, derived."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from soak.contracts.presets import PRESETS
from soak.errors import ExitCode
from tests.support.checking import BUSY, checking, new_folder
from tests.support.command import soak

SETTINGS = ("appendonly", "appendfsync", "save", "maxmemory", "maxmemory-policy")


@contextlib.contextmanager
def configured(url: str, **settings: str) -> Iterator[None]:
    """Let a server run with other settings for a while."""
    client: Any = redis.Redis.from_url(url, decode_responses=True)
    before = {name: client.config_get(name)[name] for name in SETTINGS}
    try:
        for name, value in settings.items():
            client.config_set(name.replace("_", "-"), value)
        yield
    finally:
        for name, value in before.items():
            client.config_set(name, value)
        client.close()


@pytest.fixture
def folder() -> Iterator[Path]:
    with new_folder() as folder:
        yield folder


def test_a_promise_that_the_server_cannot_keep_stops_before_anything_is_written(folder: Path) -> None:
    (folder / "soak.toml").write_text('[contract.redis-list]\npreset = "redis-always"\npower_loss_seconds = "2s"\n')
    done = soak("check", "--store", "redis-list", "--duration", "5s", "--plain", cwd=folder)
    assert done.returncode == ExitCode.USAGE, done.stdout + done.stderr
    assert done.stderr == (
        "soak: redis-list promises nothing lost after a crash, but redis as configured gives: at most 2s lost "
        "(AOF everysec); set appendonly yes and appendfsync always, or declare "
        'contract.redis-list.crash_loss_seconds = "2s", or go on all the same with --allow-weaker-server\n'
    )
    assert "running" not in done.stdout


@pytest.mark.long
def test_the_same_run_begins_when_that_is_allowed_and_says_so(redis_url: str) -> None:
    words = ("--store", "redis-list", "--redis", redis_url, "--set", "contract.redis-list.preset=redis-always")
    with checking(*words, "--allow-weaker-server", "--duration", "5m", *BUSY) as check:
        status = check.until(
            lambda now: (now["verifier"] or {}).get("contracts", {}).get("redis-list", {}).get("unmet")
        )
        assert status["verifier"]["contracts"]["redis-list"]["obtained"] == "preset redis-always"
        assert any("promises nothing lost after a crash" in warning for warning in status["warnings"])
        check.until_verified(10)
        told = check.end()
    assert (told["verdict"], told["exit_code"]) == ("pass", ExitCode.PASS), told
    assert any("promises nothing lost after a crash" in reason for reason in told["reasons"])


@pytest.mark.long
def test_a_server_with_saves_alone_is_refused_unless_the_weaker_promise_is_declared(
    redis_url: str, folder: Path
) -> None:
    with configured(redis_url, save="900 1", appendonly="no"):
        listed = soak("stores", "--store", "redis-list", "--redis", redis_url, "--json", cwd=folder)
        assert listed.returncode == ExitCode.PASS, listed.stderr
        described = json.loads(listed.stdout)["redis-list"]
        assert described["contract"]["crash_loss_seconds"] == 2.0
        assert described["obtained"] == "derived from redis, raised to contract.floor"
        shown = soak("stores", "--store", "redis-list", "--redis", redis_url, cwd=folder).stdout
        assert "save 900 1 without AOF, all since the last save: at most 1000s lost after a crash" in shown
        words = ("check", "--store", "redis-list", "--redis", redis_url, "--duration", "5s", "--plain")
        refused = soak(*words, "--set", "contract.redis-list.preset=redis-everysec", cwd=folder)
        assert refused.returncode == ExitCode.USAGE, refused.stdout + refused.stderr
        assert len(refused.stderr.splitlines()) == 2
        assert "set appendonly yes and appendfsync everysec" in refused.stderr
        refused = soak(*words, cwd=folder)
        assert refused.returncode == ExitCode.USAGE, refused.stdout + refused.stderr
        assert "at most 1000s lost" in refused.stderr
        preset = ("--set", "contract.redis-list.preset=redis-rdb")
        assert " ".join(preset) in refused.stderr
        with checking("--store", "redis-list", "--redis", redis_url, *preset, "--duration", "5m", *BUSY) as check:
            status = check.until(lambda now: (now["verifier"] or {}).get("contracts"))
            assert status["verifier"]["contracts"]["redis-list"]["obtained"] == "preset redis-rdb"
            check.until_verified(10)
            told = check.end()
    assert told["verdict"] == "pass", told
    assert told["result"]["contracts"] == {"redis-list": "preset redis-rdb"}


def test_a_server_that_evicts_is_refused_though_nothing_is_declared(redis_url: str, folder: Path) -> None:
    with configured(redis_url, maxmemory="900mb", maxmemory_policy="allkeys-lru"):
        done = soak("check", "--store", "redis-list", "--redis", redis_url, "--duration", "5s", "--plain", cwd=folder)
    assert done.returncode == ExitCode.USAGE, done.stdout + done.stderr
    assert done.stderr.startswith("soak: redis-list promises that nothing is evicted, but redis as configured gives:")
    assert "contract.redis-list.eviction_allowed = true" in done.stderr


def test_an_unknown_preset_is_one_line(folder: Path) -> None:
    done = soak("check", "--store", "redis-list", "--set", "contract.redis-list.preset=redis-everysecond", cwd=folder)
    assert done.returncode == ExitCode.USAGE
    assert done.stderr.count("\n") == 1
    assert "no such preset, did you mean redis-everysec?" in done.stderr


def test_presets_are_listed(folder: Path) -> None:
    done = soak("stores", "--presets", cwd=folder)
    assert done.returncode == ExitCode.PASS, done.stderr
    names = [line.split()[0] for line in done.stdout.splitlines()[1:]]
    assert names == list(PRESETS)
    assert {"redis-everysec", "sentinel-async", "patroni-sync", "sqlite-full", "memorydb", "cache"} <= {*names}
