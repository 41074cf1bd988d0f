"""Which subjects there are: those that come with soak, and scripts of the user's own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from soak.errors import UsageError
from soak.subjects.description import Subject, read_script
from soak.suggestion import did_you_mean

SCRIPTS = Path(__file__).with_name("scripts")


def all_subjects() -> dict[str, Subject]:
    """Return every subject that comes with soak, each release of each library, by name."""
    paths = sorted(path for path in SCRIPTS.glob("*.py") if not path.name.startswith("_"))
    return {subject.name: subject for path in paths for subject in read_script(path)}


def find(names: Sequence[str], *, all_releases: bool = False) -> list[Subject]:
    """Return the subjects of these names or paths; without any, the newest release of all that come with soak.

    If wanted, each is followed by the earlier releases that its script knows.
    """
    known = all_subjects()
    found = [_find_one(name, known) for name in dict.fromkeys(names)]
    if not names:
        found = [subject for subject in known.values() if subject.is_newest]
    if not all_releases:
        return found
    together = [release for subject in found for release in (subject, *read_script(Path(subject.script))[1:])]
    return list({subject.name: subject for subject in reversed(together)}.values())[::-1]


def _find_one(name: str, known: dict[str, Subject]) -> Subject:
    if name in known:
        return known[name]
    path, _, version = name.partition("@")
    if path.endswith(".py"):
        for subject in read_script(Path(path)):
            if subject.version == version or (not version and subject.is_newest):
                return msgspec.structs.replace(subject, called=name)
        raise UsageError(f"{path} knows no release {version}")
    hint = did_you_mean(name, known, "see 'soak analyse --list', or give the path of a script")
    raise UsageError(f"there is no subject {name!r}; {hint}")
