"""`soak inject`: one fault, now, on a soak that runs."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
import time
from typing import Any

import msgspec

from soak import join
from soak.checker.faults import in_brackets
from soak.commands.flags import DATA_DIR, add_flags, read_configuration
from soak.daemon.fault_routes import PATH, FaultOrder
from soak.daemon.http_clients import DaemonAnswer, ask
from soak.duration import format_seconds, parse_seconds
from soak.errors import ExitCode, SoakError, UsageError
from soak.faults.catalogue import ALL, fault_named
from soak.faults.window import Injected
from soak.join import JoinInfo
from soak.json_input import decode_json
from soak.report.text import print_json, print_table
from soak.verifier.result import RecoveryResult

DESCRIPTION = (
    "Inject one fault into a server of the soak running in the data folder, heal it, wait until the server serves\n"
    "again and everything on it was read, and print what was measured. Exit code 0: the contract was kept."
)
EPILOG = """\
examples:
  soak inject crash redis
  soak inject pause postgres --hold 20s
  soak inject latency redis --delay 500ms --jitter 100ms
  soak inject partition redis direction=to_client
  soak faults                                    lists what there is
  soak faults show latency                       documents one, with its parameters"""

MEASURE_SECONDS_MAX = 90.0
_POLL_SECONDS = 0.25


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("fault", metavar="FAULT", help="the fault; 'soak faults' lists them")
    parser.add_argument(
        "words",
        nargs="*",
        metavar="SERVER NAME=VALUE",
        help="the server (redis, postgres, postgres-replica, chroma, http or sqlite), and parameters of the fault",
    )
    parser.add_argument("--target", metavar="SERVER", help="the server, in place of the word")
    parser.add_argument("--hold", default="5s", metavar="TIME", help="how long it is left broken (default: 5s)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    _add_parameters(parser)
    add_flags(parser, (DATA_DIR,))


def _add_parameters(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "parameters", "'soak faults show FAULT' has the defaults and ranges of each fault"
    )
    users: dict[str, list[str]] = {}
    for fault in ALL.values():
        for name in fault.parameters():
            users.setdefault(name, []).append(fault.name)
    for name, faults in sorted(users.items()):
        group.add_argument(f"--{name}", dest=f"parameter:{name}", metavar="VALUE", help=f"of {', '.join(faults)}")


def execute(arguments: argparse.Namespace) -> ExitCode:
    data_dir = read_configuration(arguments).settings.data_dir
    try:
        hold_seconds = parse_seconds(arguments.hold)
    except ValueError as error:
        raise UsageError(f"--hold: {error}") from None
    target, parameters = _words(arguments)
    fault_named(arguments.fault, parameters)  # an error in it needs no running soak to be reported
    info = join.running(data_dir)
    order = FaultOrder(fault=arguments.fault, target=target, hold_seconds=hold_seconds, parameters=parameters)
    injected, measured = asyncio.run(_inject(info, order))
    if arguments.json:
        print_json(msgspec.json.encode({"injected": injected, "recoveries": measured}))
    else:
        _tell(injected, measured)
    if not measured:
        return ExitCode.INCONCLUSIVE
    return ExitCode.PASS if all(one.kept for one in measured) else ExitCode.VIOLATION


def _words(arguments: argparse.Namespace) -> tuple[str, dict[str, str | float]]:
    """Return the server and the parameters, by flag or by word."""
    pairs = [word.partition("=") for word in arguments.words if "=" in word]
    parameters: dict[str, str | float] = {name: value for name, _, value in pairs}
    for key, value in vars(arguments).items():
        if key.startswith("parameter:") and value is not None:
            parameters[key.removeprefix("parameter:")] = value
    servers = [word for word in arguments.words if "=" not in word] + ([arguments.target] if arguments.target else [])
    if len(servers) != 1:
        raise UsageError(f"name one server, as in: soak inject {arguments.fault} redis")
    return servers[0], parameters


async def _inject(info: JoinInfo, order: FaultOrder) -> tuple[Injected, list[RecoveryResult]]:
    asking = asyncio.create_task(ask(info, "POST", PATH, order))
    what, held = f"{order.fault} of {order.target}", format_seconds(order.hold_seconds)
    if await _is_active(info, order.target, asking):
        sys.stderr.write(f"{what} is active, held for {held}\n")
    answer = await asking
    if answer.status != 200:
        raise _refusal(answer.body)
    injected = decode_json(answer.body, type=Injected)
    sys.stderr.write(f"{what} is healed; measuring the recovery\n")
    deadline = time.monotonic() + MEASURE_SECONDS_MAX
    measured: list[RecoveryResult] = []
    while time.monotonic() < deadline:
        measured = await _measured(info, injected.fault)
        if measured and all(one.read_seconds is not None and one.write_seconds is not None for one in measured):
            break
        await asyncio.sleep(_POLL_SECONDS)
    return injected, measured


async def _is_active(info: JoinInfo, target: str, asking: asyncio.Task[DaemonAnswer]) -> bool:
    """Wait until a fault by hand on this server is under way; not if it is refused, or over as soon as it began."""
    while not asking.done():
        with contextlib.suppress(SoakError):  # what is asked says it
            status = decode_json((await ask(info, "GET", "/status")).body, type=dict[str, Any])
            active = {(one["target"], one["by"]) for one in status["faults_recent"] if one["state"] == "active"}
            if (target, "hand") in active and not asking.done():
                return True
        await asyncio.wait([asking], timeout=_POLL_SECONDS)
    return False


async def _measured(info: JoinInfo, fault: str) -> list[RecoveryResult]:
    answer = await ask(info, "GET", "/status")
    status = decode_json(answer.body, type=dict[str, Any])
    recoveries = msgspec.convert((status.get("verifier") or {}).get("recoveries", []), list[RecoveryResult])
    return [one for one in recoveries if one.fault == fault]


def _refusal(body: bytes) -> SoakError:
    try:
        told = decode_json(body, type=dict[str, Any])
    except msgspec.MsgspecError:
        told = {}
    text = str(told.get("error", "the soak refused it without a reason"))
    if told.get("exit_code") == ExitCode.INCONCLUSIVE:
        return FaultFailedError(text)
    return UsageError(text)


class FaultFailedError(SoakError):
    """The fault could not be injected, or not be healed; the run is inconclusive."""

    exit_code = ExitCode.INCONCLUSIVE


def _tell(injected: Injected, measured: list[RecoveryResult]) -> None:
    lasted = format_seconds((injected.ended - injected.started) / 1e6)
    how = in_brackets(injected.parameters)
    print_table((f"{injected.name} of {injected.target}{how}: healed after {lasted}",), [])
    if not measured:
        print_table((f"its effect was not measured within {MEASURE_SECONDS_MAX:g}s; see /status later",), [])
        return
    print_table(
        ("store", "reads back", "writes back", "data lost", "promised", "tolerated", "lost", "unknown", "seen"),
        [
            (
                one.store,
                _seconds(one.read_seconds),
                _seconds(one.write_seconds),
                one.shown_point,
                "anything" if one.promised_seconds is None else f"{one.promised_seconds:g}s",
                str(one.tolerated),
                one.shown_lost,
                str(one.unknown),
                str(one.surfaced),
            )
            for one in measured
        ],
    )


def _seconds(value: float | None) -> str:
    return "-" if value is None else format_seconds(value)
