"""All checks of the suite."""

from __future__ import annotations

# Imported for what they add to `CHECKS`, in this order.
from soak.contract_suite import (
    content,
    expiry,
    failures,
    order,
    searching,
    sessions,
)  # isort: skip
from soak.contract_suite.check import CHECKS

__all__ = ["CHECKS", "content", "expiry", "failures", "order", "searching", "sessions"]
