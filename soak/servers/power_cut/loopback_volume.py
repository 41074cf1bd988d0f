"""A disk of a server's own, whose power can be cut: a file system in a file, shut down in the midst of its work.

ext4 is stopped at once and writes nothing more, not even its journal (what `EXT4_IOC_SHUTDOWN` is there for).
Mounted again it recovers as after a power failure. So what is lost is decided by real code, with its delayed
allocation and its commits every five seconds; only the disk below never loses what it was handed. It needs root.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import os
import shutil
import struct
import threading
import time
from pathlib import Path

from soak.errors import ServerUnreachableError, UsageError
from soak.servers.power_cut import loops
from soak.servers.power_cut.source import PowerSource, Step
from soak.servers.unprivileged import Account

SIZE_DEFAULT = "4g"
"""Of an image, which is sparse: it takes no more than what is written there."""
MOUNT_OPTIONS = ("nodev", "nosuid", "discard", "noinit_itable")
FILE_SYSTEM = "ext4"
_SHUTDOWN = 0x8004587D  # EXT4_IOC_SHUTDOWN
_NO_LOG_FLUSH = struct.pack("=I", 2)
_LOOP_CONTROL = Path("/dev/loop-control")
_CUT_NAME = "power-was-cut"
_LOCK_SECONDS_MAX = 10.0
_POLL_SECONDS = 0.02
_UNITS = {"k": 2**10, "m": 2**20, "g": 2**30}
_NAME_CHARACTERS = 16


def size_bytes(text: str) -> int:
    """Read a size as Docker writes it: `512m`, `4g`."""
    return int(text[:-1]) * _UNITS[text[-1]]


def no_disks() -> str | None:
    """Return why no server can have a disk of its own here; None if it can."""
    if os.geteuid() != 0:
        return "no power cuts by file system: only root may mount one; run soak as root, or take the shim"
    if missing := [program for program in loops.PROGRAMS if loops.locate(program) is None]:
        return f"no power cuts by file system: {missing[0]} is not here; install util-linux and e2fsprogs"
    if not _LOOP_CONTROL.exists():
        return "no power cuts by file system: this machine has no loop devices; load the kernel module 'loop'"
    return None


class LoopbackVolume(PowerSource):
    """The disk of one server. All that is done to it is done one after the other, in whatever thread."""

    no_io_errors = "power is cut by file system here; set testbed.power_cut = shim"
    allows_exchange = False

    def __init__(self, folder: Path, size: int, owner: Account | None = None) -> None:
        """Keep the image in this folder; the file system belongs to `owner`."""
        self._folder = folder.resolve()
        self.image = self._folder / loops.IMAGE_NAME
        self.mount_point = loops.MOUNTS / hashlib.sha256(str(self.image).encode()).hexdigest()[:_NAME_CHARACTERS]
        self._size = size
        self._owner = owner
        self._descriptor: int | None = None
        self._lock = threading.RLock()

    @property
    def was_cut(self) -> bool:  # type: ignore[override]
        """Whether its power was cut, and no server has come back on it since."""
        return (self._folder / _CUT_NAME).exists()

    def came_back(self) -> None:
        """Take note that a server runs on it again."""
        (self._folder / _CUT_NAME).unlink(missing_ok=True)

    def provide_disk(self) -> Path:
        return self.mount()

    def problem(self, folder: Path) -> str | None:
        return None if self.holds(folder) else f"does not run on its disk {self.image}"

    async def cut_under(self, freeze: Step, kill: Step) -> None:
        # It is frozen first: a server that saw its disk fail would say so, and not just be gone.
        await freeze()
        try:
            await asyncio.to_thread(self.cut, self.mount_point)
        finally:
            await kill()
        await asyncio.to_thread(self.unmount)

    # Ours ---------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Make the image if there is none, and own it until `close`, or until we are dead."""
        with self._lock:
            if self._descriptor is not None:
                return
            self._folder.mkdir(parents=True, exist_ok=True)
            if not self.image.exists():
                self._make()
            self._descriptor = self._locked()

    def close(self) -> None:
        """Unmount it and give it free; the image stays."""
        with self._lock:
            if self._descriptor is None:
                return
            try:
                self._unmount(at_any_price=True)
            finally:
                os.close(self._descriptor)
                self._descriptor = None

    def _make(self) -> None:
        unfinished = self.image.with_suffix(".new")
        unfinished.unlink(missing_ok=True)
        with unfinished.open("wb") as file:
            file.truncate(self._size)
        owner = self._owner or Account(0, 0)
        options = f"lazy_itable_init=1,lazy_journal_init=1,nodiscard,root_owner={owner.uid}:{owner.gid}"
        # Without the folder of found files it is empty, and an image may put there what it has for new volumes.
        complaint = loops.run("mkfs.ext4", "-q", "-F", "-m", "0", "-E", options, unfinished) or loops.run(
            "debugfs", "-w", "-R", "rmdir lost+found", unfinished
        )
        if complaint:
            unfinished.unlink()
            raise ServerUnreachableError(f"no file system can be made in {self.image} ({complaint})")
        unfinished.rename(self.image)

    def _locked(self) -> int:
        descriptor = os.open(self.image, os.O_RDONLY | os.O_CLOEXEC)
        deadline = time.monotonic() + _LOCK_SECONDS_MAX
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                # Whoever looks for abandoned ones asks for the lock, too, for a moment.
                if time.monotonic() >= deadline:
                    os.close(descriptor)
                    raise UsageError(
                        f"the disk {self.image} is in use by another process; stop it or choose another data folder"
                    ) from error
                time.sleep(_POLL_SECONDS)
            else:
                return descriptor

    # Mounted by us ------------------------------------------------------------------------------------------

    def mount(self) -> Path:
        """Mount it where every user may pass, and return the mount point; nothing if it is mounted."""
        with self._lock:
            if self.is_mounted:
                return self.mount_point
            self._unmount(at_any_price=False)  # it may still be there without power
            loops.until_released(self.image)
            for folder in (loops.MOUNTS, self.mount_point):
                folder.mkdir(exist_ok=True)
                folder.chmod(0o755)
            options = ",".join(("loop", *MOUNT_OPTIONS))
            if complaint := loops.run("mount", "-t", FILE_SYSTEM, "-o", options, self.image, self.mount_point):
                raise ServerUnreachableError(f"the disk {self.image} cannot be mounted ({complaint})")
            return self.mount_point

    def unmount(self) -> None:
        """Unmount it, and wait until nobody holds it any more."""
        with self._lock:
            self._unmount(at_any_price=False)
            loops.until_released(self.image)

    @property
    def is_mounted(self) -> bool:
        """Whether it is mounted by us, and has power."""
        return any(
            mounted.point == self.mount_point and "shutdown" not in mounted.options
            for loop in self._loops()
            for mounted in loops.mounts_of(loop.number)
        )

    def _unmount(self, *, at_any_price: bool) -> None:
        for loop in self._loops():
            for mounted in loops.mounts_of(loop.number):
                if mounted.point == self.mount_point:
                    loops.unmount(mounted.point, at_any_price=at_any_price)
        with contextlib.suppress(OSError):
            self.mount_point.rmdir()

    # Mounted by others --------------------------------------------------------------------------------------

    def attach(self) -> Path:
        """Return a device with it, for somebody else to mount; call `let_go` once that is done."""
        with self._lock:
            self._unmount(at_any_price=False)
            loops.until_released(self.image)
            if complaint := loops.run("losetup", "--find", "--nooverlap", self.image):
                raise ServerUnreachableError(f"no loop device is available for {self.image} ({complaint})")
            return next(loop.device for loop in self._loops())

    def let_go(self) -> None:
        """Let the device go together with its last mount; at once if it is not mounted."""
        with self._lock:
            for loop in self._loops():
                loops.detach(loop.device)

    def empty(self) -> None:
        """Remove everything on it."""
        with self._lock:
            for path in self.mount().iterdir():
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                else:
                    path.unlink()
            self.unmount()

    # The power ----------------------------------------------------------------------------------------------

    def holds(self, folder: Path) -> bool:
        """Return whether this folder is on it."""
        try:
            device = folder.stat().st_dev
        except OSError:
            return False
        return f"{os.major(device)}:{os.minor(device)}" in {loop.number for loop in self._loops()}

    def cut(self, folder: Path) -> None:
        """Let the file system of this folder, which is on it, lose its power: nothing more is written."""
        with self._lock:
            if not self.holds(folder):
                raise ServerUnreachableError(f"{folder} is not on the disk {self.image}, whose power was to be cut")
            (self._folder / _CUT_NAME).touch()
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                fcntl.ioctl(descriptor, _SHUTDOWN, _NO_LOG_FLUSH)
            except OSError as error:
                raise ServerUnreachableError(
                    f"the power of {self.image} cannot be cut ({error.strerror}); Linux 4.20 or newer is needed"
                ) from error
            finally:
                os.close(descriptor)

    def _loops(self) -> list[loops.Loop]:
        return [loop for loop in loops.loops() if loop.image == self.image]


