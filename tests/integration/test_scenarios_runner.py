"""One runner for all lists of scenarios: each in a process of its own, and each has a result whatever becomes of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import pytest

from soak.errors import ServerUnreachableError, SoakError
from soak.scenarios.runner import run_scenarios
from soak.scenarios.scenario import Scenario, ServerSetup


class Noted(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one."""

    said: str = ""
    pid: int = 0
    not_made: str = ""
    is_unreachable: bool = False
    seconds: float = 0.0

    @property
    def outcome(self) -> str:
        return self.said or f"not made: {self.not_made}"


class Saying(Scenario[str, str, Noted], frozen=True, kw_only=True):
    """Does what its load says, in its own process."""

    result = Noted

    kept: str = ""
    prepared: str = ""

    def prepare(self, say: Callable[[str], None]) -> Saying:
        if self.load == "not prepared":
            raise SoakError("no package index")
        say(f"preparing {self.name}")
        return msgspec.structs.replace(self, prepared="ready")

    async def run(self, folder: Path) -> Noted:
        match self.load:
            case "unreachable":
                raise ServerUnreachableError("the server\n is away")
            case "broken":
                raise ValueError("a mistake of ours")
            case "gone":
                os._exit(3)
        (folder / "log").write_text(self.expectation)
        return Noted(said=f"{self.expectation}, {self.prepared}", pid=os.getpid())

    def not_made(self, reason: str, *, is_unreachable: bool = False) -> Noted:
        return Noted(not_made=reason, is_unreachable=is_unreachable)

    def keep(self, folder: Path) -> None:
        if self.kept:
            (folder / "log").rename(self.kept)


def saying(load: str, *, weight: float = 0.0, kept: str = "") -> Saying:
    return Saying(
        name=load,
        stores=("redis-list",),
        servers=ServerSetup(),
        load=load,
        expectation="fine",
        seconds_max=60.0,
        weight=weight,
        kept=kept,
    )


def ran(*scenarios: Saying, tries: int = 1, worst_of: Callable[[Sequence[Noted]], Noted]) -> list[Noted]:
    made = run_scenarios(scenarios, "scenarios", 2, tries=tries, worst_of=worst_of)
    assert made is not None
    assert made.seconds > 0
    return made.results


def test_every_scenario_of_a_list_has_a_result_in_its_order_and_says_why_it_was_not_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    log = tmp_path / "log"
    loads = ("unreachable", "broken", "gone", "not prepared")
    first, *others, last = ran(
        saying("first", kept=str(log)),
        *map(saying, loads),
        saying("last", weight=1.0),
        worst_of=lambda results: results[0],
    )
    assert (first.said, last.said) == ("fine, ready", "fine, ready")
    assert len({first.pid, last.pid, os.getpid()}) == 3
    assert 0 < first.seconds < 60
    assert log.read_text() == "fine"
    unreachable, broken, gone, not_prepared = others
    assert (unreachable.not_made, unreachable.is_unreachable) == ("the server is away", True)
    assert (broken.not_made, broken.is_unreachable) == ("internal error (ValueError: a mistake of ours)", False)
    assert gone.not_made == "its process ended with status 3 and said nothing"
    assert not_prepared.not_made == "no package index"
    said = capsys.readouterr().err
    assert said.startswith("preparing last\n"), "the heaviest begins first"
    assert "6 of 6  " in said
    assert "not prepared: not made: no package index  (" in said
    assert list((tmp_path / "temporary").iterdir()) == []


def test_the_worst_of_several_tries_counts() -> None:
    pids: list[int] = []

    def worst_of(results: Sequence[Noted]) -> Noted:
        pids.extend(one.pid for one in results)
        return results[-1]

    [worst] = ran(saying("again"), tries=2, worst_of=worst_of)
    assert len(set(pids)) == 2
    assert worst.pid == pids[-1]
