"""The memory under test: one protocol, and the stores that speak it."""

from soak.model.contract import Contract, Duplicates, Expiry, Order, Reads, Searches
from soak.model.message import Garbled, Message, Stored
from soak.model.outcome import NotApplied
from soak.stores.protocol import MemoryStore, StoreContext

__all__ = [
    "Contract",
    "Duplicates",
    "Expiry",
    "Garbled",
    "MemoryStore",
    "Message",
    "NotApplied",
    "Order",
    "Reads",
    "Searches",
    "StoreContext",
    "Stored",
]
