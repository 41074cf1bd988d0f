"""Every planted bug is told completely, and is small enough to be read in a minute."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import soak.flaws
from soak.cli import main
from soak.errors import UsageError
from soak.faults import catalogue as faults
from soak.flaws import catalogue
from soak.flaws.flaw import Flaw, FlawSetup
from soak.stores import registry

FOLDER = Path(soak.flaws.__file__).parent
INCIDENTS = [
    "whole_history_overwrite", "context_window_merge", "app_clock_order", "same_timestamp_ties", "replica_reads",
    "two_query_context", "serializer_v2", "rdb_only", "persistence_off", "empty_primary", "unconfirmed_failover",
    "unsynced_tail", "everysec_as_always", "waitaof_everysec", "sqlite_normal", "swallowed_error",
    "pool_exhausted", "lru_eviction", "ttl_shortened", "ttl_not_refreshed", "shared_namespace", "key_case",
    "ack_before_flush",
    "wiped_volume", "client_retry", "content_dedup", "read_cap", "empty_on_error", "delete_then_late_write",
    "lossy_text", "index_behind", "forgotten_in_index", "search_across_tenants", "dirty_read", "refused_but_visible",
    "raising_reader", "newest_lost", "edited_in_place", "trimmed", "read_cache", "replica_snapshot", "rare_loss",
    "rare_corruption",
]  # fmt: skip
LINES_MAX = 90
MAY_IMPORT = (
    "soak.hosts",
    "soak.suggestion",
    "soak.flaws",
    "soak.checker",
    "soak.stores",
    "soak.redis_sentinel",
    "soak.servers.kinds",
    "soak.errors",
    "soak.redis_sentinel",
    "soak.scenarios.scenario",
)

EVERY = {**catalogue.ALL, **catalogue.TOPOLOGIES}
every_flaw = pytest.mark.parametrize("flaw", EVERY.values(), ids=EVERY.keys())


def test_every_incident_has_its_flaw() -> None:
    assert list(catalogue.ALL) == INCIDENTS


@every_flaw
def test_a_flaw_is_told_as_the_incident_it_was(flaw: Flaw) -> None:
    for text in (flaw.incident, flaw.code, flaw.mocks, flaw.user):
        assert len(text) > 10
    assert flaw.kinds
    assert flaw.causes


@every_flaw
def test_a_flaw_has_a_file_of_its_own_that_is_read_in_a_minute(flaw: Flaw) -> None:
    assert len((FOLDER / f"{flaw.name}.py").read_text().splitlines()) <= LINES_MAX


@every_flaw
def test_a_flaw_differs_from_its_twin_and_both_can_be_opened(flaw: Flaw) -> None:
    assert flaw.wrong != flaw.right
    for setup in (flaw.wrong, flaw.right):
        assert registry.find(setup.store).needs


@every_flaw
def test_the_twin_is_held_to_the_same_contract(flaw: Flaw) -> None:
    wrong, right = (getattr(registry.find(setup.store).factory, "contract", None) for setup in (flaw.wrong, flaw.right))
    assert wrong == right


@every_flaw
def test_the_fault_that_a_flaw_needs_exists(flaw: Flaw) -> None:
    for setup in (flaw.wrong, flaw.right):
        assert _fault_exists(setup)


def _fault_exists(setup: FlawSetup) -> bool:
    fault = setup.fault
    return fault is None or fault.target in faults.fault_named(fault.fault, fault.parameters).targets


def test_flaws_know_nothing_of_the_verifier() -> None:
    """They are memories as anybody writes them; what finds them must not be what they are made of."""
    for path in FOLDER.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                assert not name.startswith("soak") or name.startswith(MAY_IMPORT), f"{path.name} imports {name}"


def test_an_unknown_flaw_is_answered_with_the_nearest_one() -> None:
    with pytest.raises(UsageError, match="did you mean lossy_text"):
        catalogue.find("losy_text")


def test_the_list_names_every_flaw(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["flaws"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in EVERY)


def test_flaws_of_groups_are_planted_only_when_they_are_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    planted: list[list[str]] = []

    def made(flaws: list[Flaw], *_: object) -> None:
        planted.append([flaw.name for flaw in flaws])

    monkeypatch.setattr("soak.commands.selftest.make_trials", made)
    assert main(["selftest"]) == main(["selftest", "--topologies"]) == 4
    assert planted == [list(catalogue.ALL), list(catalogue.TOPOLOGIES)]
    assert main(["selftest", "--topologies", "wait_one"]) == 2
    assert "give one of them" in capsys.readouterr().err


@every_flaw
def test_the_story_shows_the_source_of_the_wrong_store(flaw: Flaw, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["flaws", "show", flaw.name]) == 0
    shown = capsys.readouterr().out
    assert flaw.incident in shown
    name = flaw.wrong.servers.service.title().replace("_", "") or flaw.wrong.store.rpartition(":")[2]
    assert f"class {'OnEphemeralStorage' if name == 'WipedVolume' else name}" in shown
