"""Loop devices under our disks: which there are, where they are mounted, and letting go of those nobody owns.

A disk of ours is a file with a file system in it. Whoever uses it holds a lock on that file for as long as it lives,
and the kernel takes the lock back however it dies: so anybody can see what a killed owner left.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from soak.errors import ServerUnreachableError
from soak.proc import spawn
from soak.servers.strays import kill_strays_below

IMAGE_NAME = "soak-disk.ext4"
"""Of every image, so that ours can be recognized."""
MOUNTS = Path("/run/soak")
"""Where disks of local servers are mounted: a folder that every user may enter."""
PROGRAMS = ("losetup", "mkfs.ext4", "debugfs", "mount", "umount")
RELEASE_SECONDS_MAX = 30.0
_PROGRAM_SECONDS_MAX = 60.0
_UNMOUNT_SECONDS_MAX = 10.0
_POLL_SECONDS = 0.02
_BLOCK_DEVICES = Path("/sys/block")
_MOUNT_TABLE = Path("/proc/self/mountinfo")
_REMOVED = " (deleted)"
_PATH = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"


class Loop(NamedTuple):
    """A loop device with one of our images."""

    device: Path
    number: str
    """Major and minor, as the table of mounts has them."""
    image: Path
    is_removed: bool
    """The image is gone: its folder was removed while nobody looked after it."""


class Mounted(NamedTuple):
    """A mount point."""

    point: Path
    options: frozenset[str]


def locate(program: str) -> str | None:
    """Find a program of the system, also where ordinary users do not look."""
    return shutil.which(program, path=_PATH)


def loops() -> Iterator[Loop]:
    """Find all devices with images of ours."""
    for folder in _BLOCK_DEVICES.glob("loop*"):
        try:
            backing_file = (folder / "loop" / "backing_file").read_text().rstrip("\n")
            number = (folder / "dev").read_text().strip()
        except OSError:
            continue  # nothing is attached to it
        image = Path(backing_file.removesuffix(_REMOVED))
        if image.name == IMAGE_NAME:
            yield Loop(Path("/dev", folder.name), number, image, backing_file.endswith(_REMOVED))


def mounts_of(number: str) -> list[Mounted]:
    """Find where a device is mounted, the latest first."""
    found = []
    for line in _MOUNT_TABLE.read_text().splitlines():
        words = line.split()
        if words[2] == number:
            found.append(Mounted(Path(_unescaped(words[4])), frozenset(words[-1].split(","))))
    return found[::-1]


def until_released(image: Path) -> None:
    """Wait until no device has this image: mounted again before that, it would be the same file system as before.

    A container that is just being made holds a copy of every mount for a moment.
    """
    deadline = time.monotonic() + RELEASE_SECONDS_MAX
    while any(loop.image == image for loop in loops()):
        if time.monotonic() >= deadline:
            raise ServerUnreachableError(
                f"the disk {image} is unmounted, and somebody still holds it; see which process has it mounted "
                "with: grep soak-disk /proc/*/mountinfo"
            )
        time.sleep(_POLL_SECONDS)


def unmount(point: Path, *, at_any_price: bool = False) -> None:
    """Unmount, and ask again while somebody is still leaving; lazily only as the last resort, and if that is wanted."""
    deadline = time.monotonic() + _UNMOUNT_SECONDS_MAX
    while complaint := run("umount", point):
        if not _is_mounted(point):
            break
        if time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
        elif not at_any_price:
            raise ServerUnreachableError(
                f"{point} cannot be unmounted ({complaint}); see who uses it with: fuser -vm {point}"
            )
        else:
            # It goes, and its device with it, when the last one who uses it does.
            run("umount", "--lazy", point)
            break
    with contextlib.suppress(OSError):
        point.rmdir()


def abandoned() -> list[Loop]:
    """Find devices whose owner is gone, except where the Docker engine has one mounted for a container that lives."""
    return [loop for loop in loops() if _is_abandoned(loop) and all(map(_is_ours, mounts_of(loop.number)))]


def release_abandoned() -> int:
    """Unmount and detach what killed owners left; returns how many devices that were. Their images stay."""
    if os.geteuid() != 0 or not any(loops()):
        return 0
    released = 0
    # One at a time: a device that another has just released may be somebody's by now.
    with _alone():
        for loop in abandoned():
            for mounted in mounts_of(loop.number):
                kill_strays_below(mounted.point)
                unmount(mounted.point, at_any_price=True)
            detach(loop.device)
            released += 1
    return released


def detach(device: Path) -> None:
    """Let go of an image: at once, or as soon as the device is not mounted any more."""
    run("losetup", "--detach", device)  # one that was mounted by itself is gone already


def is_locked(image: Path) -> bool:
    """Return whether somebody who lives uses this image."""
    try:
        descriptor = os.open(image, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def run(program: str, *words: object) -> str:
    """Run a program of the system; returns its complaint as one line, or nothing if it succeeded."""
    found = locate(program)
    if found is None:
        return f"{program} is not there"
    try:
        done = spawn.run([found, *map(str, words)], seconds_max=_PROGRAM_SECONDS_MAX)
    except OSError as error:  # which a timeout is, too
        return f"{program}: {type(error).__name__}"
    return done.complaint and f"{program}: {done.complaint}"


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    MOUNTS.mkdir(exist_ok=True)
    descriptor = os.open(MOUNTS, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _is_abandoned(loop: Loop) -> bool:
    return loop.is_removed or not is_locked(loop.image)


def _is_ours(mounted: Mounted) -> bool:
    return mounted.point.is_relative_to(MOUNTS)


def _is_mounted(point: Path) -> bool:
    return any(_unescaped(line.split()[4]) == str(point) for line in _MOUNT_TABLE.read_text().splitlines())


def _unescaped(path: str) -> str:
    """Undo how the kernel writes blanks in the table of mounts."""
    for code in ("040", "011", "012"):
        path = path.replace(f"\\{code}", chr(int(code, 8)))
    return path.replace("\\134", "\\")
