"""`soak verify`: the verifier alone, beside a load that runs elsewhere."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path

import psutil
import uvloop

from soak import join, log
from soak.addresses import verifier_logins
from soak.commands.flags import ALLOW_WEAKER, DATA_DIR, HTTP, SERVERS, Flag, add_flags, read_configuration
from soak.daemon.contracts import check_promises
from soak.daemon.folder import DataFolder
from soak.daemon.plan import addresses, setting_of
from soak.errors import ExitCode, UsageError
from soak.join import JoinInfo
from soak.ledger.connection import check_ledger_is_apart
from soak.ledger.run import read_header
from soak.proc.lock import DataFolderLock
from soak.report.outcome import RunOutcome
from soak.report.summary import print_outcome_json, print_summary, summary_console
from soak.servers.kinds import LEDGER
from soak.settings import SoakSettings
from soak.stores import registry
from soak.verifier import checkpoint
from soak.verifier.endpoint import read_endpoint
from soak.verifier.process import run

DESCRIPTION = (
    "Follow the ledger of a run and verify its stores. The run is the one in --data-dir, or the one whose ledger and\n"
    "servers are given. After a restart it continues where it stopped."
)
EPILOG = """\
examples:
  soak verify --ledger redis://ledger:6379 --redis redis://memory:6379 --data-dir /var/lib/soak
  soak verify --ledger redis://ledger:6379 --run r1a2b3c4d --postgres postgresql://soak@db/soak"""

DEFAULTS = {"http.port": 9465}
"""Not the daemon's port: both may run on one machine."""

_OPERATIONS = (
    Flag("--timeout", "stores.timeout", "TIME", "limit for every single operation on a store"),
    Flag("--ttl", "stores.ttl", "TIME", "time to live the stores were given"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--run", metavar="ID", help="the run that is expected; another one is an error")
    parser.add_argument("--supervised", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    add_flags(parser, (DATA_DIR, *SERVERS, ALLOW_WEAKER, *HTTP, *_OPERATIONS))


def execute(arguments: argparse.Namespace) -> ExitCode:
    settings = read_configuration(arguments, command_defaults=DEFAULTS).settings
    log.configure(settings.log)
    folder = DataFolder(settings.data_dir)
    host, port = (settings.http.host, settings.http.port) if not arguments.supervised else ("127.0.0.1", 0)

    async def follow() -> tuple[JoinInfo, ExitCode]:
        info = await _find_run(settings.data_dir, settings, arguments.run)
        with _own_folder(folder, settings, supervised=arguments.supervised):
            folder.prepare()
            if not arguments.supervised:
                await _check_contracts(info, settings, folder)
            return info, await run(info, settings, folder.path, host, port)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        info, code = runner.run(follow())
    if not arguments.supervised:
        _tell(info.header.run, code, folder, as_json=arguments.json)
    return code


async def _check_contracts(info: JoinInfo, settings: SoakSettings, folder: DataFolder) -> None:
    """Refuse to begin where a server cannot keep what is promised. One that goes on reports it as drift instead."""
    is_allowed = settings.contract_mismatch == "allow" or info.header.weaker_servers_allowed
    if is_allowed or (folder.verifier / checkpoint.FILE_NAME).exists():
        return
    needs = {store: info.needs_of(store) for store in info.header.stores}
    await check_promises(info.header, info.servers, needs)


async def _find_run(data_dir: Path, settings: SoakSettings, expected: str | None) -> JoinInfo:
    if settings.ledger.url is None:
        info = join.find(data_dir)
        if info is None:
            raise UsageError(
                f"no soak is running in {data_dir}; name its folder with --data-dir, or its ledger and servers "
                "with --ledger, --redis and --postgres"
            )
        if expected is not None and info.header.run != expected:
            raise UsageError(f"{data_dir} holds run {info.header.run}, not {expected}; name another --data-dir")
        return info
    url = settings.ledger.url.get_secret_value()
    header = await read_header(url, expected)
    servers = {kind: address for kind, address in addresses(settings).items() if kind != LEDGER.name}
    for store in header.stores:
        for kind in registry.find(store).needs:
            if kind not in servers:
                raise UsageError(
                    f"run {header.run} tests {store}; give the address of its server as {setting_of(kind)}"
                )
    await check_ledger_is_apart(url, servers)
    context = join.store_context(settings.stores, servers, header.namespace)
    return JoinInfo.of(header, url, context, verifier_logins(settings))


@contextlib.contextmanager
def _own_folder(folder: DataFolder, settings: SoakSettings, *, supervised: bool) -> Iterator[None]:
    """Make sure that no other verifier keeps its state in the same folder."""
    if supervised:
        yield  # the daemon that started us holds the folder
    elif settings.ledger.url is not None:
        with DataFolderLock(folder.path):
            yield
    else:
        other = read_endpoint(folder.endpoint_file)
        if other is not None and psutil.pid_exists(other.pid):
            raise UsageError(
                f"process {other.pid} verifies the run in {folder.path} already; "
                "a ledger has one verifier, since what it has read is dropped"
            )
        yield


def _tell(run: str, code: ExitCode, folder: DataFolder, *, as_json: bool) -> None:
    result = folder.result(run)
    if result is None:
        return  # it was asked to stop and goes on at its next start
    outcome = RunOutcome(
        run=run,
        verdict=result.verdict,
        exit_code=int(code),
        reasons=list(result.reasons),
        data_dir=str(folder.path),
        finished=True,
        result=result,
    )
    if as_json:
        print_outcome_json(outcome)
    else:
        print_summary(outcome, summary_console())
