"""`soak verify`: the verifier alone, beside a load that runs elsewhere."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psutil
import structlog
import uvloop

from soak import join, log
from soak.addresses import verifier_logins
from soak.checker.verdict import Verdict
from soak.clock import continue_timeline
from soak.commands.flags import ALLOW_WEAKER, DATA_DIR, HTTP, SERVERS, Flag, add_flags, read_configuration
from soak.daemon.contracts import check_promises
from soak.daemon.folder import DataFolder
from soak.daemon.plan import addresses, setting_of
from soak.errors import ExitCode, SoakError, UsageError
from soak.join import JoinInfo
from soak.ledger.connection import check_ledger_is_apart
from soak.ledger.run import read_header
from soak.ledger.shards import WHOLE, Shard, parse_shard, read_verifiers, share
from soak.proc.lock import DataFolderLock
from soak.report.outcome import RunOutcome
from soak.servers.kinds import LEDGER
from soak.settings import SoakSettings
from soak.stores import registry
from soak.verifier import checkpoint, endpoint
from soak.verifier.endpoint import read_endpoint, read_last_metrics
from soak.verifier.http import resting
from soak.verifier.process import run
from soak.verifier.result import read_so_far

_log = structlog.get_logger()

DESCRIPTION = (
    "Follow the ledger of a run and verify its stores. The run is the one in --data-dir, or the one whose ledger and\n"
    "servers are given. After a restart it continues where it stopped."
)
EPILOG = """\
examples:
  soak verify --ledger redis://ledger:6379 --redis redis://memory:6379 --data-dir /var/lib/soak
  soak verify --ledger redis://ledger:6379 --run r1a2b3c4d --postgres postgresql://soak@db/soak"""

DEFAULTS = {"http.port": 9465}
"""Not the daemon's port, because both may run on one machine."""

NEXT_RUN_POLL_SECONDS = 2.0
SHARED_SECONDS_MAX = 30.0
SHARED_POLL_SECONDS = 0.5

