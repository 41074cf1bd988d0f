"""A service that is started from a script."""

from __future__ import annotations

from pathlib import Path

from soak.servers.local import LocalServers
from soak.subjects.description import read_script
from soak.subjects.process import program_of
from tests.support.paths import SUBJECTS


def bed_of(name: str, folder: Path, **options: object) -> LocalServers:
    (subject,) = read_script(SUBJECTS / f"{name}.py")
    return LocalServers(folder, service=program_of(subject, lambda _text: None), **options)  # type: ignore[arg-type]
