"""Cutting the power of a server, so that what was not synced is gone: by a shim under it, or with its file system."""

from soak.testbed.power_cut.compiling import PowerCutUnavailableError, build
from soak.testbed.power_cut.disk import SIZE_DEFAULT, Disk, no_disks, size_bytes
from soak.testbed.power_cut.disks import Disks, PowerCutWay
from soak.testbed.power_cut.loops import abandoned, mounts_of, release_abandoned
from soak.testbed.power_cut.supply import CutPower, DiskTrouble, PowerSupply

__all__ = [
    "SIZE_DEFAULT",
    "CutPower",
    "Disk",
    "DiskTrouble",
    "Disks",
    "PowerCutUnavailableError",
    "PowerCutWay",
    "PowerSupply",
    "abandoned",
    "build",
    "mounts_of",
    "no_disks",
    "release_abandoned",
    "size_bytes",
]
