"""Cutting the power of a local server without root: what was not synced is gone."""

from soak.testbed.power_cut.compiling import PowerCutUnavailableError, build
from soak.testbed.power_cut.supply import CutPower, DiskTrouble, PowerSupply

__all__ = ["CutPower", "DiskTrouble", "PowerCutUnavailableError", "PowerSupply", "build"]
