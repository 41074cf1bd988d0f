"""`soak page`: a link to the status page of a soak that runs, which may act."""

from __future__ import annotations

import argparse
import asyncio
import sys

from soak import join
from soak.commands.flags import DATA_DIR, add_flags, read_configuration
from soak.daemon.http_clients import ask
from soak.daemon.status_page import CODES_PATH, Code
from soak.errors import ExitCode, ServerUnreachableError
from soak.json_input import decode_json

DESCRIPTION = (
    "Print a control link to the page of the soak running in the data folder. A page opened by it, on this machine,\n"
    "may inject faults and stop the soak. The link works once, within ten minutes."
)
EPILOG = """\
examples:
  soak page
  xdg-open "$(soak page)"                        open it in a browser"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_flags(parser, (DATA_DIR,))


def execute(arguments: argparse.Namespace) -> ExitCode:
    info = join.running(read_configuration(arguments).settings.data_dir)
    answer = asyncio.run(ask(info, "POST", CODES_PATH, {}))
    if answer.status != 200:
        raise ServerUnreachableError(f"the soak at {info.http_address} gives no link: {answer.body.decode()}")
    code = decode_json(answer.body, type=Code).code
    # A server that listens everywhere is reached here by the address of this machine.
    address = info.http_address.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")
    sys.stdout.write(f"{address}/#code={code}\n")
    return ExitCode.PASS
