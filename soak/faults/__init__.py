"""What production does to the servers of a memory, on purpose: one fault per file."""

from soak.faults.catalogue import ALL
from soak.faults.fault import Fault, FaultUnavailableError
from soak.faults.unhealed import heal_leftovers
from soak.faults.window import Injected, during

__all__ = ["ALL", "Fault", "FaultUnavailableError", "Injected", "during", "heal_leftovers"]
