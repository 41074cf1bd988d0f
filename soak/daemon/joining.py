"""What others must know to take part in this run: made when the servers are up, then published."""

from __future__ import annotations

import os
import time

import msgspec
import psutil

from soak.daemon.promises import Promises
from soak.daemon.run_identity import RunIdentity
from soak.join import JoinInfo
from soak.ledger.records import FORMAT_VERSION, RunHeader
from soak.servers.kinds import HTTP
from soak.settings import SoakSettings
from soak.stores.protocol import StoreContext

RECALL_SHARE = 0.75
"""Of the age at which a closed session may be retired: later the load must not ask for it."""


def store_context(settings: SoakSettings, beginning: RunIdentity, servers: dict[str, str]) -> StoreContext:
    """Say where the stores of this run find their servers, and what they may use of them."""
    return StoreContext(
        servers=servers,
        namespace=beginning.namespace,
        timeout_seconds=settings.stores.timeout,
        connections_max=settings.stores.connections,
        ttl_seconds=settings.stores.ttl,
    )


def _resting(beginning: RunIdentity, promises: Promises) -> list[str]:
    """Name the service, where another server keeps its data and says how durable that is."""
    derived = {one.store for one in promises.settled if one.is_derived}
    behind = [spec for spec in beginning.plan.specs if HTTP.name in spec.needs and spec.name in derived]
    return [HTTP.name] if beginning.plan.subject is not None and behind else []


def join_info(
    settings: SoakSettings,
    beginning: RunIdentity,
    context: StoreContext,
    promises: Promises,
    ledger_url: str,
    http_address: str,
) -> JoinInfo:
    """Put together the run's header, with the contract of each store, and the addresses of its servers."""
    header = RunHeader(
        version=FORMAT_VERSION,
        run=beginning.run,
        seed=beginning.seed,
        namespace=beginning.namespace,
        stores=beginning.plan.names,
        contracts={one.store: one.contract for one in promises.settled},
        origins={one.store: one.origin for one in promises.settled},
        configurations=promises.configurations,
        weaker_servers_allowed=settings.contract_mismatch == "allow",
        needs={spec.name: list(spec.needs) for spec in beginning.plan.specs},
        resting=_resting(beginning, promises),
        started_wall_seconds=beginning.resumed.started_wall_seconds if beginning.resumed else time.time(),
    )
    ages = settings.verifier.recall_ages
    header = msgspec.structs.replace(header, recall_seconds=RECALL_SHARE * min(ages) if ages else 0.0)
    ourselves = psutil.Process(os.getpid())
    return JoinInfo(
        header=header,
        ledger_url=ledger_url,
        servers=dict(context.servers),
        timeout_seconds=context.timeout_seconds,
        connections_max=context.connections_max,
        ttl_seconds=context.ttl_seconds,
        daemon_pid=ourselves.pid,
        daemon_started_wall_seconds=ourselves.create_time(),
        http_address=http_address,
    )
