"""It was on the disk. The disk was not there to stay."""

from __future__ import annotations

import msgspec

from soak.checker.causes import Cause
from soak.flaws.flaw import GONE, Flaw, WrongFrom
from soak.flaws.served import same_service
from soak.scenarios.scenario import ScenarioFault
from soak.servers.kinds import HTTP

_WRONG, _ = same_service("wiped_volume", ScenarioFault(fault="wiped_volume", target=HTTP.name, hold_seconds=0.2))
# The same end of the process, on a volume that is kept.
_RIGHT = msgspec.structs.replace(_WRONG, fault=ScenarioFault(fault="crash", target=HTTP.name, hold_seconds=0.2))

FLAW = Flaw(
    name="wiped_volume",
    incident='data on ephemeral storage; "persist succeeded", the directory is reclaimed',
    code="Everything right, every commit on disk, and no volume mounted at /data: it belongs to the container.",
    mocks="A restart of the process finds its files. A replacement of the container does not.",
    user="Every deployment made everybody a stranger; the logs said 'saved' to the last.",
    kinds=GONE,
    causes=frozenset({Cause.WIPED_VOLUME}),
    setups=(_WRONG, _RIGHT),
    wrong_from=WrongFrom.FAULT_ENDED,
)
