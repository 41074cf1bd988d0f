"""A wheel has all that soak needs, the locust file included, and runs in an environment that has nothing else."""

from __future__ import annotations

import email
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import soak
from soak.errors import ExitCode
from tests.support.needs import all_required
from tests.support.paths import ROOT

BUILD = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"
INSTALL_SECONDS_MAX = 400


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build a wheel from a copy of the sources."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for name in ("soak", "locustfiles"):
        shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    # The builder warns of what concerns only itself.
    environment = os.environ | {"PYTHONWARNINGS": "ignore"}
    command = [sys.executable, "-c", BUILD, str(folder)]
    subprocess.run(command, cwd=source, env=environment, check=True, capture_output=True)
    [built] = folder.glob("*.whl")
    return built


def test_a_wheel_has_every_module_the_page_and_what_it_says_of_itself(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        packed = set(archive.namelist())
        [about] = [name for name in packed if name.endswith(".dist-info/METADATA")]
        metadata = email.message_from_bytes(archive.read(about))
    modules = {str(path.relative_to(ROOT)) for path in (ROOT / "soak").rglob("*.py")}
    assert {name for name in packed if name.endswith(".py")} == modules | {"soak/locustfiles/sessions.py"}
    files = [path for path in (ROOT / "soak").rglob("files/*") if path.is_file()]
    assert files
    assert {str(path.relative_to(ROOT)) for path in files} <= packed
    assert metadata["Version"] == soak.__version__
    assert metadata["License-Expression"] == "Apache-2.0"
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in packed)


@pytest.mark.long
@pytest.mark.timeout(INSTALL_SECONDS_MAX + 120)
def test_a_wheel_in_an_empty_environment_can_soak_from_any_folder(wheel: Path, tmp_path: Path) -> None:
    environment = tmp_path / "environment"
    python = environment / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True, capture_output=True)
    pip = [sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check", "--no-input"]
    install = [*pip, "install", "-qq", "--no-compile"]
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("SOAK_", "PYTHON"))}
    for words in (["--require-hashes", "-r", str(ROOT / "requirements.lock")], ["--no-deps", str(wheel)]):
        done = subprocess.run(
            [*install, *words], env=plain, capture_output=True, text=True, timeout=INSTALL_SECONDS_MAX, check=False
        )
        if done.returncode and not all_required():
            pytest.skip(f"packages cannot be installed: {done.stderr[-300:]}")
        assert done.returncode == 0, done.stderr
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    done = subprocess.run(
        [str(environment / "bin" / "soak"), "check", "--store", "redis-list", "--duration", "6s"],
        cwd=elsewhere,
        env={**plain, "TMPDIR": str(elsewhere)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == ExitCode.PASS, done.stdout + done.stderr
