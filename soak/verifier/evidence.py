"""Evidence of each violation, written the moment it is confirmed: a file each for the first, a journal of all.

The file comes first, and then the line in the journal that makes it count: a kill in between leaves a file that nobody
counts, which is removed at the next start, and the violation is found again. The other way round it would leave a
violation that is counted for ever and shown by nothing.
A disk that is full or broken does not stop the soak; it is said, counted, and shown.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections import Counter
from pathlib import Path
from typing import BinaryIO

import msgspec
import structlog

from soak.proc.files import replacing, write_whole
from soak.verifier.journal import (
    Change,
    Line,
    Thinned,
    Violation,
    decode_line,
    encode_lines,
    read_head,
    thin_out,
    violation_id,
)

_log = structlog.get_logger()

FOLDER_BYTES_MAX = 1024 * 1024 * 1024
"""All evidence files together; what is found beyond that is only in the journal."""

JOURNAL_NAME = "journal.jsonl"
JOURNAL_BYTES_MAX = 32 * 1024 * 1024
"""Once it is longer, it is thinned out as soon as a checkpoint has counted it."""
JOURNAL_KEPT_BYTES_MAX = 16 * 1024 * 1024
"""What is left of it then, apart from violations with an evidence file of their own."""
FILES_NAME = "evidence"
_FILE_NAME = re.compile(r"^([a-z_]+)\.([0-9a-f]{12})\.json$")


class EvidenceFolder:
    """Where a run's violations are kept."""

    def __init__(self, folder: Path, files_max_per_kind: int) -> None:
        self._folder = folder
        self._journal = folder / JOURNAL_NAME
        self._files = folder / FILES_NAME
        self._files_max = files_max_per_kind
        self._written: Counter[str] = Counter()
        self._bytes = 0
        self._is_cut = False
        """A full disk may have left half a line at the end of the journal."""
        self.failure = ""
        """The last reason why evidence could not be written, if it could not."""
        self.lines_damaged = 0
        """Lines of the journal that are gone or cannot be read: each recorded a violation."""
        try:
            self._files.mkdir(parents=True, exist_ok=True)
            self._take_stock()
        except OSError as error:
            self._fail(error)

    def _take_stock(self) -> None:
        self._written.clear()
        self._bytes = 0
        for path in self._files.iterdir():
            self._written[path.name.partition(".")[0]] += 1
            self._bytes += path.stat().st_size

    @property
    def files(self) -> int:
        """How many files of evidence there are."""
        return self._written.total()

    @property
    def files_bytes(self) -> int:
        return self._bytes

    def journal_size(self) -> int:
        """Return how long the journal would be if nothing had ever been removed: places in it mean that."""
        try:
            with self._journal.open("rb") as file:
                return os.fstat(file.fileno()).st_size + _removed_bytes(file)
        except FileNotFoundError:
            return 0

    @property
    def violations_unlisted(self) -> int:
        """How many violations the journal lists no longer."""
        try:
            with self._journal.open("rb") as file:
                head = read_head(file)
        except OSError:
            return 0
        return 0 if head is None else head.violations

    def thin_out(self, counted: int) -> None:
        """Shorten a journal that is too long; what it holds up to this place is in a checkpoint, the rest stays."""
        try:
            if self._journal.stat().st_size <= JOURNAL_BYTES_MAX:
                return
            with self._journal.open("rb") as file:
                end = counted - _removed_bytes(file)
                file.seek(0)
                head = read_head(file)
                kept, dropped = thin_out(file.read(end - file.tell()).splitlines(keepends=True), JOURNAL_KEPT_BYTES_MAX)
                later = file.read()
            first = Thinned(
                counted=counted,
                kept_bytes=sum(map(len, kept)),
                violations=dropped + (0 if head is None else head.violations),
            )
            self._replace_journal([msgspec.json.encode(first) + b"\n", *kept, later])
        except FileNotFoundError:
            return
        except OSError as error:
            self._fail(error)

    def is_journal_lost(self, counted: int | None) -> bool:
        """Whether the journal is shorter than what a checkpoint has counted of it, or is gone beside its evidence."""
        try:
            return self.journal_size() < (counted or 0) or (not self._journal.exists() and bool(self.files))
        except OSError:
            return False

    def paths(self) -> list[Path]:
        return sorted(path for path in self._files.glob("*.json") if _FILE_NAME.match(path.name))

    def whole_lines(self) -> list[bytes]:
        """Return the lines of the journal as they stand there; one that was cut is left out."""
        try:
            with self._journal.open("rb") as file:
                read_head(file)
                return [line for line in file if line.endswith(b"\n")]
        except OSError:
            return []

    def replace_journal(self, counted: int, lines: list[bytes], unlisted: int) -> None:
        """Write the journal anew; these lines are what had been counted up to a place, less those it does not list."""
        head = Thinned(counted=counted, kept_bytes=sum(map(len, lines)), violations=unlisted)
        try:
            self._replace_journal([*([msgspec.json.encode(head) + b"\n"] if counted else []), *lines])
        except OSError as error:
            self._fail(error)

    def _replace_journal(self, lines: list[bytes]) -> None:
        with replacing(self._journal, mode=0o644) as file:
            file.writelines(lines)

    def since(self, offset: int) -> list[Line]:
        """Return what the journal holds beyond an offset; a line cut by a kill is dropped, a damaged one is counted."""
        try:
            with self._journal.open("rb") as file:
                head = read_head(file)
                begin = file.tell()
                if head is not None and offset < head.counted:
                    # The checkpoint that had counted them is gone, and so are they.
                    self.lines_damaged += head.violations
                else:
                    begin = max(begin, offset - _removed_bytes(file))
                    self.lines_damaged += int(os.fstat(file.fileno()).st_size < begin)
                file.seek(begin)
                lines = file.read().split(b"\n")
        except FileNotFoundError:
            self.lines_damaged += int(offset > 0)
            return []
        decoded = [decode_line(line) for line in lines[:-1]]
        self.lines_damaged += decoded.count(None)
        return [line for line in decoded if line is not None]

    def repair(self) -> None:
        """Put right what a kill left half done, in the journal and in the files."""
        self._repair_journal()
        try:
            self._remove_uncounted()
        except OSError as error:
            self._fail(error)

    def _repair_journal(self) -> None:
        """Cut a line that was left unfinished, so that the next one starts on a line of its own."""
        try:
            content = self._journal.read_bytes()
        except FileNotFoundError:
            return
        whole = content.rfind(b"\n") + 1
        if whole != len(content):
            os.truncate(self._journal, whole)

    def _remove_uncounted(self) -> None:
        """Remove the files whose violation the journal does not have: it will be found again."""
        files = {path: _FILE_NAME.match(path.name) for path in self._files.iterdir()}
        if not any(found or path.suffix == ".part" for path, found in files.items()):
            return
        counted = self._counted()
        for path, found in files.items():
            if path.suffix == ".part" or (found is not None and found[2] not in counted):
                path.unlink(missing_ok=True)
        self._take_stock()

    def _counted(self) -> set[str]:
        """Return the violations that the journal has, by their names; of a damaged line, whatever may be one."""
        counted: set[str] = set()
        with contextlib.suppress(FileNotFoundError), self._journal.open("rb") as file:
            read_head(file)
            for text in file:
                line = decode_line(text)
                if line is not None:
                    counted.add(line.id)
                else:
                    counted.update(re.findall(r"\b[0-9a-f]{12}\b", text.decode("ascii", "replace")))
        return counted

    def has_room(self, kind: str) -> bool:
        """Whether another violation of this kind gets a file of its own."""
        return self._written[kind] < self._files_max and self._bytes < FOLDER_BYTES_MAX

    def write(self, violations: list[Violation], document: bytes | None) -> bool:
        """Write what was found in one judgement; returns whether it is on disk."""
        problem: OSError | None = None
        if document is not None:
            try:
                self._write_file(violations[0], document)
            except OSError as error:
                problem = error
        try:
            self._append(violations)
        except OSError as error:
            problem = error
        if problem is not None:
            self._fail(problem)
            return False
        self.failure = ""
        return True

    def note(self, changes: list[Change]) -> bool:
        """Write down that violations are over, or there again; returns whether it is on disk."""
        try:
            self._append(changes)
        except OSError as error:
            self._fail(error)
            return False
        return True

    def _append(self, lines: list[Violation] | list[Change]) -> None:
        if self._is_cut:
            self._repair_journal()
            self._is_cut = False
        with self._journal.open("ab") as file:
            self._is_cut = True
            file.write(encode_lines(list(lines)))
        self._is_cut = False

    def _fail(self, error: OSError) -> None:
        if str(error) != self.failure:
            _log.error("evidence_not_written", what="the soak goes on", error=str(error), folder=str(self._folder))
        self.failure = str(error)

    def _write_file(self, first: Violation, document: bytes) -> None:
        self._written[first.kind] += 1
        self._bytes += len(document)
        path = self._files / f"{first.kind}.{first.id}.json"
        write_whole(path, document, mode=0o644, is_synced=False)

    def sync(self) -> None:
        """Bring the journal onto the disk. A kill needs no sync; a checkpoint that counts on the journal does."""
        try:
            with self._journal.open("rb") as file:
                os.fsync(file.fileno())
        except FileNotFoundError:
            return

    def first(self, count: int) -> list[str]:
        files = sorted(self._files.glob("*.json"), key=lambda path: path.stat().st_mtime)
        return [str(path) for path in files[:count]]


def _removed_bytes(file: BinaryIO) -> int:
    """Return by how much places in the journal are before what they would be if nothing had been removed."""
    file.seek(0)
    head = read_head(file)
    return 0 if head is None else head.counted - head.kept_bytes - file.tell()


__all__ = ["FILES_NAME", "JOURNAL_NAME", "Change", "EvidenceFolder", "Line", "Violation", "violation_id"]
