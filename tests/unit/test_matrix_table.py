"""Which cells the recovery matrix has, how it is shown, and what is said to a wrong command line."""

from __future__ import annotations

import json
from xml.etree import ElementTree as ET

import msgspec
import pytest

from soak import cli
from soak.errors import ExitCode, UsageError
from soak.faults import catalogue
from soak.scenarios.recovery_matrix.judgement import RecoveryCell, RecoveryMeasurement
from soak.scenarios.recovery_matrix.scenario import FAULTS, RecoveryScenario, ServerConfiguration, plan_cells
from soak.scenarios.recovery_matrix.table import HEADS, as_json, draw, markdown_lines, report_lines
from soak.scenarios.scenario import ServerSetup
from tests.support.paths import ROOT


def cells_of(configurations: list[str], faults: list[str]) -> list[RecoveryScenario]:
    return plan_cells(configurations, faults, ServerSetup(), 1.0)


def names(cells: list[RecoveryScenario]) -> list[tuple[str, str]]:
    return [(cell.expectation.configuration, cell.fault.fault) for cell in cells]


def test_every_configuration_meets_every_fault_that_can_happen_to_its_server() -> None:
    cells = set(names(cells_of([], [])))
    assert ("none", "shutdown_nosave") in cells
    assert ("postgres-sync", "shutdown_nosave") not in cells
    assert len(cells) == 7 * 4 + 2 * 3
    assert set(FAULTS) <= set(catalogue.ALL)


def test_cells_stand_in_the_matrix_order_however_they_were_named() -> None:
    assert names(cells_of(["none", "aof-always", "none"], ["power_cut", "crash"])) == [
        ("aof-always", "crash"),
        ("aof-always", "power_cut"),
        ("none", "crash"),
        ("none", "power_cut"),
    ]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--config", "aof-alwayz"), "there is no configuration 'aof-alwayz'; did you mean aof-always?"),
        (("--fault", "powercut"), "there is no fault of the matrix 'powercut'; did you mean power_cut?"),
        (("--fault", "eviction"), "; there are restart, crash, shutdown_nosave, power_cut"),
        (("--config", "postgres-sync", "--fault", "shutdown_nosave"), "shutdown_nosave cannot happen to postgres-sync"),
        (("--contract", "redis-allways"), "there is no preset 'redis-allways'; did you mean redis-always?"),
        (("--repeat", "0"), "--repeat 0: should be from 1 to 100"),
        (("--jobs", "-1"), "--jobs -1: should be from 1 to 100"),
        (("--seconds", "soon"), "--seconds: duration 'soon' is not understood"),
        (("--seconds", "0"), "--seconds 0: should be more than 0 and at most 30s"),
        (("--redis", "7.0"), "invalid choice: '7.0'"),
        (("--json", "--markdown"), "not allowed with"),
    ],
)
def test_a_wrong_command_line_gets_one_line_and_exit_code_2(
    words: tuple[str, ...], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["recovery-matrix", *words]) == ExitCode.USAGE
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1, said.err
    assert expected in said.err


def test_a_configuration_says_nothing_of_what_it_promises() -> None:
    fields = {field.name for field in msgspec.structs.fields(ServerConfiguration)}
    assert not any("loss" in name or "contract" in name or "promise" in name for name in fields)


def test_every_chosen_configuration_is_known() -> None:
    with pytest.raises(UsageError, match="aof-everysec, aof-always"):
        cells_of(["no such thing at all"], [])


KEPT = RecoveryCell(
    configuration="aof-everysec",
    fault="power_cut",
    server="Valkey 9.1.2",
    origin="AOF everysec: at most 2s lost",
    measured=RecoveryMeasurement(
        acknowledged=12_345,
        unknown=4,
        surfaced=1,
        lost=678,
        holes=0,
        beyond=0,
        recovery_point_seconds=0.514,
        promised_seconds=2.0,
        complaints=[],
    ),
    recovery_seconds=0.333,
    repeats=5,
)
MISSING = cells_of(["none"], ["power_cut"])[0].not_made("no C compiler")


def test_the_table_shows_what_was_measured_and_why_a_cell_is_missing() -> None:
    lines = report_lines([KEPT, MISSING], 12.3)
    assert lines[1].split() == [
        *("aof-everysec", "power_cut", "12,345", "4", "(1", "there)", "678", "0.51", "s", "0.33", "s"),
        *("at", "most", "2s", "lost", "inside"),
    ]
    assert lines[2].endswith("not made")
    assert "none, power_cut: no C compiler" in lines
    assert lines[-1] == (
        "1 of 2 cells inside their contract, 1 not made; the worst of 5 tries each; Valkey 9.1.2; 12 s"
    )


