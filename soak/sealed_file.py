"""Small JSON files that outlive a flipped byte, a cut and a deletion: each has a checksum, and some a second copy.

A value that was altered and still is JSON would be believed: another port, another process id, another time. So the
last member of the object, `seal`, is a checksum of all that stands before it.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
import zlib
from pathlib import Path
from typing import TypeVar

import msgspec

from soak.json_input import decode_json

COPY_SUFFIX = ".copy"
_SEALED = re.compile(rb',"seal":"([0-9a-f]{8})"\}\Z')

_T = TypeVar("_T", bound=msgspec.Struct)


class DamagedFileError(ValueError):
    """A file, and its copy if it has one, is not what was written; the text says in which way."""


def write_whole(
    path: Path,
    content: bytes,
    *,
    owner: tuple[int, int] | None = None,
    mode: int | None = None,
    is_synced: bool = True,
) -> None:
    """Replace a file in one step: a reader sees the old or the new one; for its owner only unless a mode is given."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            if is_synced:
                os.fsync(file.fileno())
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            if owner is not None:
                os.fchown(file.fileno(), *owner)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def write_sealed(path: Path, value: msgspec.Struct, *, is_synced: bool = True, has_copy: bool = False) -> None:
    """Replace a file by a value with its checksum; also its copy, which is read where the file is damaged or gone."""
    content = seal(msgspec.json.encode(value))
    write_whole(path, content, is_synced=is_synced)
    if has_copy:
        write_whole(copy_of(path), content, is_synced=is_synced)


def read_sealed(path: Path, kind: type[_T]) -> _T | None:
    """Return what was written; None if there is nothing; raises `DamagedFileError` if nothing of it can be trusted."""
    problem: Exception | None = None
    for place in (path, copy_of(path)):
        try:
            return decode_json(unseal(place.read_bytes()), kind)
        except FileNotFoundError:
            continue
        except (OSError, DamagedFileError, msgspec.DecodeError) as error:
            problem = problem or error
    if problem is not None:
        raise DamagedFileError(str(problem)) from problem
    return None


def remove_sealed(path: Path) -> None:
    """Remove a file and its copy; the copy first, so that nobody finds it alone."""
    copy_of(path).unlink(missing_ok=True)
    path.unlink(missing_ok=True)


def set_aside(path: Path) -> Path:
    """Rename a damaged file, for people to look at; an earlier one of that name gives way."""
    aside = path.with_name(path.name + ".damaged")
    with contextlib.suppress(FileNotFoundError):
        path.replace(aside)
    return aside


def copy_of(path: Path) -> Path:
    return path.with_name(path.name + COPY_SUFFIX)


def seal(content: bytes) -> bytes:
    """Add the checksum to an object written as JSON."""
    return content[:-1] + b',"seal":"%08x"}' % zlib.crc32(content)


def unseal(content: bytes) -> bytes:
    """Return the object as it was before it was sealed."""
    if not content:
        raise DamagedFileError("the file is empty")
    found = _SEALED.search(content)
    if found is None:
        raise DamagedFileError("its checksum is missing")
    plain = content[: found.start()] + b"}"
    if zlib.crc32(plain) != int(found[1], 16):
        raise DamagedFileError("its checksum does not fit")
    return plain
