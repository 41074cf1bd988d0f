"""It was on the disk. The disk was not there to stay."""

from __future__ import annotations

from soak.flaws.flaw import GONE, Disturbance, Flaw, Setup, WrongFrom, store_of
from soak.flaws.redis_memory import EverySecondMemory
from soak.model.causes import Cause

_WIPED = Disturbance(fault="wiped_volume", after_seconds=3.5, hold_seconds=0.2)
_KEPT = Disturbance(fault="crash", after_seconds=3.5, hold_seconds=0.2)

FLAW = Flaw(
    name="wiped_volume",
    night='data on ephemeral storage; "persist succeeded", the directory is reclaimed',
    code="Everything right, appendonly yes, and no volume mounted at /data: it belongs to the container.",
    mocks="A restart of the process finds its files. A replacement of the container does not.",
    user="Every deployment made everybody a stranger; the logs said 'DB saved on disk' to the last.",
    kinds=GONE,
    causes=frozenset({Cause.WIPED_VOLUME}),
    wrong=Setup(store=store_of(EverySecondMemory), disturbance=_WIPED),
    # The same end of the process, on a volume that is kept.
    right=Setup(store=store_of(EverySecondMemory), disturbance=_KEPT),
    wrong_from=WrongFrom.FAULT_ENDED,
)
