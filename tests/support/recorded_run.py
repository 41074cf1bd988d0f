"""A run on record, with violations that are made up."""

from __future__ import annotations

from pathlib import Path

from soak.report.violation_records import ViolationRecord
from soak.verifier.journal import Violation


def recorded(folder: Path, found: Violation) -> ViolationRecord:
    return ViolationRecord(violation=found, folder=folder / "verifier", state="open")
