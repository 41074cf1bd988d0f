"""Settings with anything in them: each is understood, or refused in a line that says where it was given."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from soak import cli
from soak.configuration import read
from soak.errors import ExitCode, UsageError

CASES = 400
SEED = int(os.environ.get("SOAK_FUZZ_SEED", "0")) or random.SystemRandom().randrange(10**6)
LONG = "a" * 5_000
VALUES = [
    *("", "0", "-1", "1e309", "nan", "inf", "99999999999999999999999", "5s", "-5s", "1h30m", "0x10", "true", "[]"),
    *("{}", "[1, 2", "null", "\u0000", "\ud7ff", "\U0001f600", "a b", "../..", "/dev/null/x", "redis://", LONG),
    *("redis://[::1", "postgresql://u:p@h:99999/d", "unix://", "http://\u2100", "x:y", "mod:Class", "*", "1-2", "="),
    *("25:00-26:00", "'"),
]


def keys() -> list[str]:
    return [leaf.key for leaf in read(environ={}, config=Path(os.devnull)).leaves()]


def test_no_setting_is_an_internal_error(tmp_path: Path) -> None:
    print(f"SOAK_FUZZ_SEED={SEED}")
    source = random.Random(SEED)
    known = keys()
    for case in range(CASES):
        key, value = source.choice([*known, "nonsense", "load", "faults.rules"]), source.choice(VALUES)
        config = tmp_path / "soak.toml"
        environ: dict[str, str] = {}
        assignments: list[str] = []
        config.write_bytes(b"")
        way = source.randrange(3)
        if way == 0:
            assignments = [f"{key}={value}"]
        elif way == 1:
            environ = {f"SOAK_{key.upper().replace('.', '__')}": value}
        else:
            quoted = source.choice([value, '"' + value.replace("\\", "").replace('"', "") + '"', f"[{value}]"])
            config.write_bytes(f"{key} = {quoted}\n".encode("utf-8", "surrogatepass"))
        try:
            read(environ=environ, config=config, assignments=assignments).leaves()
        except UsageError as error:
            assert str(error), (SEED, case)  # noqa: PT017  most are refused, not all
        except Exception as error:
            raise AssertionError(f"seed {SEED}, case {case}: {key}={value[:50]!r} by way {way}") from error


def test_bytes_that_are_no_text_in_a_file_of_settings_are_one_line(tmp_path: Path) -> None:
    source = random.Random(SEED)
    whole = b'[load]\nusers = 10\nthink = "1s"\n[stores]\nnames = ["redis-list"]\n[[faults.rules]]\nfault = "crash"\n'
    for _ in range(CASES):
        at = source.randrange(len(whole))
        (tmp_path / "soak.toml").write_bytes(whole[:at] + source.randbytes(2) + whole[at + source.randrange(4) :])
        try:
            read(environ={}, config=tmp_path / "soak.toml")
        except UsageError as error:
            assert str(error)  # noqa: PT017  most are refused, not all


@pytest.mark.parametrize(
    "words",
    [
        ["violations", "--data-dir", LONG],
        ["explain", "abcd", "--data-dir", LONG],
        ["report", LONG],
        ["replay", LONG],
        ["config", "--config", LONG],
        ["doctor", "--data-dir", LONG],
    ],
)
def test_a_name_that_is_too_long_is_one_line(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(words) == ExitCode.USAGE
    (line,) = capsys.readouterr().err.splitlines()
    assert "name" in line
    assert len(line) < 400
