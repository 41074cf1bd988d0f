"""What a subject's script says of itself, read from its inline metadata without running it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import msgspec

from soak.checker.contract import Contract
from soak.errors import UsageError
from soak.servers.kinds import CHROMA, POSTGRES, REDIS

PROCESSES_DEFAULT = 2
PROCESSES_MAX = 8
SERVER_KINDS = (REDIS.name, POSTGRES.name, CHROMA.name)
_BLOCK = re.compile(r"(?m)^# /// script\n((?:^#(?: .*)?\n)+?)^# ///$")


class ByDesign(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the library's authors say that it does: found all the same, and labelled."""

    kinds: list[str]
    reason: str


class EarlierRelease(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Another release of the same library."""

    dependencies: list[str]
    known: dict[str, list[str]] = {}
    """By trial, the kinds of what is known to be wrong with it: why it is kept, and what has to be found again."""


class _Described(msgspec.Struct, frozen=True, kw_only=True):
    """What a script says of itself and a subject keeps, under the same names."""

    library: str
    title: str
    version: str = ""
    needs: list[str] = []
    """The kinds of servers it wants, none or one of them."""
    server_module: str | list[str] = ""
    """What its Redis has to load: paths of files among its packages, or absolute ones; empty: nothing."""
    processes: int = PROCESSES_DEFAULT
    """How many of it run side by side, where production would have several."""
    id_in_content: bool = False
    """The library has no field for an id, so it is put in front of the content."""
    has_ttl: bool = False
    takes_factory: bool = False
    """It is one for many: `NAME=module:factory` says which memory it is to make."""
    keeps_files: bool = False
    """Its data is in files of its own, not on a server."""
    promises: str = ""
    """What its documentation promises, in a sentence."""
    by_design: dict[str, ByDesign] = {}
    """By trial."""
    not_applicable: dict[str, str] = {}
    """By trial, with the reason."""


class _ScriptTable(_Described, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table `tool.soak` of a script."""

    contract: dict[str, Any] = {}
    releases: dict[str, EarlierRelease] = {}


class Subject(_Described, frozen=True, kw_only=True):
    """One library in one release, behind the http contract."""

    name: str
    """As it is called on the command line: `openai-agents-redis`, or `openai-agents-redis@0.3.3`."""
    script: str
    dependencies: list[str]
    contract: Contract
    declared_clauses: list[str] = []
    """Those of its contract that it names itself."""
    known: dict[str, list[str]] = {}
    """By trial, the kinds of what is known to be wrong with this release."""
    is_newest: bool = True
    factory: str = ""
    """What makes the memory, as `module:factory`, where the script leaves that open."""
    import_path: str = ""
    """Where that module is looked for besides the packages."""
    called: str = ""
    """As it was called, where that is not its name: the path of a script."""

    @property
    def server_modules(self) -> list[str]:
        """The same as a list."""
        named = self.server_module
        return [named] if isinstance(named, str) and named else [*named]

    @property
    def server(self) -> str | None:
        return self.needs[0] if self.needs else None


def read_script(path: Path) -> list[Subject]:
    """Return what a script offers: its newest release, then the others; raises `UsageError` if it says nothing."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the subject {path} cannot be read ({error}); give the path of a script") from error
    found = _BLOCK.search(text)
    if found is None:
        raise UsageError(f"{path} has no '# /// script' block with its dependencies; see soak/subjects/scripts")
    try:
        block = tomllib.loads("".join(line[2:] + "\n" for line in found[1].splitlines()))
        said = msgspec.convert(_with_underscores(block.get("tool", {}).get("soak")), _ScriptTable)
        contract = msgspec.convert(said.contract, Contract)
        dependencies = msgspec.convert(block.get("dependencies", []), list[str])
        _check(said)
    except (tomllib.TOMLDecodeError, msgspec.MsgspecError, ValueError) as error:
        raise UsageError(f"the script block of {path} is not understood: {error}") from None
    return [
        _subject(path, said, contract, said.version or version_of(said.library, dependencies), dependencies),
        *(
            _subject(path, said, contract, version, release.dependencies, known=release.known, is_newest=False)
            for version, release in said.releases.items()
        ),
    ]


def _with_underscores(table: Any) -> Any:
    """Return a table of TOML, whose names have dashes, with the names of our fields."""
    return {name.replace("-", "_"): value for name, value in table.items()} if isinstance(table, dict) else table


def version_of(library: str, dependencies: list[str]) -> str:
    """Return the version to which the library itself is pinned; empty where it has no releases."""
    for dependency in dependencies:
        name, pinned, version = dependency.partition("==")
        if pinned and name.partition("[")[0].strip() == library:
            return version.strip()
    return ""


def _subject(
    path: Path,
    said: _ScriptTable,
    contract: Contract,
    version: str,
    dependencies: list[str],
    *,
    known: dict[str, list[str]] | None = None,
    is_newest: bool = True,
) -> Subject:
    name = path.stem.replace("_", "-")
    kept = {field: getattr(said, field) for field in _Described.__struct_fields__ if field != "version"}
    return Subject(
        name=name if is_newest else f"{name}@{version}",
        script=str(path.resolve()),
        version=version,
        dependencies=dependencies,
        contract=contract,
        declared_clauses=list(said.contract),
        known=known or {},
        is_newest=is_newest,
        **kept,
    )


def _check(said: _ScriptTable) -> None:
    unknown = [kind for kind in said.needs if kind not in SERVER_KINDS]
    if unknown or len(said.needs) > 1:
        raise ValueError(f"needs should be none or one of {', '.join(SERVER_KINDS)}")
    if said.server_module and said.needs != [REDIS.name]:
        raise ValueError("server-module is for what needs redis")
    if not 1 <= said.processes <= PROCESSES_MAX:
        raise ValueError(f"processes should be from 1 to {PROCESSES_MAX}")
