"""Moves slots of a Redis Cluster from one primary to another, under load, and ends moves that were left half way.

What one must know before touching it:
- A slot that moves has its keys in two places. Clients that ask the old one for a key that has gone are sent to the new
  one for this one command (ASK); a slot that has arrived is answered with MOVED.
- Both nodes remember a move that was not ended, and no failover ends it: heal it before anything else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from redis.crc import key_slot

from soak.servers.ports import HOST
from soak.servers.redis_cluster import ClusterGroup, ClusterNode

KEYS_LOOKED_AT_MAX = 100_000
_SCAN_COUNT = 1_000
_BATCH = 100
_MIGRATE_MS = "5000"


class Move(NamedTuple):
    """One slot that is to go from one primary to another."""

    slot: int
    source: ClusterNode
    target: ClusterNode


class _Told(NamedTuple):
    """What stays the same while slots move. Each question is a connection, so it is asked once."""

    ids: Mapping[ClusterNode, str]
    primaries: Sequence[ClusterNode]


async def choose_moves(group: ClusterGroup, count: int) -> list[Move]:
    """Return so many slots with keys in them, of the primary with the most slots, to go to the one with the fewest."""
    found = await group.primaries()
    primaries = [node for node in group.servers if node in found]
    owned = {node.name: await node.slots() for node in primaries}
    by_size = sorted(primaries, key=lambda node: len(owned[node.name]))
    source, target = by_size[-1], by_size[0]
    used: dict[int, None] = {}
    async with source.client() as client:
        seen = 0
        async for key in client.scan_iter(count=_SCAN_COUNT):
            seen += 1
            used[key_slot(key.encode())] = None
            if len(used) >= count or seen >= KEYS_LOOKED_AT_MAX:
                break
    slots = [*used, *(slot for slot in islice(owned[source.name], count) if slot not in used)]
    return [Move(slot, source, target) for slot in slots[:count]]


async def move_keys(group: ClusterGroup, moves: Iterable[Move]) -> None:
    """Move slots as every version can: key by key, while clients are sent to where each key is."""
    told = await _ask_once(group)
    for slot, source, target in moves:
        await target.ask("CLUSTER", "SETSLOT", str(slot), "IMPORTING", told.ids[source])
        await source.ask("CLUSTER", "SETSLOT", str(slot), "MIGRATING", told.ids[target])
        await _finish(group, Move(slot, source, target), told)


async def move_atomically(group: ClusterGroup, moves: Sequence[Move]) -> None:
    """Move slots as Valkey 9 can: the target copies them like a replica, and takes over in one step."""
    source, target = moves[0].source, moves[0].target
    ranges = [str(end) for move in moves for end in (move.slot, move.slot)]
    await source.ask("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", *ranges, "NODE", await target.id())

    async def arrived() -> bool:
        owned = set(await target.slots())
        return all(move.slot in owned for move in moves)

    await group.until(arrived, f"move {len(moves)} slots")


async def finish_moves(group: ClusterGroup) -> int:
    """End all moves that were left half way; returns how many there were."""
    by_id = {await node.id(): node for node in group.servers}
    owners = {slot: node for node in group.servers for slot in await node.slots()}
    moves: dict[int, Move] = {}
    # Replicas of a newer version know of the moves of their primary, too.
    primaries = await group.primaries()
    for node in [node for node in group.servers if node in primaries]:
        for slot, other, is_import in await node.open_slots():
            source, target = (by_id[other], node) if is_import else (node, by_id[other])
            # One that has arrived was only not told everybody yet.
            moves[slot] = Move(slot, owners.get(slot, source), target)
    told = await _ask_once(group)
    for move in moves.values():
        await _finish(group, move, told)
    return len(moves)


async def _ask_once(group: ClusterGroup) -> _Told:
    primaries = await group.primaries()
    return _Told(
        {node: await node.id() for node in group.servers}, [node for node in group.servers if node in primaries]
    )


async def _finish(group: ClusterGroup, move: Move, told: _Told) -> None:
    slot, source, target = move
    if source is not target:
        to = (HOST, str(target.seat.front), "", "0", _MIGRATE_MS, "REPLACE", "AUTH", group.pinned.password)
        while keys := await source.ask("CLUSTER", "GETKEYSINSLOT", str(slot), str(_BATCH)):
            await source.ask("MIGRATE", *to, "KEYS", *keys)
    # The new owner first, or for a moment nobody would have it.
    others = [node for node in told.primaries if node not in (source, target)]
    for node in (target, source, *others):
        await node.ask("CLUSTER", "SETSLOT", str(slot), "NODE", told.ids[target])
