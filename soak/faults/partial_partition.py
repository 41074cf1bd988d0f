"""The primary of a group is cut off from the other nodes, and clients reach everybody."""

from __future__ import annotations

from soak.faults.fault import WITHOUT_MAJORITY, GroupFault
from soak.faults.parameters import OneOf
from soak.faults.primary_partition import BOTH, MAJORITY, MINORITY, SIDES, PrimaryPartition


class PartialPartition(PrimaryPartition):
    """The nodes are parted and clients reach all of them: connected ones stay with the old primary."""

    name = "partial_partition"
    description = (
        "The primary is cut off from the other nodes, while clients still reach everybody. Those "
        "that are connected to it go on writing to it, without an error, and all of that is lost when it is demoted."
    )
    clients = OneOf(BOTH, MAJORITY, MINORITY, help=SIDES)
    # Two nodes have no majority: nobody knows which of them is cut off, and nobody is promoted.
    groups = tuple(group for group in GroupFault.groups if group not in WITHOUT_MAJORITY)
