"""Keeping Python's garbage collector from walking over what lives as long as the process."""

from __future__ import annotations

import gc

ALLOCATIONS_BETWEEN = 20_000
"""How many more containers are made than dropped before the youngest are looked at; Python's own default is 700."""


def spare_the_collector(**_details: object) -> None:
    """Take all that is there now as there to stay. What is dropped is freed by its reference count as before.

    With tens of thousands of users or sessions a full collection stops everything for a second, again and again.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(ALLOCATIONS_BETWEEN, *gc.get_threshold()[1:])
