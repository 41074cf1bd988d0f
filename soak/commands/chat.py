"""`soak chat`: a chat that a person can use, over any store."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys

from soak.api.http import is_loopback
from soak.chat.opening import NAMESPACE as DEFAULT_NAMESPACE
from soak.chat.opening import chatting
from soak.chat.service import PACE_SECONDS
from soak.commands.flags import (
    DATA_DIR,
    HTTP,
    NAMESPACE,
    SERVERS,
    STORE,
    SUBJECT,
    Flag,
    add_flags,
    read_configuration,
)
from soak.configuration import Configuration
from soak.daemon.plan import make_plan, unused_servers
from soak.duration import parse_seconds
from soak.errors import ExitCode, UsageError

DESCRIPTION = (
    "Serve a small chat with a page, whose assistant remembers only what the store remembers. Tell it your name,\n"
    "close the browser, kill this process, start it again: does it still know you? Servers that are not given are\n"
    "started, on the data they had. It speaks soak's JSON contract, too, so that it can be soaked itself."
)
EPILOG = """\
examples:
  soak chat
  soak chat --store postgres --port 8000
  soak chat --store mypackage.memory:Memory --redis redis://127.0.0.1:6379
  soak chat --store http --url http://127.0.0.1:8000     a page for a memory behind HTTP
  soak chat --store http --subject llama-index-redis     a page for a memory library
  soak check --store http --url http://127.0.0.1:9465    soak the chat itself"""

STORE_DEFAULT = "redis-list"
PORT_DEFAULT = 9465
FOLDER_DEFAULT = ".soak/chat"
DEFAULTS = {"stores.names": [STORE_DEFAULT], "http.port": PORT_DEFAULT, "data_dir": FOLDER_DEFAULT}
PACE_SECONDS_MAX = 10.0
_LEDGER = "--ledger"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--pace",
        metavar="TIME",
        default=f"{PACE_SECONDS}s",
        help="pause between two words of an answer (default: 30ms)",
    )
    host, port = HTTP
    add_flags(
        parser,
        (
            STORE._replace(help="store to chat with, by name or package.module:Class (default: redis-list)"),
            SUBJECT,
            *(flag for flag in SERVERS if flag.name != _LEDGER),
            NAMESPACE._replace(help=f"prefix of everything written (default: {DEFAULT_NAMESPACE})"),
            Flag("--timeout", "stores.timeout", "TIME", "limit for every single operation on the store (default: 5s)"),
            DATA_DIR._replace(help=f"where started servers keep their data (default: {FOLDER_DEFAULT})"),
            host._replace(help="address to serve on (default: 127.0.0.1); all who reach it can read everything"),
            port._replace(help=f"port to serve on (default: {PORT_DEFAULT}); 0: any free one"),
        ),
    )


def execute(arguments: argparse.Namespace) -> ExitCode:
    configuration = read_configuration(arguments, command_defaults=DEFAULTS)
    asyncio.run(_chat(configuration, _one_store(arguments, configuration), _pace_seconds(arguments.pace)))
    return ExitCode.PASS


def _one_store(arguments: argparse.Namespace, configuration: Configuration) -> str:
    given = list(dict.fromkeys(vars(arguments).get(STORE.destination, [])))
    if len(given) > 1:
        raise UsageError(f"a chat has one memory, and --store names {len(given)}; name one of them")
    return configuration.settings.stores.names[0]


def _pace_seconds(text: str) -> float:
    try:
        seconds = parse_seconds(text)
    except ValueError as error:
        raise UsageError(f"--pace: {error}") from None
    if seconds > PACE_SECONDS_MAX:
        raise UsageError(f"--pace {text} is too slow to be read; give at most {PACE_SECONDS_MAX:g}s")
    return seconds


async def _chat(configuration: Configuration, store: str, pace_seconds: float) -> None:
    is_over = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, is_over.set)
    settings = configuration.settings
    for line in unused_servers(configuration, make_plan(settings, [store])):
        _say(line)
    async with chatting(settings, store, pace_seconds=pace_seconds, say=_say) as address:
        sys.stdout.write(f"chat over {store} at {address}/\n")
        if not is_loopback(settings.http.host):
            sys.stdout.write("everybody who reaches this address can read and forget every conversation\n")
        sys.stdout.flush()
        await is_over.wait()


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
