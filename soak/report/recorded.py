"""The violations on record in a data folder: of the run that is there, and of those that were put aside."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import msgspec

from soak.errors import UsageError
from soak.verifier.evidence import FILES_NAME, JOURNAL_NAME
from soak.verifier.journal import Change, Violation, decode_line, read_head


class Recorded(msgspec.Struct, kw_only=True):
    """One violation as the journal has it, with what became of it since."""

    violation: Violation
    folder: Path
    """The verifier's folder that holds it."""
    state: str
    """`open` or `healed`."""
    changed_wall_seconds: float | None = None
    """When it was last over, or there again."""

    @property
    def evidence(self) -> Path | None:
        """The evidence file that tells of it, if there is one."""
        named = self.violation.evidence
        path = self.folder / FILES_NAME / f"{self.violation.kind}.{named}.json"
        return path if named and path.exists() else None

    def as_dict(self) -> dict[str, object]:
        """Return it for machines; the keys are part of the interface."""
        violation = self.violation
        return {
            "id": violation.id,
            "run": violation.run,
            "store": violation.store,
            "kind": violation.kind,
            "state": self.state,
            "session": violation.session,
            "message": violation.message,
            "detail": violation.detail,
            "cause": violation.cause,
            "found_at_wall_seconds": violation.at_wall_seconds,
            "changed_at_wall_seconds": self.changed_wall_seconds,
            "evidence": None if self.evidence is None else str(self.evidence),
        }


class Records(NamedTuple):
    """All violations on record, the oldest first, and what could not be read."""

    found: list[Recorded]
    unreadable: dict[Path, int]
    """Lines that were damaged, or written by an older soak, by journal."""
    unlisted: int = 0
    """Violations that were found, too, and that a journal lists no longer because there were too many."""


def recorded(data_dir: Path) -> Records:
    """Return the violations on record in a data folder."""
    if not data_dir.is_dir():
        raise UsageError(f"there is no data folder {data_dir}; name the one of the run with --data-dir")
    found: list[Recorded] = []
    unreadable: dict[Path, int] = {}
    unlisted = 0
    for folder in verifier_folders(data_dir):
        records, count, thinned = of_folder(folder)
        found += records
        unlisted += thinned
        if count:
            unreadable[folder / JOURNAL_NAME] = count
    return Records(sorted(found, key=lambda record: record.violation.at_wall_seconds), unreadable, unlisted)


def verifier_folders(data_dir: Path) -> list[Path]:
    """Return where verifiers have kept their records: the present run first, then those put aside, the latest first."""
    aside = sorted((data_dir / "runs").glob("*/verifier*"), key=lambda path: path.stat().st_mtime, reverse=True)
    return [data_dir / "verifier", *aside]


def of_folder(folder: Path) -> tuple[list[Recorded], int, int]:
    """Return the violations of one verifier's folder, how many lines cannot be read, and how many are not listed."""
    found: dict[str, Recorded] = {}
    unreadable = unlisted = 0
    try:
        with (folder / JOURNAL_NAME).open("rb") as file:
            head = read_head(file)
            unlisted = 0 if head is None else head.violations
            for text in file:
                if not text.endswith(b"\n"):
                    break  # it is being written
                line = decode_line(text)
                unreadable += int(line is None)
                if isinstance(line, Violation):
                    found.setdefault(
                        line.id,
                        Recorded(violation=line, folder=folder, state="healed" if line.healed else "open"),
                    )
                elif isinstance(line, Change) and line.id in found:
                    record = found[line.id]
                    record.state = "healed" if line.event == "healed" else "open"
                    record.changed_wall_seconds = line.at_wall_seconds
    except FileNotFoundError:
        return [], 0, 0
    except OSError as error:
        raise UsageError(f"{folder / JOURNAL_NAME} cannot be read ({error.strerror})") from error
    return list(found.values()), unreadable, unlisted
