"""Power cuts by file system in a whole soak, from packages and in Docker: what they take is judged, nothing is left."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from typing import TYPE_CHECKING, Any

import pytest

from soak.errors import ExitCode
from soak.servers.power_cut import loops
from tests.support.checking import BUSY, RunningCheck, checking, kinds_by_store, new_folder, resume, total
from tests.support.docker.checks import in_docker, left_in_docker
from tests.support.fault_rules import LONG_HOLD, rule, scheduled, under_way

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.docker.images import Images

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("own_disks")]

BY_FILE_SYSTEM = ("--set", "testbed.power_cut=filesystem", "--set", "testbed.disk=256m")
SYNC_SECONDS = 0.01
REFUSAL_SECONDS_MAX = 180.0
CUTS = scheduled(rule("power_cut", "redis", every="3s"))


def left_of(folder: Path) -> list[str]:
    return [str(loop.device) for loop in loops.loops() if loop.image.is_relative_to(folder.resolve())]


def is_down(status: dict[str, Any]) -> bool:
    states = {server["kind"]: server["state"] for server in status["servers"]}
    return under_way(status, "power_cut") and states["redis"] == "stopped"


def test_a_server_that_syncs_every_second_and_is_held_to_always_is_found_out() -> None:
    # Nothing is forgotten here: a cut that takes a forget brings back what was forgotten, which is reported, too.
    held = (
        *("--set", "contract.redis-list.preset=redis-always", "--allow-weaker-server"),
        "--set",
        "load.forget_share=0",
    )
    words = ("--store", "redis-list", *BUSY, *BY_FILE_SYSTEM, *CUTS, *held)
    with checking(*words, "--duration", "60s", "--set", "faults.abort_after_violations=1") as check:
        told = check.wait()
        assert (check.process.returncode, told["verdict"]) == (ExitCode.VIOLATION, "violation"), check.output
        assert set(kinds_by_store(told["result"])["redis-list"]) <= {"lost", "rolled_back"}
        assert {one["probable_cause"]["cause"] for one in check.evidence()} == {"unsynced tail"}
        assert left_of(check.data_dir) == []


def sync_beside(folder: Path, is_over: threading.Event) -> None:
    """Be a neighbour on the same file system who syncs small things of its own all the time."""
    while not is_over.wait(SYNC_SECONDS):
        for loop in loops.loops():
            if not loop.image.is_relative_to(folder.resolve()):
                continue
            for mounted in loops.mounts_of(loop.number):
                with contextlib.suppress(OSError), (mounted.point / "neighbour").open("wb") as file:
                    file.write(b"x")
                    file.flush()
                    os.fsync(file.fileno())


def test_a_server_that_refuses_its_data_after_a_cut_is_repaired_told_of_and_judged_as_always() -> None:
    with checking("--store", "redis-list", *BUSY, *BY_FILE_SYSTEM, *CUTS, "--duration", "300s") as check:
        is_over = threading.Event()
        neighbour = threading.Thread(target=sync_beside, args=(check.data_dir, is_over))
        neighbour.start()
        try:
            check.until(lambda _: "refused to start after the power cut" in check.output, REFUSAL_SECONDS_MAX)
            told = check.end()
        finally:
            is_over.set()
            neighbour.join()
        assert (check.process.returncode, told["verdict"], told["reasons"]) == (ExitCode.PASS, "pass", []), check.output
        assert any("In production it stays down until somebody does that" in note for note in told["notes"])
        assert left_of(check.data_dir) == []


def test_in_docker_what_is_lost_inside_the_contract_is_tolerated_and_nothing_is_left(
    engine: Any, images: Images
) -> None:
    words = ("--store", "redis-list", *BUSY, *CUTS, *in_docker(images), "--set", "testbed.disk=256m")
    with checking(*words, "--duration", "60s") as check:
        check.until(lambda now: len([one for one in now["faults_recent"] if one["state"] == "healed"]) >= 2)
        told = check.end()
        assert (check.process.returncode, told["verdict"], told["reasons"]) == (ExitCode.PASS, "pass", []), check.output
        assert {one["kind"] for one in told["result"]["recoveries"]} == {"power_cut"}
        assert left_of(check.data_dir) == []
        assert left_in_docker(engine, check.data_dir) == []


def test_a_daemon_killed_in_the_middle_of_a_power_cut_is_resumed_on_its_disk() -> None:
    with new_folder() as folder:
        words = ("--store", "redis-list", *BUSY, *BY_FILE_SYSTEM, "--duration", "300s")
        with RunningCheck(folder, *words, *scheduled(rule("power_cut", "redis", hold=LONG_HOLD))) as first:
            before = first.until(lambda now: is_down(now) and total(now, "verified") > 0)
            first.process.send_signal(signal.SIGKILL)
            first.process.wait()
        # Without any fault, and so without a need for disks: the data is where it was all the same.
        second, _ = resume(folder, before, *words)
        assert "healed power_cut of redis" in second.output
        assert left_of(folder) == []
