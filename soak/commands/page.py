"""`soak page`: a control link to the page of a soak that runs, or the page of a run that is over."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from pathlib import Path

from soak import join
from soak.api.http import serving
from soak.commands.flags import DATA_DIR, add_flags, read_configuration
from soak.daemon.http_clients import ask
from soak.daemon.status_page import CODES_PATH, Code
from soak.errors import ExitCode, ServerUnreachableError, UsageError
from soak.join import JoinInfo
from soak.json_input import decode_json
from soak.page.past import PastPage
from soak.report.run_report import find_folder, folders_of_runs, read_outcome

DESCRIPTION = (
    "While a soak runs in the data folder: print a control link to its page. A page opened by it, on this machine,\n"
    "may inject faults and stop the soak. The link works once, within ten minutes.\n"
    "After a run, or for a run that is named: serve its page from its folder, read-only, until Ctrl-C. 'soak runs'\n"
    "lists the runs."
)
EPILOG = """\
examples:
  soak page                         the soak that runs in .soak, or the last run there
  soak page r1a2b3c4d               a past run, by its name
  soak page /tmp/soak-check-x7      a past run, by its folder
  soak page --port 8080             serve it there (default: any free port)"""
HOST = "127.0.0.1"
PORT_MAX = 65_535


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "run", metavar="RUN_OR_FOLDER", nargs="?", help="a data folder, or a run in --data-dir (default: the last run)"
    )
    parser.add_argument("--port", metavar="PORT", type=int, default=0, help="of a past run (default: any free one)")
    add_flags(parser, (DATA_DIR,))


def execute(arguments: argparse.Namespace) -> ExitCode:
    if not 0 <= arguments.port <= PORT_MAX:
        raise UsageError(f"--port {arguments.port}: should be from 0 to {PORT_MAX}")
    data_dir = read_configuration(arguments).settings.data_dir
    folder = find_folder(data_dir, arguments.run)
    if (info := join.find(folder)) is not None:
        sys.stdout.write(f"{_control_link(info)}\n")
        return ExitCode.PASS
    page = PastPage(folder if arguments.run is not None else _last(data_dir))
    asyncio.run(_serve(page, arguments.port))
    return ExitCode.PASS


def _last(data_dir: Path) -> Path:
    found = [folder for folder in folders_of_runs(data_dir) if read_outcome(folder) is not None]
    if not found:
        raise UsageError(f"there is no run in {data_dir}; start one with 'soak run', or name its folder")
    return found[0]


def _control_link(info: JoinInfo) -> str:
    answer = asyncio.run(ask(info, "POST", CODES_PATH, {}))
    if answer.status != 200:
        raise ServerUnreachableError(f"the soak at {info.http_address} gives no link: {answer.body.decode()}")
    code = decode_json(answer.body, type=Code).code
    # A server that listens everywhere is reached here by the address of this machine.
    address = info.http_address.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")
    return f"{address}/#code={code}"


async def _serve(page: PastPage, port: int) -> None:
    is_over = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, is_over.set)
    async with serving(page.application(), HOST, port) as address:
        sys.stdout.write(f"run {page.run} at {address}/ (Ctrl-C ends)\n")
        sys.stdout.flush()
        await is_over.wait()
