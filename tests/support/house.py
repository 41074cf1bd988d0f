"""Counts how large the code is, and how many files one thing passes: `python -m tests.support.house`.

It reads the source and runs nothing, so its counts are of names, and each count says which names:

*message*: files between a participant's decision and the report. A value of one class after another carries a message:
it is written (`Message`), recorded (`Attempt`, `Batch`), read back (`Read`), compared (`ExpectedSession`, `Suspicion`,
`Finding`) and told (`Violation`, `FindingResult`, `EvidenceFile`). A file counts if it defines or imports one of these
and lies in a package on the way; of the stores, only one is on it.

*fault*: files that define or import a class that carries a fault from its schedule over the server to the verdict. Of
the files that each define one fault, one counts.

*setting*: files that use the name of a setting, or that name with its unit (`think_seconds`), as an attribute, an
argument, a field or a text. A name that means something else elsewhere counts, too, so it is an upper bound. Shown are
the median over all settings, and settings whose names mean nothing else.
"""

from __future__ import annotations

import ast
import re
import statistics
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel

from soak.settings import SoakSettings
from tests.support.paths import ROOT

MESSAGE = (
    "Message", "Attempt", "Batch", "Read", "ExpectedSession", "Suspicion", "Finding", "Violation", "FindingResult",
    "EvidenceFile",
)  # fmt: skip
MESSAGE_PACKAGES = ("load", "ledger", "stores", "checker", "verifier", "report")
STORE = "RedisListStore"
"""The one store that is on the way; of the others, only what it imports counts."""
FAULT = (
    "Fault", "Rule", "Schedule", "Planned", "Injected", "FaultPhase", "FaultWindow", "FaultHistory", "InjectedFault",
    "FaultResult",
)  # fmt: skip
SETTINGS = ("load.think", "faults.recovery_max", "verifier.settle", "verifier.recall_ages", "supervision.backoff")
UNITS = ("", "_seconds", "_ms", "_us", "_bytes")


