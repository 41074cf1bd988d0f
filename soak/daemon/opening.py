"""Opening a run on servers that answer: contracts, ledger, stores, and what others need to join it."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import msgspec

import soak
from soak import join
from soak.addresses import verifier_logins
from soak.configuration import Configuration
from soak.daemon.contracts import SettledContracts, settle_promises
from soak.daemon.plan import LEDGER, without_secrets
from soak.daemon.reproduce import reproduce
from soak.daemon.run_identity import RunIdentity
from soak.errors import ServerUnreachableError, SoakError, UsageError
from soak.join import JoinInfo
from soak.ledger.connection import check_ledger_is_apart
from soak.ledger.records import FORMAT_VERSION, RunHeader
from soak.ledger.run import RunJournal, create_run, read_header
from soak.ledger.shards import share
from soak.masking import mask
from soak.report.outcome import RunSetup, Setting
from soak.servers.inspect import inspect
from soak.servers.kinds import HTTP, KINDS, POSTGRES, Role
from soak.servers.patroni_settings import rest_addresses
from soak.servers.pgbouncer import through_pooler
from soak.settings import SoakSettings
from soak.stores import registry
from soak.stores.protocol import StoreContext

RECALL_SHARE = 0.75
"""Of the age at which a closed session may be retired: later the load must not ask for it."""


def _resting(beginning: RunIdentity, promises: SettledContracts) -> list[str]:
    """Name what keeps nothing itself: a pooler, and a service whose server says how durable its data is."""
    derived = {one.store for one in promises.settled if one.is_derived}
    behind = [spec for spec in beginning.plan.specs if HTTP.name in spec.needs and spec.name in derived]
    services = [HTTP.name] if beginning.plan.subject is not None and behind else []
    return [*services, *(kind for kind in beginning.plan.embedded if KINDS[kind].role is Role.POOLER)]


def join_info(
    settings: SoakSettings,
    beginning: RunIdentity,
    context: StoreContext,
    promises: SettledContracts,
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
        nodes=promises.nodes,
        waits_for_replicas=context.redis.waits,
        weaker_servers_allowed=settings.contract_mismatch == "allow",
        needs={spec.name: list(spec.needs) for spec in beginning.plan.specs},
        resting=_resting(beginning, promises),
        started_wall_seconds=beginning.resumed.started_wall_seconds if beginning.resumed else time.time(),
    )
    ages = settings.verifier.recall_ages
    header = msgspec.structs.replace(header, recall_seconds=RECALL_SHARE * min(ages) if ages else 0.0)
    info = JoinInfo.of(header, ledger_url, context, verifier_logins(settings)).announced_by(os.getpid())
    return msgspec.structs.replace(info, http_address=http_address)


INSPECT_SECONDS_MAX = 5.0


def setup_of(configuration: Configuration, beginning: RunIdentity, servers: dict[str, str]) -> RunSetup:
    """Put together what is known when the servers are up."""
    given = [
        Setting(key=leaf.key, value=mask(leaf.text), origin=leaf.origin)
        for leaf in configuration.leaves()
        if leaf.origin != "default" and leaf.value is not None
    ]
    return RunSetup(
        version=soak.__version__,
        python=platform.python_version(),
        platform=platform.platform(),
        seed=str(beginning.seed),
        namespace=beginning.namespace,
        stores=beginning.plan.names,
        servers=servers,
        settings=given,
        reproduce=reproduce(configuration, beginning.seed, beginning.plan.names),
    )


async def describe_servers(beginning: RunIdentity, addresses: dict[str, str]) -> dict[str, str]:
    """Say of each server under test whose it is, and which version it says it is."""
    plan = beginning.plan
    described = {}
    for kind, address in sorted(addresses.items()):
        given = plan.given.get(kind)
        described[kind] = f"started here ({plan.testbed})" if given is None else f"given, {without_secrets(given)}"
        try:
            telemetry = (await inspect(kind, address, timeout_seconds=INSPECT_SECONDS_MAX)).telemetry
        except (OSError, SoakError):
            continue  # it is only for the report
        if version := telemetry.get("version") or telemetry.get("server_version"):
            described[kind] = f"version {version}, {described[kind]}"
    return described


class OpenedRun(NamedTuple):
    """A run that can be joined."""

    info: JoinInfo
    journal: RunJournal
    setup: RunSetup


async def open_run(
    configuration: Configuration,
    beginning: RunIdentity,
    servers: Mapping[str, str],
    *,
    patroni: Sequence[str] = (),
    http_address: str,
    token: str,
    say: Callable[[str], None],
) -> OpenedRun:
    """Open the ledger and every store, so that what does not fit is reported before the load begins.

    `patroni`: where each Patroni of a PostgreSQL that is started here answers.
    """
    settings = configuration.settings
    under_test = {kind: url for kind, url in through_pooler(servers).items() if kind != LEDGER}
    context = join.store_context(settings.stores, under_test, beginning.namespace)
    begun = beginning.resumed
    given = beginning.plan.given.get(POSTGRES.name)
    if given is not None:
        patroni = [one.get_secret_value() for one in settings.testbed.patroni] or rest_addresses(given)
    promises = await settle_promises(settings, beginning.plan.specs, context, begun, patroni)
    info = join_info(settings, beginning, context, promises, servers[LEDGER], http_address)
    info = msgspec.structs.replace(info, token=token)
    if LEDGER in beginning.plan.given:
        await check_ledger_is_apart(info.ledger_url, under_test)
    journal = await _open_ledger(info, settings.verifier.shards, is_resumed=beginning.resumed is not None)
    try:
        for spec in beginning.plan.specs:
            store = await registry.open_store(spec.name, info.store_context())
            await store.close()
            if info.verifier_logins:
                await _check_reading(spec.name, info)
        setup = setup_of(configuration, beginning, await describe_servers(beginning, info.servers))
    except BaseException:
        await journal.close()
        raise
    # Of a server that does not even answer, there is nothing to say about its contract.
    for line in promises.lines:
        say(line)
    return OpenedRun(info=info, journal=journal, setup=setup)


async def _check_reading(name: str, info: JoinInfo) -> None:
    """Read with the verifier's own login, so that one that may not is refused before the load begins."""
    logins = "; check verifier.redis_login and verifier.postgres_login, and what they may read"
    try:
        store = await registry.open_store(name, info.verifier_context())
        try:
            await store.history("nobody")
        finally:
            await store.close()
    except Exception as error:
        why = " ".join(str(error).split()).partition(";")[0]
        raise ServerUnreachableError(f"the verifier cannot read {name} with its own login ({why}){logins}") from error


async def _open_ledger(info: JoinInfo, verifiers: int, *, is_resumed: bool) -> RunJournal:
    header = info.header
    if not is_resumed:
        await create_run(info.ledger_url, header)
    elif (found := await read_header(info.ledger_url, header.run)).contracts != header.contracts:
        changed = [name for name in header.stores if found.contracts.get(name) != header.contracts.get(name)]
        raise UsageError(
            f"run {header.run} was begun with another contract for {', '.join(changed)}; "
            "resume it unchanged, or choose another folder with --data-dir"
        )
    await share(info.ledger_url, header.run, verifiers)
    return await RunJournal.connect(info.ledger_url, header.run)
