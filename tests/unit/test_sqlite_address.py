"""A SQLite file is given by its path or its address; what it promises follows from how it is synced."""

from __future__ import annotations

from pathlib import Path

import pytest

from soak.checker.telemetry import ServerSample
from soak.contracts.guarantees import guarantees_of
from soak.contracts.mismatch import stronger_setting
from soak.contracts.presets import PRESETS
from soak.settings import SoakSettings
from soak.sqlite_address import SqliteAddress, parse_sqlite


@pytest.mark.parametrize(
    ("text", "path", "synchronous"),
    [
        ("sqlite:///data/my%20memory.db?synchronous=NORMAL", "/data/my memory.db", "normal"),
        ("sqlite:///data/memory.db", "/data/memory.db", "full"),
        ("/data/memory.db?synchronous=off", "/data/memory.db", "off"),
    ],
)
def test_an_address_is_read_and_written_the_same(text: str, path: str, synchronous: str) -> None:
    address = parse_sqlite(text)
    assert address == SqliteAddress(Path(path), synchronous)
    assert parse_sqlite(address.url) == address


def test_a_relative_path_is_one_of_the_folder_that_soak_was_started_in() -> None:
    settings = SoakSettings.model_validate({"servers": {"sqlite": "memory.db"}})
    assert settings.servers.sqlite is not None
    assert parse_sqlite(settings.servers.sqlite.get_secret_value()).path == Path.cwd() / "memory.db"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("sqlite://data/memory.db", "three slashes"),
        ("postgresql://host/x", "is not an address of this kind"),
        ("sqlite:///", "names no file"),
        ("", "names no file"),
        ("/data/memory.db?synchronous=maybe", "choose from off, normal, full, extra"),
        ("/data/memory.db?cache=shared", "option cache"),
    ],
)
def test_what_is_no_address_says_what_is_wrong(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        parse_sqlite(text)


ANYTHING, NOTHING, UNKNOWN = "anything may be lost", "nothing lost", "unknown"


@pytest.mark.parametrize(
    ("journal", "synchronous", "crash", "power"),
    [
        ("wal", "full", NOTHING, NOTHING),
        ("wal", "extra", NOTHING, NOTHING),
        ("wal", "normal", NOTHING, ANYTHING),
        ("wal", "off", NOTHING, ANYTHING),
        ("delete", "extra", NOTHING, NOTHING),
        ("delete", "full", NOTHING, UNKNOWN),
        ("truncate", "off", NOTHING, ANYTHING),
        ("memory", "full", ANYTHING, ANYTHING),
        ("off", "full", ANYTHING, ANYTHING),
    ],
)
def test_what_a_file_promises_follows_from_its_journal_and_how_it_is_synced(
    journal: str, synchronous: str, crash: str, power: str
) -> None:
    told = {"journal_mode": journal, "synchronous": synchronous}
    given = guarantees_of(ServerSample(server="sqlite", at=0, configuration=told))
    assert (given.crash.words, given.power.words) == (crash, power)
    assert "synchronous full" in stronger_setting("sqlite", 0.0, given.power)


def test_a_file_that_says_nothing_of_itself_promises_what_nobody_knows() -> None:
    given = guarantees_of(ServerSample(server="sqlite", at=0))
    assert not given.crash.is_known
    assert not given.power.is_known


def test_the_presets_say_the_same() -> None:
    assert PRESETS["sqlite-full"].clauses()["power_loss_seconds"] == 0.0
    assert PRESETS["sqlite-normal"].clauses()["crash_loss_seconds"] == 0.0
    assert PRESETS["sqlite-normal"].clauses()["power_loss_seconds"] is None
