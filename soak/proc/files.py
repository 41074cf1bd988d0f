"""Files written in one step, and small JSON files with a checksum, some with a second copy.

A value that was altered and still is JSON would be believed: another port, another process id, another time. So the
last member of a sealed object, `seal`, is a checksum of all that is before it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, TypeVar

import msgspec

from soak.json_input import decode_json

COPY_SUFFIX = ".copy"
PART_SUFFIX = ".part"
"""Of a file that is being written, or was when its writer was killed."""
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_SEALED = re.compile(rb',"seal":"([0-9a-f]{8})"\}\Z')

_T = TypeVar("_T", bound=msgspec.Struct)


class DamagedFileError(ValueError):
    """A file, and its copy if it has one, is not what was written; the text says in which way."""


@contextlib.contextmanager
def replacing(
    path: Path, *, owner: tuple[int, int] | None = None, mode: int | None = None, is_synced: bool = True
) -> Iterator[BinaryIO]:
    """Write a file that replaces the one at this path in one step, unless an error is raised meanwhile.

    A reader sees the old file or the new one. It is for its owner only unless a mode is given. Who is killed meanwhile
    leaves a file that ends in `.part`.
    """
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-", suffix=PART_SUFFIX)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            if is_synced:
                os.fsync(file.fileno())
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            if owner is not None:
                os.fchown(file.fileno(), *owner)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_whole(
    path: Path,
    content: bytes,
    *,
    owner: tuple[int, int] | None = None,
    mode: int | None = None,
    is_synced: bool = True,
) -> None:
    """Replace a file by this content in one step."""
    with replacing(path, owner=owner, mode=mode, is_synced=is_synced) as file:
        file.write(content)


def exchange(one: Path, other: Path) -> None:
    """Give each of two folders the name of the other in one step; raises `OSError` where that cannot be done."""
    libc = ctypes.CDLL(None, use_errno=True)
    paths = (os.fsencode(one), os.fsencode(other))
    if libc.renameat2(_AT_FDCWD, paths[0], _AT_FDCWD, paths[1], _RENAME_EXCHANGE) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


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
    """Rename a damaged file, for people to look at; it replaces an earlier one of that name."""
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
