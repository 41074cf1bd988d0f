"""Environments are made once, by whoever needs them first, kept, and made anew if they were broken off."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from soak.errors import ServerUnreachableError, UsageError
from soak.subjects import environment
from soak.subjects.description import Subject, read_script
from soak.subjects.environment import default_folder, interpreter_for
from tests.support.paths import SUBJECTS

WHEEL = "soak_test_thing-1.0-py3-none-any.whl"


@pytest.fixture
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let pip find one small package in a folder, and nothing else anywhere."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    with zipfile.ZipFile(folder / WHEEL, "w") as wheel:
        wheel.writestr("soak_test_thing.py", "ANSWER = 42\n")
        about = "soak_test_thing-1.0.dist-info"
        wheel.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: soak-test-thing\nVersion: 1.0\n")
        wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{about}/RECORD", "")
    for name in ("PIP_EXTRA_INDEX_URL", "PIP_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return tmp_path / "environments"


def subject(*dependencies: str) -> Subject:
    (plain,) = read_script(SUBJECTS / "in_memory.py")
    return msgspec.structs.replace(plain, dependencies=list(dependencies))


def test_a_subject_without_dependencies_runs_with_our_own_interpreter(tmp_path: Path) -> None:
    assert interpreter_for(subject(), tmp_path / "none", print) == Path(sys.executable)
    assert not (tmp_path / "none").exists()


def test_what_is_not_pinned_is_not_installed(tmp_path: Path) -> None:
    for dependency in ("thing", "thing>=1", "thing~=1.0", "thing==1.*"):
        with pytest.raises(UsageError, match="pin it to one version"):
            interpreter_for(subject(dependency), tmp_path, print)


def test_a_folder_that_cannot_be_made_is_told_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="--environments"):
        interpreter_for(subject("thing==1.0"), tmp_path / "file" / "below", print)


def test_environments_are_kept_in_the_cache_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert default_folder() == Path("/somewhere/soak/subjects")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert default_folder() == Path.home() / ".cache" / "soak" / "subjects"


@pytest.mark.long
def test_two_that_need_the_same_environment_make_it_once_and_later_ones_find_it(offline: Path) -> None:
    said: list[str] = []
    with ThreadPoolExecutor(2) as pool:
        made = list(
            pool.map(lambda _: interpreter_for(subject("soak-test-thing==1.0"), offline, said.append), range(2))
        )
    assert made[0] == made[1]
    installing, installed = said
    assert "installing soak-test-thing==1.0 into" in installing
    assert installed.startswith("installed the environment of ")
    code = "import soak_test_thing; print(soak_test_thing.ANSWER)"
    assert subprocess.run([made[0], "-c", code], capture_output=True, check=True).stdout == b"42\n"
    code = "import soak"
    assert subprocess.run([made[0], "-P", "-c", code], capture_output=True, check=False, cwd="/").returncode != 0
    assert interpreter_for(subject("soak-test-thing==1.0"), offline, said.append) == made[0]
    assert len(said) == 2
    # One that was broken off has no mark that it is complete.
    (made[0].parent.parent / "complete").unlink()
    assert interpreter_for(subject("soak-test-thing==1.0"), offline, said.append) == made[0]
    assert len(said) == 4


def test_an_installation_says_that_it_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "SAY_SECONDS", 0.05)
    said: list[str] = []
    environment._run("thing", [sys.executable, "-c", "import time; time.sleep(0.5)"], said.append)
    assert said
    assert all(line.startswith("still installing the environment of thing: ") for line in said)


@pytest.mark.long
def test_without_an_index_the_failure_is_one_line_that_says_what_to_look_at(offline: Path) -> None:
    with pytest.raises(ServerUnreachableError) as raised:
        interpreter_for(subject("soak-test-nothing==7.7"), offline, lambda _: None)
    told = str(raised.value)
    assert "soak-test-nothing==7.7" in told
    assert "package index" in told
    assert "\n" not in told
    assert "://" not in told
    assert not list(offline.glob("*/complete"))