class Module(NamedTuple):
    """One file of Python."""

    path: Path
    lines: int
    tree: ast.Module

    @property
    def name(self) -> str:
        return ".".join(self.path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")

    @property
    def classes(self) -> list[ast.ClassDef]:
        return [node for node in self.tree.body if isinstance(node, ast.ClassDef)]

    def imports(self) -> Iterator[str]:
        """Give the full name of all that it imports from soak: modules, and what is in them."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "soak":
                yield node.module
                yield from (f"{node.module}.{alias.name}" for alias in node.names)
            elif isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "soak")

    def words(self) -> set[str]:
        """Return the names it uses: attributes, arguments, fields, and texts that are one name."""
        found = set()
        for node in ast.walk(self.tree):
            match node:
                case ast.Attribute(attr=word) | ast.keyword(arg=str(word)) | ast.arg(arg=word):
                    found.add(word)
                case ast.AnnAssign(target=ast.Name(id=word)):
                    found.add(word)
                case ast.Constant(value=str(text)):
                    found.update(text.replace("=", ".").split(".")[:3])
        return found


def modules(folder: str, naming: str = "") -> list[Module]:
    """Return the modules of a folder, or only those in which something matches a regular expression."""
    found = ((path, path.read_text()) for path in sorted((ROOT / folder).rglob("*.py")))
    return [Module(path, text.count("\n"), ast.parse(text)) for path, text in found if re.search(naming, text)]


def carrying(code: Iterable[Module], classes: Iterable[str]) -> set[str]:
    """Return the modules that define or import one of these classes, or import its module and name it from there."""
    code = list(code)
    homes = {f"{module.name}.{one.name}" for module in code for one in module.classes if one.name in set(classes)}
    missing = set(classes) - {home.rpartition(".")[2] for home in homes}
    if missing:
        print(f"no such class any more: {', '.join(sorted(missing))}", file=sys.stderr)
    found = {home.rpartition(".")[0] for home in homes}
    for module in code:
        imported = set(module.imports())
        used = module.words()
        if any(
            home in imported or (home.rpartition(".")[0] in imported and home.split(".")[-1] in used) for home in homes
        ):
            found.add(module.name)
    return found


def files_of_a_message(code: list[Module]) -> set[str]:
    packages = {f"soak.{name}" for name in MESSAGE_PACKAGES}
    on_the_way = {one for one in carrying(code, MESSAGE) if ".".join(one.split(".")[:2]) in packages}
    by_name = {module.name: module for module in code}
    home = next(module.name for module in code if any(one.name == STORE for one in module.classes))
    store = _with_imports(home, by_name, "soak.stores.")
    return {one for one in on_the_way if not one.startswith("soak.stores.")} | store


def _with_imports(name: str, by_name: dict[str, Module], prefix: str) -> set[str]:
    """Return a module, and those that it imports from below the prefix, and so on."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        one = waiting.pop()
        if one in by_name and one not in found:
            found.add(one)
            waiting.extend(other for other in by_name[one].imports() if other.startswith(prefix))
    return found


def files_of_a_fault(code: list[Module]) -> set[str]:
    one_each = {
        module.name
        for module in code
        if module.name.startswith("soak.faults.") and any(_is_fault(one) for one in module.classes)
    }
    found = carrying(code, FAULT)
    return found - one_each | set(sorted(one_each)[:1])


def _is_fault(one: ast.ClassDef) -> bool:
    """Whether a class is one kind of fault: it has a name, and says what it does to a server."""
    fields = {
        node.target.id for node in one.body if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    fields |= {
        target.id
        for node in one.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    return one.name != "Fault" and "name" in fields and bool(one.bases)


def files_of_settings(code: list[Module]) -> dict[str, int]:
    """Return for each setting how many files use its name."""
    words = [module.words() for module in code]
    spelled = {path: {path.rpartition(".")[2] + unit for unit in UNITS} for path in _leaves(SoakSettings)}
    return {path: sum(not used.isdisjoint(names) for used in words) for path, names in spelled.items()}


def _leaves(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    for name, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from _leaves(kind, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def same_names(code: list[Module]) -> dict[str, list[str]]:
    """Return the names of public classes that are there more than once, and where."""
    places: dict[str, list[str]] = {}
    for module in code:
        for one in module.classes:
            if not one.name.startswith("_"):
                places.setdefault(one.name, []).append(module.name)
    return {name: where for name, where in sorted(places.items()) if len(where) > 1}


def imported_once(code: list[Module]) -> set[str]:
    """Return the modules that exactly one other imports."""
    names = {module.name for module in code}
    importers = Counter(one for module in code for one in set(module.imports()) & names if one != module.name)
    return {name for name, count in importers.items() if count == 1}


def main() -> None:
    code, tests = modules("soak"), modules("tests")
    for folder, files in (("soak", code), ("tests", tests)):
        sizes = [module.lines for module in files]
        print(f"{folder}: {sum(sizes):,} lines in {len(sizes)} files, median {statistics.median(sizes):.0f} lines")
    message, fault = files_of_a_message(code), files_of_a_fault(code)
    rooms = Counter(one.split(".")[1] for one in message)
    print(f"a message passes {len(message)} files: {_said(rooms)}")
    print(f"a fault passes {len(fault)} files: {_said(Counter(one.split('.')[1] for one in fault))}")
    settings = files_of_settings(code)
    print(
        f"a setting is named in {statistics.median(settings.values()):.0f} files (median of {len(settings)}); "
        + ", ".join(f"{path} in {settings[path]}" for path in SETTINGS if path in settings)
    )
    twice = same_names(code)
    print(f"public class names that are there more than once: {len(twice)}")
    for name, where in twice.items():
        print(f"  {name}: {', '.join(where)}")
    print(f"modules that exactly one other imports: {len(imported_once(code))}")


def _said(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.most_common())


if __name__ == "__main__":
    main()
