"""Which subjects there are: those that come with soak, and scripts of the user's own."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from soak.errors import UsageError
from soak.subjects.description import SERVER_KINDS, Subject, read_script
from soak.suggestion import did_you_mean

SCRIPTS = Path(__file__).with_name("scripts")
_FACTORY = re.compile(r"[\w.]+:[\w.]+")


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
        found = [subject for subject in known.values() if subject.is_newest and not subject.takes_factory]
    if not all_releases:
        return found
    together = [release for subject in found for release in (subject, *read_script(Path(subject.script))[1:])]
    return list({subject.name: subject for subject in reversed(together)}.values())[::-1]


def _find_one(name: str, known: dict[str, Subject]) -> Subject:
    called, _, choice = name.partition("=")
    if called in known and known[called].takes_factory:
        return _with_factory(known[called], choice)
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


def _with_factory(subject: Subject, choice: str) -> Subject:
    """Return a subject that makes what was chosen: `module:factory`, packages it comes with, the server it needs."""
    factory, *others = choice.split(",")
    if not _FACTORY.fullmatch(factory):
        raise UsageError(
            f"{subject.name} is for any memory of its kind; say which: "
            f"{subject.name}=package.module:factory[,package==version][,redis|postgres]"
        )
    packages = [one for one in others if "==" in one]
    needs = [one for one in others if one in SERVER_KINDS]
    if unknown := [one for one in others if one not in packages and one not in needs]:
        raise UsageError(
            f"{subject.name}={choice}: {unknown[0]!r} is neither a package (name==version) nor a server "
            f"({', '.join(SERVER_KINDS)})"
        )
    if len(needs) > 1:
        raise UsageError(f"{subject.name}={choice}: name one server, or none")
    return msgspec.structs.replace(
        subject,
        title=f"{subject.title}: {factory}",
        dependencies=[*subject.dependencies, *packages],
        needs=needs,
        keeps_files=not needs,
        factory=factory,
        import_path=str(Path.cwd()),
        called=f"{subject.name}={choice}",
    )
