"""One daemon per data folder."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from soak.errors import UsageError
from soak.proc.lock import DataFolderLock

if TYPE_CHECKING:
    from collections.abc import Iterator

HOLDER = """
import sys
from pathlib import Path
from soak.proc.lock import DataFolderLock

with DataFolderLock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""

# Root may write everywhere, so the process first becomes somebody who may not.
UNPRIVILEGED = """
import os, sys
from pathlib import Path
from soak.errors import UsageError
from soak.proc.lock import DataFolderLock

if os.geteuid() == 0:
    os.seteuid(65534)
try:
    DataFolderLock(Path(sys.argv[1])).acquire()
except UsageError as error:
    print(error)
"""


def test_a_second_lock_on_the_folder_names_the_process_that_holds_it(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(UsageError, match=f"in use by process {holder.pid}; stop it first") as caught:
            DataFolderLock(tmp_path).acquire()
        assert "\n" not in str(caught.value)
        holder.kill()
    with DataFolderLock(tmp_path):
        pass  # the kernel gave it free


def test_a_released_lock_can_be_taken_again(tmp_path: Path) -> None:
    folder = tmp_path / "made" / "on the way"
    with DataFolderLock(folder) as lock:
        lock.acquire()
        assert lock.path.read_text() == f"{os.getpid()}\n"
        with pytest.raises(UsageError, match="in use"):
            DataFolderLock(folder).acquire()
    with DataFolderLock(folder):
        pass


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Make a folder that other users may enter; those of `tmp_path` are private."""
    with tempfile.TemporaryDirectory(prefix="soak-tests-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


@pytest.mark.parametrize("has_lock_file", [False, True])
def test_a_read_only_folder_is_one_clear_line(open_folder: Path, *, has_lock_file: bool) -> None:
    folder = open_folder / "data"
    folder.mkdir()
    if has_lock_file:
        (folder / "lock").touch()
        (folder / "lock").chmod(0o666)
    folder.chmod(0o555)
    answer = subprocess.run(
        [sys.executable, "-c", UNPRIVILEGED, str(folder)], capture_output=True, text=True, check=True
    )
    assert answer.stdout == (
        f"the data folder {folder} cannot be written (Permission denied); choose another folder with --data-dir\n"
    )


def test_a_file_in_place_of_the_folder_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(UsageError, match="cannot be written"):
            DataFolderLock(folder).acquire()
