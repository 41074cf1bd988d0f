"""What production does to the servers of a memory, on purpose: one fault per file."""

from soak.faults.catalogue import ALL
from soak.faults.fault import Fault, FaultUnavailableError
from soak.faults.window import Injected, during, heal_leftovers

__all__ = ["ALL", "Fault", "FaultUnavailableError", "Injected", "during", "heal_leftovers"]
