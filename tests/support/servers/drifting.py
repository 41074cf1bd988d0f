"""A group that is watched for drift, without a verifier around it."""

from __future__ import annotations

from pathlib import Path

from soak.clock import now_us
from soak.configuration import read
from soak.daemon.contracts import SettledContracts, settle_promises
from soak.ledger.records import FORMAT_VERSION, RunHeader
from soak.servers.inspect import inspect, inspect_nodes
from soak.servers.kinds import kind_of
from soak.stores import registry
from soak.stores.protocol import StoreContext
from soak.verifier.drift import DriftWatch
from soak.verifier.state import State

ANSWER_SECONDS_MAX = 10.0


async def promised(kind: str, url: str, store: str, *patroni: str) -> SettledContracts:
    """Settle the contract of one store on the server at this address, as the beginning of a run does."""
    settings = read(environ={}, config=Path("/dev/null"), assignments=[f"stores.names={store}"]).settings
    context = StoreContext(namespace="t", servers={kind: url})
    return await settle_promises(settings, [registry.find(store)], context, None, patroni)


class WatchedGroup:
    """What is noticed of it since its contract was settled."""

    def __init__(self, kind: str, url: str, begun: SettledContracts) -> None:
        header = RunHeader(
            version=FORMAT_VERSION,
            run="r1",
            seed=1,
            namespace="t",
            stores=[one.store for one in begun.settled],
            contracts={one.store: one.contract for one in begun.settled},
            started_wall_seconds=0.0,
            configurations=begun.configurations,
            nodes=begun.nodes,
        )
        self._kind, self._url = kind, url
        self.state = State(header, {one.store: (kind,) for one in begun.settled}, 1_000_000)
        self.watch = DriftWatch(self.state, {kind: url})

    @property
    def events(self) -> list[str]:
        return [event.text for event in self.state.tally.events]

    async def look(self) -> list[str]:
        """Sample all of it twice, and return all that was noticed so far."""
        kind, url = kind_of(self._kind), self._url
        for _ in range(2):
            asked = now_us()
            self.watch.take(await inspect(kind.name, url, timeout_seconds=ANSWER_SECONDS_MAX), asked)
            self.watch.take_nodes(kind.name, await inspect_nodes(kind, url, timeout_seconds=ANSWER_SECONDS_MAX), asked)
        return self.events
