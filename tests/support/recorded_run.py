"""A run on record, with violations that are made up."""

from __future__ import annotations

from pathlib import Path

from soak.report.recorded import Recorded
from soak.verifier.journal import Violation


def recorded(folder: Path, found: Violation) -> Recorded:
    return Recorded(violation=found, folder=folder / "verifier", state="open")
