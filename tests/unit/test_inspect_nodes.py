"""Which nodes a cluster is asked for, and what of a node's own word is its configuration."""

from __future__ import annotations

from redis._parsers.helpers import parse_cluster_nodes

from soak.servers.inspect import configuration_in
from soak.stores.redis_cluster import replicas_besides

TOLD = """\
a 10.0.0.1:6379@16379,one.example myself,master - 0 0 1 connected 0-16383
b 10.0.0.2:6379@16379,two.example slave a 0 0 1 connected
c 10.0.0.3:6379@16379,three.example slave,fail a 0 0 1 disconnected
d 10.0.0.4:6379@16379,four.example master,fail - 0 0 1 disconnected
e 10.0.0.5:6379@16379,five.example master - 0 0 1 connected
f :0@0 slave,noaddr a 0 0 1 disconnected
g 10.0.0.7:6379@16379 handshake - 0 0 0 connected
"""


def test_a_replica_that_is_down_or_was_just_replaced_is_asked_too_and_nobody_twice() -> None:
    told = parse_cluster_nodes(TOLD)  # type: ignore[no-untyped-call]
    for known in ({"10.0.0.1:6379", "10.0.0.2:6379"}, {"one.example:6379", "two.example:6379"}):
        assert [str(place) for place in replicas_besides(told, known)] == ["10.0.0.3:6379", "10.0.0.4:6379"]
    assert replicas_besides({}, set()) == []


def test_a_replica_that_is_being_filled_does_not_say_whether_it_keeps_a_log() -> None:
    filled = {"role": "slave", "aof_enabled": 0, "master_sync_in_progress": 1}
    assert configuration_in(filled) == {"role": "replica"}
    assert configuration_in({**filled, "master_sync_in_progress": 0}) == {"role": "replica", "appendonly": "no"}
    assert configuration_in({"role": "master", "aof_enabled": 1}) == {"role": "primary", "appendonly": "yes"}
