"""Cutting the power of a server, so that what was not synced is gone: by a shim under it, or with its file system."""

from soak.servers.power_cut.fsync_shim import DiskTrouble, FsyncShim, PowerCutUnavailableError, build
from soak.servers.power_cut.loopback_volume import SIZE_DEFAULT, Disks, LoopbackVolume, no_disks, size_bytes
from soak.servers.power_cut.loops import abandoned, mounts_of, release_abandoned
from soak.servers.power_cut.source import CutPower, PowerCutWay, PowerSource

__all__ = [
    "SIZE_DEFAULT",
    "CutPower",
    "DiskTrouble",
    "Disks",
    "FsyncShim",
    "LoopbackVolume",
    "PowerCutUnavailableError",
    "PowerCutWay",
    "PowerSource",
    "abandoned",
    "build",
    "mounts_of",
    "no_disks",
    "release_abandoned",
    "size_bytes",
]
