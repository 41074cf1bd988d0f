"""Single cells of the recovery matrix on real servers: their signs are those of the configurations."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from soak.faults.fault import FaultUnavailableError
from soak.scenarios.recovery_matrix.judgement import RecoveryCell, RecoveryMeasurement, RecoveryVerdict
from soak.scenarios.recovery_matrix.scenario import ACKNOWLEDGED_MIN, CONFIGURATIONS, RecoveryScenario, plan_cells
from soak.scenarios.scenario import ServerSetup
from soak.servers import power_cut
from tests.support.needs import missing

if TYPE_CHECKING:
    from tests.support.docker.images import Images

pytestmark = pytest.mark.long  # each starts, breaks and restarts servers of its own

TRIES_MAX = 3


@pytest.fixture
def power(tmp_path: Path) -> None:
    """Skip where the power of a server cannot be cut."""
    try:
        power_cut.build(tmp_path)
    except power_cut.PowerCutUnavailableError as error:
        missing(error)


def plan(configuration: str, fault: str, *, preset: str | None = None, **servers: Any) -> RecoveryScenario:
    [scenario] = plan_cells([configuration], [fault], ServerSetup(**servers), 1.0, preset)
    return scenario


def measured(result: RecoveryCell) -> RecoveryMeasurement:
    assert result.measured is not None
    assert result.measured.acknowledged >= ACKNOWLEDGED_MIN
    assert result.recovery_seconds > 0
    return result.measured


@pytest.mark.parametrize("redis", ["valkey", "6.2"])
async def test_a_clean_stop_saves_everything(tmp_path: Path, redis: str) -> None:
    result = await plan("rdb-900", "restart", redis=redis).run(tmp_path)
    found = measured(result)
    assert (found.lost, found.promised_seconds) == (0, 0.0)
    assert result.verdict is RecoveryVerdict.INSIDE
    assert result.server.startswith("Valkey 9" if redis == "valkey" else "Redis 6.2")


async def test_a_shutdown_without_saving_spares_the_append_only_file(tmp_path: Path) -> None:
    assert measured(await plan("aof-no", "shutdown_nosave").run(tmp_path / "aof")).lost == 0
    found = measured(await plan("rdb-900", "shutdown_nosave").run(tmp_path / "rdb"))
    assert (found.lost, found.promised_seconds) == (found.acknowledged, 1000.0)


@pytest.mark.usefixtures("power")
async def test_a_file_synced_every_second_stays_inside_its_contract_in_a_power_cut(tmp_path: Path) -> None:
    lost = 0
    for number in range(TRIES_MAX):
        result = await plan("aof-everysec", "power_cut").run(tmp_path / str(number))
        assert result.verdict is RecoveryVerdict.INSIDE, result.reasons
        lost += measured(result).lost
        if lost:  # hardly ever not: then the sync and the cut met
            break
    assert lost


@pytest.mark.usefixtures("power")
async def test_a_file_synced_always_loses_nothing_in_a_power_cut(tmp_path: Path) -> None:
    result = await plan("aof-always", "power_cut").run(tmp_path)
    assert measured(result).lost == 0
    assert result.verdict is RecoveryVerdict.INSIDE


async def test_postgres_that_waits_for_the_disk_loses_nothing_in_a_crash(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    result = await plan("postgres-sync", "crash", postgres="16").run(tmp_path)
    assert (measured(result).lost, measured(result).promised_seconds) == (0, 0.0)
    assert result.verdict is RecoveryVerdict.INSIDE
    assert result.server.startswith("PostgreSQL 16")


@pytest.mark.usefixtures("power")
async def test_postgres_that_does_not_wait_stays_inside_its_contract_in_a_power_cut(tmp_path: Path) -> None:
    result = await plan("postgres-async", "power_cut").run(tmp_path)
    assert measured(result).promised_seconds == 1.0
    assert result.verdict is RecoveryVerdict.INSIDE, result.reasons


@pytest.mark.usefixtures("power")
async def test_a_server_that_is_weaker_than_what_is_declared_is_found_out(tmp_path: Path) -> None:
    result = await plan("aof-no", "power_cut", preset="redis-always").run(tmp_path)
    assert measured(result).beyond > 0
    assert result.verdict is RecoveryVerdict.BEYOND
    assert "promised is: nothing lost" in result.reasons[0]


@pytest.mark.usefixtures("own_disks")
async def test_a_power_cut_by_file_system_takes_the_unsynced_tail_and_nothing_that_was_synced(tmp_path: Path) -> None:
    held: dict[str, Any] = {"preset": "redis-always", "power_cut": "filesystem"}
    for number in range(TRIES_MAX):
        result = await plan("aof-everysec", "power_cut", **held).run(tmp_path / str(number))
        if measured(result).lost:  # hardly ever not: then the sync and the cut met
            break
    assert result.verdict is RecoveryVerdict.BEYOND
    assert "promised is: nothing lost" in result.reasons[0]
    kept = await plan("aof-always", "power_cut", **held).run(tmp_path / "always")
    assert (measured(kept).lost, kept.verdict) == (0, RecoveryVerdict.INSIDE)


@pytest.mark.usefixtures("own_disks")
async def test_in_docker_a_crash_spares_the_page_cache_and_a_power_cut_does_not(tmp_path: Path, images: Images) -> None:
    def docker(fault: str) -> RecoveryScenario:
        return plan("aof-no", fault, testbed="docker", redis_image=images["valkey-9"])

    assert measured(await docker("crash").run(tmp_path / "crash")).lost == 0
    result = await docker("power_cut").run(tmp_path / "cut")
    assert measured(result).lost == measured(result).acknowledged
    assert result.verdict is RecoveryVerdict.INSIDE


async def test_the_promise_is_the_servers_own_and_not_the_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    misnamed = msgspec.structs.replace(CONFIGURATIONS["none"], name="aof-always")
    monkeypatch.setitem(CONFIGURATIONS, "aof-always", misnamed)
    result = await plan("aof-always", "crash").run(tmp_path)
    found = measured(result)
    assert (found.lost, found.promised_seconds) == (found.acknowledged, None)
    assert found.recovery_point_seconds > 0.5
    assert result.verdict is RecoveryVerdict.INSIDE
    assert result.origin.startswith("neither AOF nor save: anything may be lost")


async def test_without_a_compiler_there_is_no_power_cut_and_no_cell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("soak.servers.power_cut.fsync_shim.COMPILERS", ())
    with pytest.raises(FaultUnavailableError, match="no C compiler"):
        await plan("none", "power_cut").run(tmp_path)
