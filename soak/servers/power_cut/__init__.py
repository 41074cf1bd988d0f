"""Cutting the power of a server, so that what was not synced is gone: by a shim under it, or with its file system."""

from soak.servers.power_cut.compiling import PowerCutUnavailableError, build
from soak.servers.power_cut.disks import Disks, PowerCutWay
from soak.servers.power_cut.fsync_shim import CutPower, DiskTrouble, FsyncShim
from soak.servers.power_cut.loopback_volume import SIZE_DEFAULT, LoopbackVolume, no_disks, size_bytes
from soak.servers.power_cut.loops import abandoned, mounts_of, release_abandoned

__all__ = [
    "SIZE_DEFAULT",
    "CutPower",
    "DiskTrouble",
    "Disks",
    "FsyncShim",
    "LoopbackVolume",
    "PowerCutUnavailableError",
    "PowerCutWay",
    "abandoned",
    "build",
    "mounts_of",
    "no_disks",
    "release_abandoned",
    "size_bytes",
]
