"""`soak fault`: announce the beginning and end of a fault that soak does not cause."""

from __future__ import annotations

import argparse
import asyncio
import time
from typing import Any

import msgspec

from soak import join
from soak.checker.faults import Excuse
from soak.commands.flags import DATA_DIR, add_flags, read_configuration
from soak.daemon.announced_faults import PATH, AnnouncedWindow, Announcement
from soak.daemon.http_clients import DaemonAnswer, ask
from soak.duration import format_seconds
from soak.errors import ExitCode, ServerUnreachableError, SoakError, UsageError
from soak.join import JoinInfo
from soak.report.text import print_json, print_table

DESCRIPTION = (
    "Announce a fault that soak does not inject itself (a chaos tool, an operator) to the soak running in the data\n"
    "folder. 'begin' prints an id once the window is in the ledger; 'end' takes that id. The contract decides which\n"
    "acknowledged messages such a fault may lose."
)
EPILOG = """\
what a fault excuses:
  nothing    the server keeps all it acknowledged: network, pause, latency
  clean      it is stopped cleanly
  crash      its process dies
  power      its machine dies: only what was synced survives
  failover   a replica takes over, perhaps too soon

examples:
  id=$(soak fault begin --server redis --excuses crash --reason 'chaos-mesh pod-kill')
  soak fault end $id
  soak fault list"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=("begin", "end", "list"), help="what to do")
    parser.add_argument("id", nargs="?", metavar="ID", help="for 'end': what 'begin' printed")
    parser.add_argument("--server", help="for 'begin': redis, postgres, postgres-replica, chroma, http or sqlite")
    parser.add_argument("--excuses", choices=[one.value for one in Excuse], help="for 'begin': what it may take")
    parser.add_argument("--reason", default="", metavar="TEXT", help="for 'begin': who does what, for the report")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_flags(parser, (DATA_DIR,))


def execute(arguments: argparse.Namespace) -> ExitCode:
    info = join.running(read_configuration(arguments).settings.data_dir)
    if arguments.action == "list":
        _print_open(asyncio.run(_open_windows(info)), as_json=arguments.json)
        return ExitCode.PASS
    window = asyncio.run(_begin(info, arguments) if arguments.action == "begin" else _end(info, arguments))
    if arguments.json:
        print_json(msgspec.json.encode(window))
    elif arguments.action == "begin":
        print_table((window.id,), [])
    else:
        lasted = (window.ended_wall_seconds or time.time()) - window.began_wall_seconds
        print_table((f"{window.id} of {window.server} ended after {format_seconds(round(lasted, 1))}",), [])
    return ExitCode.PASS


async def _begin(info: JoinInfo, arguments: argparse.Namespace) -> AnnouncedWindow:
    if arguments.server is None or arguments.excuses is None or arguments.id is not None:
        raise UsageError("write: soak fault begin --server redis --excuses crash")
    announcement = Announcement(server=arguments.server, excuses=Excuse(arguments.excuses), reason=arguments.reason)
    return _window(await ask(info, "POST", PATH, announcement))


async def _end(info: JoinInfo, arguments: argparse.Namespace) -> AnnouncedWindow:
    if arguments.id is None or arguments.server is not None or arguments.excuses is not None:
        raise UsageError("write: soak fault end ID, with the id that 'soak fault begin' printed")
    return _window(await ask(info, "DELETE", f"{PATH}/{arguments.id}"))


async def _open_windows(info: JoinInfo) -> list[AnnouncedWindow]:
    answer = await ask(info, "GET", PATH)
    return msgspec.json.decode(answer.body, type=list[AnnouncedWindow])


def _window(answer: DaemonAnswer) -> AnnouncedWindow:
    if answer.status not in (200, 201):
        raise _refusal(answer.body)
    return msgspec.json.decode(answer.body, type=AnnouncedWindow)


def _refusal(body: bytes) -> SoakError:
    try:
        told = msgspec.json.decode(body, type=dict[str, Any])
    except msgspec.MsgspecError:
        told = {}
    text = str(told.get("error", "the soak refused it without a reason"))
    return ServerUnreachableError(text) if told.get("exit_code") == ExitCode.UNREACHABLE else UsageError(text)


def _print_open(windows: list[AnnouncedWindow], *, as_json: bool) -> None:
    if as_json:
        print_json(msgspec.json.encode(windows))
        return
    rows = [
        (one.id, one.server, one.excuses.value, format_seconds(round(time.time() - one.began_wall_seconds)), one.reason)
        for one in windows
    ]
    print_table(("id", "server", "excuses", "since", "reason"), rows)
