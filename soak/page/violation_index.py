"""The violations that the page lists: the journal of the run, followed as it grows.

The newest of each finding are kept, so that a flood of one does not wash the others away. All of them are in the
journal, which `soak violations` reads.
"""

from __future__ import annotations

from collections import deque
from pathlib import Path

import msgspec

from soak.report.violation_records import ViolationRecord, finding_of, shard_folders, take_line
from soak.verifier.evidence import JOURNAL_NAME

KEPT_OF_A_FINDING_MAX = 200
READ_BYTES_MAX = 2**20
"""Taken in at once; what is beyond it waits for the next time."""
LISTED_MAX = 200


class ViolationFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which violations to list; an empty word means all."""

    store: str = ""
    kind: str = ""
    state: str = ""
    finding: str = ""

    def fits(self, record: ViolationRecord) -> bool:
        violation = record.violation
        return (
            self.store in {"", violation.store}
            and self.kind in {"", violation.kind}
            and self.state in {"", record.state}
            and (not self.finding or self.finding == finding_of(record))
        )


class ViolationIndex:
    """Follows the journal of one run."""

    def __init__(self, verifier_folder: Path) -> None:
        self.version = 0
        """Grows with every change, so that a reader knows when to list again."""
        self._folder = verifier_folder
        self._offsets: dict[Path, int] = {}
        """By folder of a verifier: how far its journal was read."""
        self._records: dict[str, ViolationRecord] = {}
        self._of_finding: dict[str, deque[str]] = {}

    def take_in(self) -> None:
        """Read what was written since the last time."""
        for folder in shard_folders(self._folder):
            self._take_in(folder)

    def _take_in(self, folder: Path) -> None:
        try:
            with (folder / JOURNAL_NAME).open("rb") as file:
                if file.seek(0, 2) < self._offsets.get(folder, 0):
                    self._begin_again()
                file.seek(self._offsets.get(folder, 0))
                text = file.read(READ_BYTES_MAX)
        except OSError:
            return  # it is not there before the first violation; what is wrong with a disk is reported elsewhere
        whole = text.rfind(b"\n") + 1
        for line in text[:whole].splitlines():
            self._take(line, folder)
        self._offsets[folder] = self._offsets.get(folder, 0) + whole

    def newest(self, wanted: ViolationFilter) -> list[ViolationRecord]:
        """List what is wanted, the newest first."""
        fitting = [record for record in reversed(self._records.values()) if wanted.fits(record)]
        return fitting[:LISTED_MAX]

    def get(self, identity: str) -> ViolationRecord | None:
        return self._records.get(identity)

    def _take(self, text: bytes, folder: Path) -> None:
        known = len(self._records)
        if not take_line(self._records, text, folder):
            return
        self.version += 1
        if len(self._records) == known:
            return
        identity, record = next(reversed(self._records.items()))
        kept = self._of_finding.setdefault(finding_of(record), deque())
        kept.append(identity)
        if len(kept) > KEPT_OF_A_FINDING_MAX:
            del self._records[kept.popleft()]

    def _begin_again(self) -> None:
        self._offsets.clear()
        self._records.clear()
        self._of_finding.clear()
        self.version += 1
