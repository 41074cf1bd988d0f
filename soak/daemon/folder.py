"""The data folder: paths, what is put aside when a new run begins, and the violations on record."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

from soak import join
from soak.daemon import announced_faults
from soak.errors import SoakError, UsageError, ViolationsOnRecordError
from soak.ledger.shards import WHOLE, Shard
from soak.page import ended
from soak.proc.files import remove_sealed
from soak.report import outcome, series
from soak.report.violation_records import read_folder
from soak.servers.kinds import BackendKind
from soak.servers.servers import FOLDER_NAME as SERVERS_NAME
from soak.verifier import endpoint
from soak.verifier.result import Result, read_so_far
from soak.verifier.result import read as read_result

GIVEN = BackendKind.EXTERNAL
"""In the folder of the servers: what is kept of those that were given."""


class DataFolder:
    """Paths inside one data folder."""

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()
        self.join_file = self.path / join.FILE_NAME
        self.state_file = self.path / "daemon.json"
        self.heartbeat_file = self.path / "heartbeat.json"
        self.children_file = self.path / "children.json"
        self.servers = self.path / SERVERS_NAME
        self.verifier = self.path / "verifier"
        self.endpoint_file = self.verifier / endpoint.FILE_NAME
        self.evidence = self.verifier / "evidence"
        self.outcome_file = self.path / outcome.FILE_NAME
        self.series_file = self.path / series.FILE_NAME
        self.status_file = self.path / ended.FILE_NAME
        self.announced_file = self.path / announced_faults.FILE_NAME
        self.logs = self.path / "logs"
        self.runs = self.path / "runs"

    def prepare(self) -> None:
        """Make what is not there yet."""
        try:
            for folder in (self.path, self.logs, self.verifier):
                folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(
                f"the data folder {self.path} cannot be written ({error.strerror}); choose another with --data-dir"
            ) from None

    def result(self, run: str, shard: Shard = WHOLE) -> Result | None:
        """Return the result of this run, if its verifier has written one; of one of several, that of its share."""
        found = read_result(self.path / shard.folder)
        return found if found is not None and found.run == run else None

    def result_so_far(self, run: str) -> Result | None:
        """Return how this run stood when its verifier last said so."""
        found = read_so_far(self.verifier)
        return found if found is not None and found.run == run else None

    def result_run(self) -> str | None:
        """Name the run whose result is here."""
        found = read_result(self.verifier)
        return found.run if found is not None else None

    def violations_on_record(self, run: str | None = None) -> int:
        """Return how many violations were found, by whatever can still be read of it; None: of whatever run is here."""
        counted = 0
        with contextlib.suppress(SoakError):
            so_far = read_so_far(self.verifier)
            if so_far is not None and run in (None, so_far.run):
                counted = so_far.totals.violations
        try:
            records, _, unlisted = read_folder(self.verifier)
        except SoakError:
            return counted
        listed = sum(1 for record in records if run in (None, record.violation.run))
        return max(counted, listed + (unlisted if listed else 0))

    def last_written_wall_seconds(self) -> float | None:
        """Return when a daemon or verifier of this folder last wrote how it goes."""
        times = []
        for path in (self.series_file, self.outcome_file, *self.verifier.glob("*.json*"), *self.verifier.glob("*.mpk")):
            with contextlib.suppress(OSError):
                times.append(path.stat().st_mtime)
        return max(times, default=None)

    def put_aside(self, run: str) -> Path:
        """Move all that an earlier run left to `runs/<run>`, so that a new one finds nothing of it."""
        target = self.runs / run
        target.mkdir(parents=True, exist_ok=True)
        for left in (self.verifier, self.servers):
            if left.exists() and any(left.iterdir()):
                aside = left.rename(_unused(target / left.name))
                if left == self.servers and (given := aside / GIVEN).exists():
                    # What was left broken on somebody's server is noted there, and is still to be healed.
                    left.mkdir()
                    given.rename(left / GIVEN)
        for file in (self.outcome_file, self.series_file, self.status_file):
            if file.exists():
                file.rename(_unused(target / file.name))
        self.forget_run()
        self.prepare()
        return target

    def forget_run(self) -> None:
        """Mark the run as over: nobody can join or resume it."""
        for file in (self.join_file, self.heartbeat_file):
            file.unlink(missing_ok=True)
        remove_sealed(self.announced_file)
        remove_sealed(self.state_file)

    def remove_servers(self) -> None:
        """Remove the data of the embedded servers."""
        shutil.rmtree(self.servers, ignore_errors=True)


def _unused(path: Path) -> Path:
    number = 1
    found = path
    while found.exists():
        number += 1
        found = path.with_name(f"{path.name}-{number}")
    return found


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
            f"{error}; {found} violations are on record, see 'soak report {folder.path}'"
        ) from error