def test_a_loss_of_everything_is_called_all_with_the_least_it_can_be_and_of_nothing_zero() -> None:
    measured = KEPT.measured
    assert measured is not None
    everything = msgspec.structs.replace(measured, lost=12_345)
    nothing = msgspec.structs.replace(measured, lost=0, recovery_point_seconds=0.0)
    moment = msgspec.structs.replace(measured, lost=3, recovery_point_seconds=0.001)
    shown = [
        report_lines([msgspec.structs.replace(KEPT, measured=one)], 1.0)[1] for one in (everything, nothing, moment)
    ]
    assert "  all  " in shown[0]
    assert "≥ 0.5 s (all)" in shown[0]
    assert "  0     0    " in shown[1]
    assert "  3     <0.01 s  " in shown[2]


def test_a_server_that_did_not_come_back_by_itself_is_told_under_the_table() -> None:
    repaired = msgspec.structs.replace(KEPT, repairs=["Valkey 9 refused to start"] * 2)
    line = "aof-everysec, power_cut: in 2 of 5 Valkey 9 refused to start"
    assert line in report_lines([repaired], 1.0)
    assert f"- {line}" in markdown_lines([repaired], 1.0)
    assert not any("refused" in line for line in report_lines([KEPT], 1.0))


def test_the_page_holds_the_same_table() -> None:
    lines = markdown_lines([KEPT, MISSING], 12.3)
    assert lines[0] == "| lost / RPO / RTO | power_cut | may lose |"
    assert lines[2] == "| `aof-everysec` | 678 / 0.51 s / 0.33 s | at most 2s lost |"
    assert lines[3] == "| `none` | not made |  |"
    assert (
        "| aof-everysec | power_cut | 12,345 | 4 (1 there) | 678 | 0.51 s | 0.33 s | at most 2s lost | inside |"
    ) in lines
    assert "- none, power_cut: no C compiler" in lines


def test_the_picture_has_a_cell_for_each_result_and_escapes_what_it_shows() -> None:
    odd = msgspec.structs.replace(KEPT, configuration="<odd>")
    root = ET.fromstring(draw([KEPT, MISSING, odd]))  # noqa: S314  our own
    texts = [element.text for element in root.iter() if element.tag.endswith("text")]
    assert texts[:3] == ["power_cut", "aof-everysec", "0.51 s, RTO 0.3 s"]
    assert {"none", "not made", "<odd>"} <= set(texts)


def test_a_program_gets_the_numbers() -> None:
    told = json.loads(msgspec.json.encode(as_json([KEPT, MISSING], 12.3)))
    assert told["passed"] is False
    kept, missing = told["cells"]
    assert (kept["verdict"], kept["measured"]["lost"], kept["repeats"]) == ("inside", 678, 5)
    assert (missing["verdict"], missing["measured"], missing["not_made"]) == ("not made", None, "no C compiler")


PAGE = ROOT / "docs" / "recovery-matrix.md"


@pytest.mark.parametrize("table", ["matrix", "matrix in docker"])
def test_the_page_in_the_docs_shows_every_cell_and_all_of_them_inside(table: str) -> None:
    shown = PAGE.read_text(encoding="utf-8").partition(f"<!-- {table} -->")[2].partition(f"<!-- /{table} -->")[0]
    every_number = shown.partition("<details>")[2].splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in every_number if line[:2] == "| "]
    assert tuple(rows[0]) == HEADS
    assert [(row[0], row[1]) for row in rows[1:]] == names(cells_of([], []))
    assert {row[-1] for row in rows[1:]} == {"inside"}
    assert_signs(rows[1:])


def assert_signs(rows: list[list[str]]) -> None:
    """Check what does not vary from run to run: which losses are nothing, which are something."""
    lost = {(row[0], row[1]): row[4] for row in rows}
    for name in ("aof-always", "postgres-sync"):
        assert {shown for (configuration, _), shown in lost.items() if configuration == name} == {"0"}
    for name in ("aof-everysec", "aof-no", "aof-rdb"):
        assert lost[name, "crash"] == lost[name, "restart"] == lost[name, "shutdown_nosave"] == "0"
        assert lost[name, "power_cut"] != "0"
    for fault in ("crash", "shutdown_nosave", "power_cut"):
        assert lost["rdb-900", fault] == lost["none", fault] == "all"
    assert lost["rdb-900", "restart"] == "0"
