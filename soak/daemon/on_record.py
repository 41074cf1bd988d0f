"""Violations that were found stay found: what stops a soak later must not hide them behind another exit code."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from soak.daemon.folder import DataFolder
from soak.errors import SoakError, ViolationsOnRecordError


@contextlib.contextmanager
def violations_not_hidden(folder: DataFolder, run: str | None = None) -> Iterator[None]:
    """Let what stops a run end it as a violation where some are on record; `run` None: whatever run is there."""
    try:
        yield
    except ViolationsOnRecordError:
        raise
    except SoakError as error:
        if not (found := folder.violations_on_record(run)):
            raise
        raise ViolationsOnRecordError(
            f"{error}; {found} violations are on record, as 'soak report {folder.path}' tells"
        ) from error
