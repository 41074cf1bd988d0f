"""Whole soaks on servers of other versions, in Docker, and on servers that were given."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import pytest

from soak.errors import ExitCode
from tests.support.checking import BUSY, RunningCheck, checking, new_folder, resume
from tests.support.docker.checks import in_docker, left_in_docker

if TYPE_CHECKING:
    from tests.support.docker.images import Images

pytestmark = pytest.mark.long  # each starts, breaks and restarts servers of its own

SHORT = (*BUSY, "--duration", "3s")


def test_a_soak_runs_on_older_servers() -> None:
    words = ("--store", "redis-list", "--store", "postgres", "--redis", "6.2", "--postgres", "16", *SHORT)
    with checking(*words) as check:
        told = check.wait()
        assert (check.process.returncode, told["verdict"]) == (ExitCode.PASS, "pass"), check.output


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--store", "redis-list", "--redis", "5.0"), "Redis 5.0 is not available here"),
        (("--store", "postgres", "--postgres", "9"), "PostgreSQL 9 is not available here"),
    ],
)
def test_a_version_that_cannot_be_had_ends_with_one_clear_line(words: tuple[str, ...], complaint: str) -> None:
    with checking(*words) as check:
        check.process.wait(60)
        assert check.process.returncode == ExitCode.UNREACHABLE
        assert complaint in check.output.splitlines()[-1]


def test_a_soak_in_docker_passes_and_leaves_nothing_behind(engine: Any, images: Images) -> None:
    with checking("--store", "redis-list", "--store", "postgres-replica", *SHORT, *in_docker(images)) as check:
        told = check.wait()
        assert (check.process.returncode, told["verdict"]) == (ExitCode.PASS, "pass"), check.output
        assert left_in_docker(engine, check.data_dir) == []


def test_a_soak_in_docker_whose_daemon_was_killed_is_resumed_on_its_data(engine: Any, images: Images) -> None:
    words = ("--store", "redis-list", *BUSY, "--duration", "60s", *in_docker(images))
    with new_folder() as folder:
        with RunningCheck(folder, *words) as first:
            before = first.until_verified(100)
            first.process.send_signal(signal.SIGKILL)
            first.process.wait()
        second, told = resume(folder, before, *words)
        assert told["result"]["totals"]["unverifiable"] == 0
        assert left_in_docker(engine, second.data_dir) == []
