"""The memory under test: one protocol, and the stores that speak it."""

from soak.checker.contract import Contract, Duplicates, Expiry, Order, Reads, Searches
from soak.checker.message import Garbled, Message, Stored
from soak.checker.outcome import NotApplied
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
