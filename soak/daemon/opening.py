"""Opening a run on servers that answer: what is promised, the ledger, and the stores, each opened once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec

from soak.configuration import Configuration
from soak.daemon.joining import join_info, store_context
from soak.daemon.plan import LEDGER
from soak.daemon.promises import settle_promises
from soak.daemon.run_identity import RunIdentity
from soak.daemon.setup import servers_told, setup_of
from soak.errors import UsageError
from soak.join import JoinInfo
from soak.ledger.connection import check_ledger_is_apart
from soak.ledger.run import RunJournal, create_run, read_header
from soak.report.outcome import Setup
from soak.stores import registry


class OpenedRun(NamedTuple):
    """A run that can be joined."""

    info: JoinInfo
    journal: RunJournal
    setup: Setup


async def open_run(
    configuration: Configuration,
    beginning: RunIdentity,
    servers: Mapping[str, str],
    *,
    http_address: str,
    token: str,
    say: Callable[[str], None],
) -> OpenedRun:
    """Open the ledger and every store, so that what does not fit is told before anybody speaks."""
    settings = configuration.settings
    under_test = {kind: url for kind, url in servers.items() if kind != LEDGER}
    context = store_context(settings, beginning, under_test)
    begun = beginning.resumed
    promises = await settle_promises(settings, beginning.plan, context, begun)
    for line in promises.lines:
        say(line)
    info = join_info(settings, beginning, context, promises, servers[LEDGER], http_address)
    info = msgspec.structs.replace(info, token=token)
    if LEDGER in beginning.plan.given:
        await check_ledger_is_apart(info.ledger_url, under_test)
    journal = await _open_ledger(info, is_resumed=beginning.resumed is not None)
    try:
        for spec in beginning.plan.specs:
            store = await registry.open_store(spec.name, info.store_context())
            await store.close()
        setup = setup_of(configuration, beginning, await servers_told(beginning, info.servers))
    except BaseException:
        await journal.close()
        raise
    return OpenedRun(info=info, journal=journal, setup=setup)


async def _open_ledger(info: JoinInfo, *, is_resumed: bool) -> RunJournal:
    header = info.header
    if not is_resumed:
        await create_run(info.ledger_url, header)
    elif (found := await read_header(info.ledger_url, header.run)).contracts != header.contracts:
        changed = [name for name in header.stores if found.contracts.get(name) != header.contracts.get(name)]
        raise UsageError(
            f"run {header.run} was begun with another contract for {', '.join(changed)}; "
            "resume it unchanged, or choose another folder with --data-dir"
        )
    return await RunJournal.connect(info.ledger_url, header.run)
