"""Power cuts by a shim: what the disk holds is known at every moment, and put there when the power is cut.

The shim is shipped as source and compiled where it runs, when it is first needed. Preloaded into the server it records
what was synced (see shim.c, which knows the same format). When the
server is dead, each file is put back to that: the model is a machine that loses everything its kernel had not been
asked to sync. Real machines lose at most that.

Every file that is there when a server starts counts as synced: the time it was down was the kernel's to write.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib.resources
import os
import platform
import shutil
import stat
import struct
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from soak.errors import ServerUnreachableError, UsageError
from soak.proc.files import write_whole
from soak.proc.spawn import run
from soak.servers.power_cut.source import CutPower, PowerSource, Step
from soak.servers.unprivileged import Account

BLOCK_BYTES = 8192
_HEAD = struct.Struct("=QQ")
_HEAD_BYTES = 4096
_LENGTH = struct.Struct("=Q")
_RECORD_BYTES = _LENGTH.size + BLOCK_BYTES
_START = struct.Struct("=QQ")
_ACTIVE_NAME = "active"
_BASELINE_NAME = "baseline"
_LIBRARY_NAME = "shim.so"
_SWITCHES_NAME = "switches"
_SWITCHES = struct.Struct("=IIII")
_SWITCHES_BYTES = 4096
_CUTTING_NAME = "cutting"
COMPILERS = ("cc", "gcc", "clang")
_OPTIONS = ("-shared", "-fPIC", "-O2", "-std=gnu11", "-x", "c")
_BUILD_SECONDS_MAX = 60.0


class DiskTrouble(NamedTuple):
    """How a disk misbehaves while its server runs; all 0: not at all."""

    sync_delay_ms: int = 0
    """Every sync takes so much longer."""
    sync_error: int = 0
    """Syncs fail with this `errno`, and nothing is synced."""
    growth_error: int = 0
    """No file can be made longer: the write fails with this `errno`."""
    sync_errors_in_a_million: int = 0
    """How many of the syncs fail, if they do."""


class _State(NamedTuple):
    synced_bytes: int
    is_broken: bool
    blocks: dict[int, bytes]


class FsyncShim(PowerSource):
    """Follows what one server syncs, from one start to the next."""

    allows_preload = False

    def __init__(self, folder: Path, disk: Path, library: Path, account: Account | None = None) -> None:
        """Keep states in `folder` about the files below `disk`; both are the server's own."""
        self._folder = folder
        self._disk = disk
        self._library = library
        self._account = account
        self.trouble = DiskTrouble()

    def turn_on(self) -> dict[str, str]:
        """Count everything that is there as synced; returns the environment the server needs."""
        if (self._folder / _CUTTING_NAME).exists():
            self.cut()  # its owner was killed in the middle of it
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(mode=0o700, parents=True)
        self._own(self._folder)
        # Beside the states, where the account the server runs as can read it.
        library = self._folder / _LIBRARY_NAME
        shutil.copyfile(self._library, library)
        library.chmod(0o755)
        self._own(library)
        # In one list, for a PostgreSQL begins with a thousand files.
        sizes = sorted({status.st_ino: status.st_size for _, status in self._files()}.items())
        baseline = self._folder / _BASELINE_NAME
        baseline.write_bytes(b"".join(_START.pack(inode, size) for inode, size in sizes))
        self._own(baseline)
        self._write_switches()
        return {
            "LD_PRELOAD": str(library),
            "SOAK_POWER_STATE": str(self._folder),
            "SOAK_POWER_ROOT": str(self._disk),
        }

    def problem(self, folder: Path) -> str | None:
        del folder
        return None if self.is_on else "runs without its power supply, for the shim was not loaded"

    async def cut_under(self, freeze: Step, kill: Step) -> CutPower:
        del freeze
        await kill()
        return await asyncio.to_thread(self.cut)

    @property
    def is_on(self) -> bool:
        """Whether the shim has reported from inside the server: a loader that cannot load it goes on without."""
        return (self._folder / _ACTIVE_NAME).exists()

    def inject_io_errors(self, trouble: DiskTrouble) -> None:
        """Let the disk misbehave from now on, for a server that runs and for one that is started later."""
        self.trouble = trouble
        if self.is_on:
            self._write_switches()

    def cut(self) -> CutPower:
        """Put the disk of a dead server back to what was synced; done again, it changes nothing more."""
        # A part of it would be a state that no power cut leaves: the next start finishes it.
        mark = self._folder / _CUTTING_NAME
        mark.touch()
        taken = self._put_all_back()
        mark.unlink()
        return taken

    def _put_all_back(self) -> CutPower:
        baseline = dict(_START.iter_unpack((self._folder / _BASELINE_NAME).read_bytes()))
        states = [(path, status, self._state(status.st_ino, baseline)) for path, status in self._files()]
        for path, _, state in states:
            if state.is_broken:
                raise ServerUnreachableError(
                    f"{path} cannot be put back to what was synced, for its old content could not be kept; "
                    "see that there is room on the disk, and begin with an empty data folder"
                )
        files = bytes_cut = blocks_restored = 0
        for path, status, state in states:
            beyond = max(0, status.st_size - state.synced_bytes)
            if beyond or state.blocks:
                _put_back(path, state)
                files += 1
                bytes_cut += beyond
                blocks_restored += len(state.blocks)
        return CutPower(files, bytes_cut, blocks_restored)

    def _files(self) -> Iterator[tuple[Path, os.stat_result]]:
        for folder, _, names in os.walk(self._disk):
            for name in names:
                path = Path(folder, name)
                status = path.lstat()
                if stat.S_ISREG(status.st_mode):
                    yield path, status

    def _state(self, inode: int, baseline: Mapping[int, int]) -> _State:
        """Return what is known of a file; one that is nowhere was made since the start and never synced."""
        untouched = _State(baseline.get(inode, 0), is_broken=False, blocks={})
        try:
            with (self._folder / str(inode)).open("rb") as file:
                head = file.read(_HEAD.size)
                if len(head) < _HEAD.size:
                    return untouched
                synced_bytes, is_broken = _HEAD.unpack(head)
                return _State(synced_bytes, bool(is_broken), dict(_blocks(file.fileno())))
        except FileNotFoundError:
            return untouched

    def _write_switches(self) -> None:
        # In place and never shorter: the server has this very file mapped.
        path = self._folder / _SWITCHES_NAME
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.ftruncate(descriptor, _SWITCHES_BYTES)
            os.pwrite(descriptor, _SWITCHES.pack(*self.trouble), 0)
        finally:
            os.close(descriptor)
        self._own(path)

    def _own(self, path: Path) -> None:
        if self._account is not None:
            self._account.own(path)


