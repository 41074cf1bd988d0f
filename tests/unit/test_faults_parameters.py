"""What can be set of a fault: units, ranges, and a clear line for what is wrong."""

from __future__ import annotations

import pytest

from soak.cli import main, parser_of
from soak.commands.flags import fault_rule
from soak.errors import UsageError
from soak.faults.catalogue import ALL, fault_named
from soak.faults.fault import Fault
from soak.faults.latency import Latency
from soak.settings import FaultRule


@pytest.mark.parametrize("fault", ALL.values(), ids=list(ALL))
def test_every_default_is_in_range_and_reads_back_as_it_is_written(fault: Fault) -> None:
    for name, parameter in fault.parameters().items():
        for value in (parameter.default, getattr(parameter, "least", parameter.default)):
            assert parameter.read(parameter.text(value)) == pytest.approx(value)
        assert parameter.help, name
        assert parameter.listing().name == name
    assert fault.having(fault.values).values == fault.values


def test_what_is_not_given_has_its_default_and_no_other_fault_is_changed() -> None:
    slow = Latency(delay="1.5s")
    assert (slow.delay, slow.jitter, slow.direction) == (1.5, 0.0, "both")
    assert ALL["latency"].values["delay"] == "200ms"


@pytest.mark.parametrize(
    ("fault", "given", "text"),
    [
        ("latency", {"delay": 0.25}, "250ms"),
        ("slow_link", {"rate": "1MB/s"}, "1000000B/s"),
        ("slow_link", {"rate": "2MiB"}, "2MiB/s"),
        ("dropped_reply", {"share": "12.5%"}, "0.125"),
        ("aof_truncation", {"size": 100}, "100B"),
        ("file_corruption", {"messages": "7"}, "7"),
        ("clock_step", {"step": "1h30m"}, "1h30m"),
        ("connection_storm", {"connections": 8}, "8"),
    ],
)
def test_values_are_written_with_their_unit(fault: str, given: dict[str, str | float], text: str) -> None:
    assert fault_named(fault, given).values[next(iter(given))] == text


@pytest.mark.parametrize(
    ("fault", "given", "complaint"),
    [
        ("latncy", {}, "there is no fault 'latncy'; did you mean latency?"),
        ("zzz", {}, "there is no fault 'zzz'; 'soak faults' lists them"),
        ("latency", {"dealy": "1s"}, "latency has no parameter 'dealy'; did you mean delay?"),
        ("latency", {"zzz": "1s"}, "latency has no parameter 'zzz'; it has delay, jitter, direction"),
        ("crash", {"delay": "1s"}, "crash has no parameter 'delay'; it has none"),
        ("latency", {"delay": "2h"}, "latency: delay cannot be '2h'; it may be from 0ms to 1m"),
        ("latency", {"delay": "-1"}, "it is a time: write one like 200ms, from 0ms to 1m"),
        ("latency", {"delay": "500kB"}, "it is a time: write one like 200ms, from 0ms to 1m"),
        ("slow_link", {"rate": "3s"}, "it is in bytes per second: write one like 64KiB/s, from 1KiB/s to 1GiB/s"),
        ("dropped_reply", {"share": "200%"}, "it may be from 0.001 to 1"),
        ("dropped_reply", {"share": "nan"}, "it may be from 0.001 to 1"),
        ("dropped_reply", {"share": "half"}, "it is a share: write one like 0.25 or 25%"),
        ("file_corruption", {"messages": "1.5"}, "it is a whole number, from 1 to 1000"),
        ("partition", {"direction": "to-server"}, "did you mean to_server?"),
        ("partition", {"direction": "up"}, "it is both or to_server or to_client"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(fault: str, given: dict[str, str | float], complaint: str) -> None:
    with pytest.raises(UsageError) as caught:
        fault_named(fault, given)
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_rule_on_the_command_line_takes_parameters_among_its_own_keys() -> None:
    rule = fault_rule("latency:redis:every=1m,hold=5s,delay=500ms,jitter=100ms")
    assert rule == {
        "every": "1m", "fault": "latency", "target": "redis", "hold": "5s",
        "parameters": {"delay": "500ms", "jitter": "100ms"},
    }  # fmt: skip
    assert fault_rule("crash:redis:jitter=10s") == {
        "fault": "crash", "target": "redis", "jitter": "10s",
    }, "where the fault has none, it is the schedule's"  # fmt: skip


def test_parameters_belong_to_one_fault() -> None:
    with pytest.raises(ValueError, match="give each fault a rule of its own"):
        FaultRule(faults={"latency": 1, "pause": 1}, target="redis", every=60.0, parameters={"delay": "1s"})


def test_every_parameter_is_a_flag_of_inject() -> None:
    flags = parser_of("inject").option_names()
    assert {f"--{name}" for fault in ALL.values() for name in fault.parameters()} <= set(flags)


@pytest.mark.parametrize("fault", ALL)
def test_show_documents_a_fault_and_fits_a_terminal(
    fault: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["faults", "show", fault]) == 0
    narrow = capsys.readouterr().out
    assert max(map(len, narrow.splitlines())) <= 80
    assert main(["faults", "show", fault, "--wide"]) == 0
    told = capsys.readouterr().out
    assert narrow.replace("\\", "").split() == told.split(), "only wrapped"
    assert ALL[fault].description in told
    assert ALL[fault].needs in told
    assert f"soak inject {fault} {ALL[fault].targets[0]}" in told
    for name, parameter in ALL[fault].parameters().items():
        line = next(line for line in told.splitlines() if line.startswith(f"  {name} "))
        assert parameter.range in line
