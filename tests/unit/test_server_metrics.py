"""What servers say of themselves becomes metrics only where it is a number that somebody can vouch for."""

from __future__ import annotations

import pytest

from soak.checker.telemetry import ServerSample
from soak.server_metrics import server_metrics

Told = dict[str, dict[str, float]]


def told(**servers: ServerSample | None) -> Told:
    """Return the values by metric and server."""
    return {
        sample.name: {one.labels["server"]: one.value for one in metric.samples if one.name == sample.name}
        for metric in server_metrics(servers)
        for sample in metric.samples
    }


def redis(configuration: dict[str, str] | None = None, **telemetry: str) -> ServerSample:
    return ServerSample(server="redis", at=0, configuration=configuration or {}, telemetry=telemetry)


def test_a_server_that_does_not_answer_tells_only_that() -> None:
    assert told(redis=None) == {"soak_server_answers": {"redis": 0}}


def test_what_a_server_does_not_tell_is_not_there() -> None:
    found = told(redis=redis(used_memory="1024"), postgres=None)
    assert found == {
        "soak_server_answers": {"redis": 1, "postgres": 0},
        "soak_server_memory_used_bytes": {"redis": 1024},
    }


@pytest.mark.parametrize("nonsense", ["", "many", "nan", "inf"])
def test_what_is_no_number_is_not_there(nonsense: str) -> None:
    assert told(redis=redis(used_memory=nonsense)) == {"soak_server_answers": {"redis": 1}}


def test_counters_carry_the_name_of_counters() -> None:
    found = told(redis=redis(evicted_keys="7", keys="3"))
    assert found["soak_server_evicted_keys_total"] == {"redis": 7}
    assert found["soak_server_keys"] == {"redis": 3}


@pytest.mark.parametrize(("status", "value"), [("ok", 1), ("err", 0)])
def test_a_write_of_the_log_went_well_or_not(status: str, value: float) -> None:
    assert told(redis=redis(aof_last_write_status=status))["soak_server_aof_last_write_ok"] == {"redis": value}


@pytest.mark.parametrize(("save", "value"), [("900 1", 1), ("", 0)])
def test_snapshots_are_on_if_there_is_a_rule_for_them(save: str, value: float) -> None:
    assert told(redis=redis({"save": save}))["soak_server_rdb_enabled"] == {"redis": value}


def test_a_snapshot_is_as_old_as_the_servers_own_clock_says() -> None:
    sample = redis(rdb_last_save_time="1000", server_time_usec="1060000000")
    assert told(redis=sample)["soak_server_rdb_last_save_age_seconds"] == {"redis": 60}
    assert "soak_server_rdb_last_save_age_seconds" not in told(redis=redis(rdb_last_save_time="1000"))