def _blocks(descriptor: int) -> Iterator[tuple[int, bytes]]:
    """Read the recorded blocks; the file is sparse, for most blocks were not changed."""
    number = 0
    while True:
        try:
            found = os.lseek(descriptor, _HEAD_BYTES + number * _RECORD_BYTES, os.SEEK_DATA)
        except OSError:  # nothing but hole from here on
            return
        number = max(number, (found - _HEAD_BYTES) // _RECORD_BYTES)
        record = os.pread(descriptor, _RECORD_BYTES, _HEAD_BYTES + number * _RECORD_BYTES)
        if len(record) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(record)
            # Length and content are written as one; a process killed in between had not yet changed the block.
            if length and len(record) >= _LENGTH.size + length:
                yield number, record[_LENGTH.size : _LENGTH.size + length]
        number += 1


def _put_back(path: Path, state: _State) -> None:
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        for number, content in state.blocks.items():
            os.pwrite(descriptor, content, number * BLOCK_BYTES)
        if os.fstat(descriptor).st_size > state.synced_bytes:
            os.ftruncate(descriptor, state.synced_bytes)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# The library -------------------------------------------------------------------------------------------------


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
    with tempfile.TemporaryDirectory(prefix="soak-shim-") as folder:
        made = Path(folder, _LIBRARY_NAME)
        try:
            done = run([compiler, *_OPTIONS, "-o", made, "-"], text=source, seconds_max=_BUILD_SECONDS_MAX)
        except OSError as error:  # which a timeout is, too
            complaint = str(error.strerror or error)
        else:
            lines = (line.strip() for line in done.errors.split("\n") if "error" in line)
            complaint = next(lines, f"exit status {done.code}") if done.code else ""
        if complaint:
            raise PowerCutUnavailableError(f"no power cuts: {compiler} failed ({complaint}); choose other faults")
        write_whole(library, made.read_bytes(), mode=0o755)
