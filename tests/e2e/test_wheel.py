"""A wheel holds all that `soak run` needs, the locust file included, wherever it is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from soak.errors import ExitCode
from tests.support.paths import ROOT

BUILD = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """Build a wheel from a copy of the sources, and unpack it as an installer would."""
    source = tmp_path / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, source)
    for name in ("soak", "locustfiles"):
        shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    # The builder warns of what concerns only itself.
    environment = os.environ | {"PYTHONWARNINGS": "ignore"}
    command = [sys.executable, "-c", BUILD, str(tmp_path)]
    subprocess.run(command, cwd=source, env=environment, check=True, capture_output=True)
    [wheel] = tmp_path.glob("*.whl")
    target = tmp_path / "installed"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(target)
    return target


@pytest.mark.long
def test_a_wheel_holds_every_module_and_can_soak_from_any_folder(installed: Path, tmp_path: Path) -> None:
    packed = {str(path.relative_to(installed)) for path in installed.rglob("*.py")}
    assert packed == {str(path.relative_to(ROOT)) for path in (ROOT / "soak").rglob("*.py")} | {
        "soak/locustfiles/sessions.py"
    }
    page = Path("soak/page/files")
    assert {path.name for path in (installed / page).iterdir()} == {path.name for path in (ROOT / page).iterdir()}
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    plain = {name: value for name, value in os.environ.items() if not name.startswith("SOAK_")}
    done = subprocess.run(
        [sys.executable, "-m", "soak", "check", "--store", "redis-list", "--duration", "6s"],
        cwd=elsewhere,
        env={**plain, "PYTHONPATH": str(installed), "TMPDIR": str(elsewhere)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == ExitCode.PASS, done.stdout + done.stderr
