"""PostgreSQL where soak is run by root: the account it runs as, and a folder for its data that this account can enter.

Root's home is closed to everybody else, and so are most private folders. While PostgreSQL runs as an unprivileged user
its data, and if need be a copy of its programs, are put where that user can reach them. A clean stop brings the data
back; after a crash the next start finds it through the state file.
"""

from __future__ import annotations

import errno
import fcntl
import os
import pwd
import shutil
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Protocol

from soak.errors import ServerUnreachableError, UsageError

NAME = "nobody"
_PREFIX = "soak-servers-"


class Account(NamedTuple):
    """A user other than ourselves."""

    uid: int
    gid: int

    def reaches(self, path: Path) -> bool:
        """Return whether this user may enter the folder, which needs the right to pass all its parents."""
        resolved = path.resolve()
        return all(self._may_enter(folder) for folder in (resolved, *resolved.parents))

    def _may_enter(self, folder: Path) -> bool:
        try:
            status = folder.stat()
        except OSError:
            return False
        if status.st_uid == self.uid:
            return bool(status.st_mode & stat.S_IXUSR)
        if status.st_gid == self.gid:
            return bool(status.st_mode & stat.S_IXGRP)
        return bool(status.st_mode & stat.S_IXOTH)

    def own(self, path: Path) -> None:
        os.chown(path, self.uid, self.gid, follow_symlinks=False)


def unprivileged() -> Account | None:
    """Return the account to run PostgreSQL as, or none where we ourselves are unprivileged."""
    if os.geteuid() != 0:
        return None
    try:
        entry = pwd.getpwnam(NAME)
    except KeyError as error:
        raise ServerUnreachableError(
            f"PostgreSQL refuses to run as root and there is no user {NAME!r} to run it as; "
            "run soak as an ordinary user or give the address of a PostgreSQL that runs"
        ) from error
    return Account(entry.pw_uid, entry.pw_gid)


class _Moved(Protocol):
    away: str | None


class Away:
    """The folder elsewhere, made when first needed."""

    def __init__(self, servers: Path, account: Account, state: _Moved, save: Callable[[], None]) -> None:
        self._servers = servers
        self._account = account
        self._state = state
        self._save = save
        self._descriptor: int | None = None

    def home(self, kind: str) -> Path:
        """Return where the data of this server is put; moves there what is in the data folder."""
        if self._state.away is not None and not Path(self._state.away).is_dir():
            raise UsageError(
                f"the PostgreSQL data of {self._servers.parent} was in {self._state.away}, which is gone; "
                "choose another data folder"
            )
        folder = self._folder()
        home = folder / kind
        home.mkdir(mode=0o755, exist_ok=True)
        for left_behind in _data_folders(self._servers, kind):
            target = folder / left_behind.relative_to(self._servers)
            if target.exists():
                # A move was interrupted after the copy was complete: this is what remains of the original.
                shutil.rmtree(left_behind, ignore_errors=True)
            else:
                target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
                self._move(left_behind, target)
        return home

    def programs(self, folder: Path) -> Path:
        """Return a copy of a PostgreSQL installation that the account can run."""
        # Its libraries lie beside the package and are found by their relative path.
        package = folder.parent
        self._copy(package.with_name(f"{package.name}.libs"))
        return self._copy(folder, package.name)

    def _copy(self, source: Path, *below: str) -> Path:
        target = self._folder().joinpath("programs", *below, source.name)
        if source.is_dir() and not target.exists():
            unfinished = target.with_name(f"{target.name}.new")
            shutil.rmtree(unfinished, ignore_errors=True)
            shutil.copytree(source, unfinished, symlinks=True, ignore=shutil.ignore_patterns("include", "*.a"))
            for path in (target.parent, unfinished, *unfinished.rglob("*")):
                if not path.is_symlink():
                    mode = path.stat().st_mode
                    path.chmod(mode | (0o555 if path.is_dir() or mode & stat.S_IXUSR else 0o444))
            unfinished.rename(target)
        return target

    def bring_back(self) -> None:
        """Move all data into the data folder and remove the folder elsewhere."""
        if self._state.away is None:
            return
        folder = Path(self._state.away)
        for data in _data_folders(folder, "*"):
            target = self._servers / data.relative_to(folder)
            if not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                self._move(data, target)
        shutil.rmtree(folder, ignore_errors=True)
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
        self._state.away = None
        self._save()

    def _move(self, source: Path, target: Path) -> None:
        """Move a data folder so that at every moment a folder of that name is a whole one."""
        try:
            source.rename(target)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
        else:
            return
        unfinished = target.with_name("data.moving")
        shutil.rmtree(unfinished, ignore_errors=True)
        shutil.copytree(source, unfinished, symlinks=True)
        for path in (unfinished, *unfinished.rglob("*")):
            self._account.own(path)
        unfinished.rename(target)
        doomed = source.rename(source.with_name("data.old"))
        shutil.rmtree(doomed, ignore_errors=True)

    def _folder(self) -> Path:
        if self._state.away is None or not Path(self._state.away).is_dir():
            self._state.away = str(self._make())
            self._save()
        folder = Path(self._state.away)
        if self._descriptor is None:
            # Keeps programs that tidy temporary folders by age away from a soak of weeks.
            self._descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
            fcntl.flock(self._descriptor, fcntl.LOCK_SH)
        return folder

    def _make(self) -> Path:
        for parent in self._candidates():
            if parent.is_dir() and self._account.reaches(parent):
                folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
                folder.chmod(0o755)
                return folder
        raise ServerUnreachableError(
            "PostgreSQL refuses to run as root, and no temporary folder is open to the user it would run as; "
            f"choose a data folder that others may enter instead of {self._servers.parent}"
        )

    def _candidates(self) -> list[Path]:
        # One on the same disk first, where moving is a rename; /var/tmp before others: it is never in memory.
        device = self._servers.stat().st_dev
        folders = [Path("/var/tmp"), Path(tempfile.gettempdir()).resolve()]  # noqa: S108  mkdtemp makes the folder
        return sorted(folders, key=lambda folder: not folder.is_dir() or folder.stat().st_dev != device)


def _data_folders(root: Path, kind: str) -> list[Path]:
    """Return the data of servers of this kind, and of the nodes of groups."""
    return [*root.glob(f"{kind}/data"), *root.glob(f"{kind}/nodes/*/data")]