_OPERATIONS = (
    Flag("--timeout", "stores.timeout", "TIME", "limit for every single operation on a store"),
    Flag("--ttl", "stores.ttl", "TIME", "time to live the stores were given"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--run", metavar="ID", help="the run that is expected; another one is an error")
    parser.add_argument(
        "--shard", metavar="I/N", help="verify only a share: the first, the second … of N verifiers of the run"
    )
    parser.add_argument(
        "--each-run",
        action="store_true",
        help="when the run is over, put it aside and verify the next one that begins in the ledger",
    )
    parser.add_argument("--supervised", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    add_flags(parser, (DATA_DIR, *SERVERS, ALLOW_WEAKER, *HTTP, *_OPERATIONS))


def execute(arguments: argparse.Namespace) -> ExitCode:
    settings = read_configuration(arguments, command_defaults=DEFAULTS).settings
    log.configure(settings.log)
    folder = DataFolder(settings.data_dir)
    shard = WHOLE if arguments.shard is None else parse_shard(arguments.shard)
    if arguments.each_run and (settings.ledger.url is None or arguments.run is not None):
        raise UsageError("--each-run follows the runs of a ledger: give its address with --ledger, and no --run")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_verify(arguments, settings, folder, shard))


async def _verify(arguments: argparse.Namespace, settings: SoakSettings, folder: DataFolder, shard: Shard) -> ExitCode:
    """Verify the run, or one after the other until we are asked to end."""
    leaving = asyncio.Event()
    while True:
        info, code = await _verify_run(arguments, settings, folder, shard, leaving)
        if not arguments.each_run or leaving.is_set():
            return code
        await _next_run(info, folder, shard, settings, leaving)
        if leaving.is_set():
            return code
        continue_timeline("", 0)


async def _verify_run(
    arguments: argparse.Namespace, settings: SoakSettings, folder: DataFolder, shard: Shard, leaving: asyncio.Event
) -> tuple[JoinInfo, ExitCode]:
    supervised, each_run = arguments.supervised, arguments.each_run
    host, port = (settings.http.host, settings.http.port) if not supervised else ("127.0.0.1", 0)
    while supervised and join.find_opened(settings.data_dir) is None:  # noqa: ASYNC110  a file
        await asyncio.sleep(join.OPENED_POLL_SECONDS)
    info = await _find_run(settings.data_dir, settings, arguments.run)
    if not supervised:
        await _check_share(info, shard, waits=each_run)
    with _own_folder(folder, settings, shard, supervised=supervised):
        if each_run:
            _put_aside_earlier(folder, shard, info.header.run)
        folder.prepare()
        if each_run and (told := folder.result(info.header.run, shard)) is not None:
            return info, Verdict(told.verdict).exit_code  # it was told before this start
        if not supervised:
            await _check_contracts(info, settings, folder.path / shard.folder)
        code = await run(info, settings, folder.path, host, port, shard, leaving=leaving)
    if not supervised:
        _tell(info.header.run, code, folder, shard, as_json=arguments.json)
    return info, code


def _put_aside_earlier(folder: DataFolder, shard: Shard, run: str) -> None:
    found = read_so_far(folder.path / shard.folder)
    if found is not None and found.run != run:
        place = folder.put_aside(found.run)
        _log.info("run_put_aside", run=found.run, place=str(place), finished=found.finished)


async def _next_run(
    info: JoinInfo, folder: DataFolder, shard: Shard, settings: SoakSettings, leaving: asyncio.Event
) -> None:
    """Wait until another run begins in the ledger, or we are asked to end."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, leaving.set)
    _log.info("waiting", what="the run is over; waiting for the next one", run=info.header.run)
    metrics = partial(read_last_metrics, folder.path / shard.folder)
    async with resting(settings.http.host, settings.http.port, metrics):
        while not leaving.is_set():
            with contextlib.suppress(SoakError):  # a ledger that is away, or holds no run at all
                if (await read_header(info.ledger_url)).run != info.header.run:
                    return
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(leaving.wait(), NEXT_RUN_POLL_SECONDS)


async def _check_share(info: JoinInfo, shard: Shard, *, waits: bool) -> None:
    """Refuse a share that does not fit how the run is shared. The first verifier may raise the number of shares."""
    run, known = info.header.run, await read_verifiers(info.ledger_url, info.header.run)
    deadline = time.monotonic() + SHARED_SECONDS_MAX
    while waits and not shard.is_first and shard.of > known and time.monotonic() < deadline:
        # A run that has just begun: how many share it is written next.
        await asyncio.sleep(SHARED_POLL_SECONDS)
        known = await read_verifiers(info.ledger_url, run)
    if shard.of == known:
        return
    if shard.of < known:
        raise UsageError(
            f"run {run} is shared by {known} verifiers, each with sessions of its own; verify one of them with "
            f"--shard {shard.number}/{known}"
        )
    if not shard.is_first:
        raise UsageError(
            f"run {run} has {known} verifier{'' if known == 1 else 's'}, not {shard.of}; begin or resume it with "
            f"'soak run --verifiers {shard.of}', or start --shard 1/{shard.of} first"
        )
    await share(info.ledger_url, run, shard.of)


async def _check_contracts(info: JoinInfo, settings: SoakSettings, folder: Path) -> None:
    """Refuse to begin if a server cannot keep what is promised. A verifier that resumes reports it as drift instead."""
    is_allowed = settings.contract_mismatch == "allow" or info.header.weaker_servers_allowed
    if is_allowed or (folder / checkpoint.FILE_NAME).exists():
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
def _own_folder(folder: DataFolder, settings: SoakSettings, shard: Shard, *, supervised: bool) -> Iterator[None]:
    """Make sure that no other verifier keeps its state in the same folder."""
    if supervised:
        yield  # the daemon that started us holds the folder
    elif settings.ledger.url is not None:
        with DataFolderLock(folder.path):
            yield
    else:
        other = read_endpoint(folder.path / shard.folder / endpoint.FILE_NAME)
        if other is not None and psutil.pid_exists(other.pid):
            raise UsageError(
                f"process {other.pid} verifies the run in {folder.path} already; "
                "what it has read is dropped from the ledger; several can share a run, see --shard"
            )
        yield


def _tell(run: str, code: ExitCode, folder: DataFolder, shard: Shard, *, as_json: bool) -> None:
    result = folder.result(run, shard)
    if result is None:
        return  # it was asked to stop and goes on at its next start
    # Not before there is something to tell: a verifier that the daemon started never needs it.
    from soak.report.summary import print_outcome_json, print_summary, summary_console  # noqa: PLC0415

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
