"""The unprivileged account that PostgreSQL runs as when soak is run by root."""

from __future__ import annotations

import os
import pwd
import stat
from pathlib import Path
from typing import NamedTuple

from soak.errors import ServerUnreachableError

NAME = "nobody"


class Account(NamedTuple):
    """A user other than ourselves."""

    uid: int
    gid: int

    def reaches(self, path: Path) -> bool:
        """Tell whether this user may enter the folder, which needs the right to pass all its parents."""
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
