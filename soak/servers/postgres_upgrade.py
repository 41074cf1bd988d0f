"""What an upgrade of a PostgreSQL needs to know: the command, and how a cluster comes back whose upgrade failed.

What one must know before touching it:
- `pg_upgrade --link` makes the new cluster of the files of the old one. Before it does so it puts the old one out of
  use, by renaming its control file; giving that its name back is all that the old cluster needs, as long as the new one
  has never been started.
- It starts both servers itself, on sockets in a folder whose path must be short. Killed, it leaves them running.
- It refuses a cluster that was not shut down cleanly, and two of which only one has checksums.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from soak.errors import ServerUnreachableError
from soak.proc.spawn import run
from soak.servers.postgres import USER
from soak.servers.unprivileged import Account

NEXT_NAME = "data.next"
"""Beside the data folder, while an upgrade is under way."""
OUTPUT_NAME = "pg_upgrade_output.d"
"""What `pg_upgrade` logged; of an upgrade that failed it is kept beside the server's log."""
SECONDS_MAX = 600.0
_ASK_SECONDS_MAX = 30.0
_CONTROL_FILE = Path("global/pg_control")
_PUT_OUT_OF_USE = Path("global/pg_control.old")
_CHECKSUMS_BY_DEFAULT_SINCE = 18


def command(
    old_programs: Path, new_programs: Path, old_data: Path, new_data: Path, *, sockets: Path
) -> list[str | Path]:
    """Return how the new version's `pg_upgrade` is called."""
    return [
        "pg_upgrade",
        f"--old-bindir={old_programs / 'bin'}",
        f"--new-bindir={new_programs / 'bin'}",
        f"--old-datadir={old_data}",
        f"--new-datadir={new_data}",
        f"--username={USER}",
        f"--socketdir={sockets}",
        "--link",
    ]


def checksum_options(version: int, *, wanted: bool) -> list[str]:
    """Return the options of `initdb` for this version, so that its pages have checksums or have none."""
    if wanted:
        return ["--data-checksums"]
    return ["--no-data-checksums"] if version >= _CHECKSUMS_BY_DEFAULT_SINCE else []


def has_checksums(programs: Path, data: Path) -> bool:
    """Return whether the pages of a stopped cluster have checksums."""
    try:
        control = run(
            [programs / "bin" / "pg_controldata", "-D", data],
            environment={**os.environ, "LC_ALL": "C"},
            seconds_max=_ASK_SECONDS_MAX,
        )
    except OSError as error:
        raise ServerUnreachableError(
            f"the control file of {data} cannot be read ({type(error).__name__}); it is left as it is"
        ) from error
    if control.code:
        raise ServerUnreachableError(
            f"the control file of {data} cannot be read ({control.complaint}); it is left as it is"
        )
    lines = [line for line in control.output.splitlines() if line.startswith("Data page checksum")]
    versions = [line.partition(":")[2].strip() for line in lines]
    return versions not in ([], ["0"])


def settle(data: Path, following: Path, log_folder: Path) -> None:
    """Give the old cluster back its control file if it still has the data folder's name, and keep the log.

    Where the folders were swapped, `data` is the new cluster and `following` the old one, and this does nothing.
    """
    put_away = data / _PUT_OUT_OF_USE
    if put_away.exists():
        put_away.replace(data / _CONTROL_FILE)
    output = following / OUTPUT_NAME
    if output.exists():
        kept = log_folder / OUTPUT_NAME
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(output, kept)


@contextlib.contextmanager
def short_folder(account: Account | None) -> Iterator[Path]:
    """Make a folder of the account's own for sockets, whose paths must not be longer than some hundred characters."""
    folder = Path(tempfile.mkdtemp(prefix="soak-upgrade-"))
    try:
        if account is not None:
            account.own(folder)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
