"""The shim is shipped as source and compiled where it runs, when it is first needed."""

from __future__ import annotations

import hashlib
import importlib.resources
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from soak.errors import UsageError

COMPILERS = ("cc", "gcc", "clang")
_OPTIONS = ("-shared", "-fPIC", "-O2", "-std=gnu11", "-x", "c")
_BUILD_SECONDS_MAX = 60.0


class PowerCutUnavailableError(UsageError):
    """Power cuts are not possible on this machine."""


def build(folder: Path) -> Path:
    """Return the shim as a library in this folder; raises `PowerCutUnavailableError` where there can be none."""
    if sys.platform != "linux" or sys.maxsize < 2**32 or platform.libc_ver()[0] != "glibc":
        raise PowerCutUnavailableError("no power cuts: they need a 64-bit Linux with glibc; choose other faults")
    source = importlib.resources.files(__package__).joinpath("shim.c").read_bytes()
    # By its content, so that a newer soak on an old data folder brings its own.
    library = folder / f"power_cut-{hashlib.sha256(source).hexdigest()[:16]}.so"
    if not library.exists():
        _compile(source, library)
    return library


def _compile(source: bytes, library: Path) -> None:
    compiler = next((found for name in COMPILERS if (found := shutil.which(name))), None)
    if compiler is None:
        raise PowerCutUnavailableError(
            "no power cuts: no C compiler; install one (gcc or clang) or choose other faults"
        )
    descriptor, name = tempfile.mkstemp(dir=library.parent, prefix=f".{library.name}-")
    os.close(descriptor)
    unfinished = Path(name)
    try:
        complaint = _run(source, compiler, *_OPTIONS, "-o", name, "-")
        if complaint:
            raise PowerCutUnavailableError(f"no power cuts: {compiler} failed ({complaint}); choose other faults")
        unfinished.chmod(0o755)
        unfinished.rename(library)
    finally:
        unfinished.unlink(missing_ok=True)


def _run(source: bytes, *command: str) -> str:
    """Run a compiler on a source; returns the first line of its complaint, or nothing if it succeeded."""
    try:
        done = subprocess.run(  # noqa: S603  a compiler found in PATH, on a source of ours
            command, input=source, capture_output=True, timeout=_BUILD_SECONDS_MAX, check=False
        )
    except subprocess.TimeoutExpired:
        return f"not done after {_BUILD_SECONDS_MAX:.0f} s"
    except OSError as error:
        return str(error.strerror)
    if done.returncode == 0:
        return ""
    lines = done.stderr.decode("utf-8", "replace").split("\n")
    return next((line.strip() for line in lines if "error" in line), f"exit status {done.returncode}")