class Disks:
    """Where data was begun it stays: a server that has a disk keeps it, and one that has data elsewhere gets none."""

    def __init__(self, folder: Path, *, size: int) -> None:
        """Keep images in the servers' folders below this one."""
        self._folder = folder
        self._size = size
        self._open: dict[str, LoopbackVolume] = {}

    def has(self, kind: str) -> bool:
        """Return whether the data of this server was put on a disk."""
        return (self._folder / kind / loops.IMAGE_NAME).exists()

    def mount_point(self, kind: str) -> Path | None:
        """Return where the disk of this server is mounted while it runs; None if it has none."""
        return self._open[kind].mount_point if kind in self._open else None

    async def take(self, kind: str, owner: Account | None) -> LoopbackVolume:
        """Return the disk of this server, which is made if there is none; raises `SoakError` if there can be none."""
        if kind not in self._open:
            if (reason := no_disks()) is not None:
                raise UsageError(
                    f"the data of {kind} is on the disk {self._folder / kind / loops.IMAGE_NAME}, and there are "
                    f"{reason}; or choose another data folder"
                )
            disk = LoopbackVolume(self._folder / kind, self._size, owner)
            await asyncio.to_thread(disk.open)
            self._open[kind] = disk
        return self._open[kind]

    async def close(self) -> None:
        """Unmount all of them and give them free; their images stay."""
        for disk in self._open.values():
            await asyncio.to_thread(disk.close)
        self._open.clear()
