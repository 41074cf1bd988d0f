"""The command line: finds the command, runs it, and turns whatever happens into one line and an exit code."""

from __future__ import annotations

import argparse
import errno
import importlib
import os
import platform
import re
import sys
import tempfile
import traceback
from collections.abc import Sequence
from typing import Any, NoReturn

import soak
from soak.errors import ExitCode, SoakError, UsageError
from soak.masking import mask
from soak.proc import pid1
from soak.suggestion import did_you_mean

GROUPS = {
    "soak": {
        "run": "soak until Ctrl-C or --duration",
        "demo": "sixty seconds that end in a found bug",
        "check": "a bounded soak, for a pull request",
        "verify": "the verifier alone, as a sidecar",
        "chat": "serve a chat page over any store",
    },
    "break": {
        "faults": "list faults, and which are possible here",
        "inject": "inject one fault into the running soak",
        "fault": "announce a fault injected by another tool, and its end",
        "docker-gate": "restricted Docker socket: only named containers",
    },
    "look": {
        "page": "link to the page of the running soak, or open the page of a past run",
        "runs": "list the runs of a data folder",
        "report": "report a run as text, JSON, JUnit, Markdown or HTML",
        "compare": "compare two runs: findings, latency, recovery, thresholds",
        "violations": "list findings and violations",
        "explain": "explain one violation or finding",
        "replay": "derive a verdict again from its evidence alone",
        "export": "export histories for Jepsen/Elle",
    },
    "test soak itself, servers and libraries": {
        "selftest": "run each planted flaw and its correct twin",
        "recovery-matrix": "measure data loss per server configuration and fault",
        "reproduce": "show published results about failovers again",
        "analyse": "test real memory libraries",
        "conformance": "check an HTTP memory against the contract",
        "stores": "list stores and their contracts",
        "flaws": "list planted flaws, and the incident behind each",
    },
    "set up": {
        "init": "write a settings file with every setting as a comment",
        "config": "show effective settings and their origins",
        "completion": "print a shell completion script",
        "doctor": "check what this machine has and lacks",
        "clean": "remove the data of a run from your servers",
    },
}
COMMANDS = {name: what for group in GROUPS.values() for name, what in group.items()}

_EPILOG = """\
examples:
  soak run                                      embedded servers, until Ctrl-C
  soak run --store redis-stream --users 500 --duration 8h
  soak check --store postgres --duration 60s    for a pull request: exit code 0 means nothing was forgotten
  soak check --store mypackage.memory:Memory    your own class
  soak verify --ledger redis://host:6400        the verifier alone, beside a load that runs elsewhere

exit codes: 0 pass, 1 violation, 2 usage or configuration, 3 a server cannot be reached or started,
4 inconclusive, 5 internal error, 6 a threshold was missed
"""


_ABOUT_A_PATH = frozenset({
    errno.EACCES, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.ENOSPC, errno.ENOTDIR, errno.EPERM, errno.EROFS,
})  # fmt: skip
"""What is wrong with a named file or folder, or with the disk it is on."""
NAME_SHOWN_MAX = 100


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Understand a command line; one that is not understood ends the program with a line that says why."""
    words = _negative_values_joined(argv)
    return _parser(next((word for word in words if word in COMMANDS), None)).parse_args(words)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    if os.getpid() == pid1.FIRST and (ended := pid1.split()) is not None:
        return ended
    words = sys.argv[1:] if argv is None else argv
    try:
        arguments = parse(words)
        code: ExitCode = arguments.execute(arguments)
        # Here, where it is known what to do if nobody reads it.
        sys.stdout.flush()
    except SoakError as error:
        _complain(str(error))
        return int(error.exit_code)
    except KeyboardInterrupt:
        _complain("interrupted before it began; nothing was verified")
        return int(ExitCode.INCONCLUSIVE)
    except BrokenPipeError:
        # The reader of our output has left (`soak stores | head`); that is no error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return int(ExitCode.PASS)
    except Exception as error:  # noqa: BLE001  the last resort: a person gets a line, not a traceback
        return _broke(error, words)
    return int(code)


def _broke(error: Exception, words: Sequence[str]) -> int:
    if isinstance(error, OSError) and error.errno in _ABOUT_A_PATH and error.filename is not None:
        _complain(f"{str(error.filename)[:NAME_SHOWN_MAX]!r}: {error.strerror}; name another file or folder")
        return int(ExitCode.USAGE)
    _complain(_internal_error(error, is_shown="debug" in words or "--supervised" in words))
    return int(ExitCode.INTERNAL)


def _negative_values_joined(words: Sequence[str]) -> list[str]:
    """Write `--duration -5s` as `--duration=-5s`, or argparse takes it for a flag and says nothing of the value."""
    joined: list[str] = []
    for word in words:
        if re.match(r"-\d", word) and joined and joined[-1].startswith("--") and "=" not in joined[-1]:
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined


def _complain(text: str) -> None:
    for line in text.splitlines():
        print(f"soak: {mask(line)}", file=sys.stderr)  # noqa: T201  this is the command line


def _internal_error(error: Exception, *, is_shown: bool) -> str:
    details = mask("".join(traceback.format_exception(error)))
    what = " ".join(f"{type(error).__name__}: {error}".split())[:200]
    if is_shown:
        sys.stderr.write(details)
        return f"internal error ({what})"
    with tempfile.NamedTemporaryFile("w", prefix="soak-error-", suffix=".log", delete=False, encoding="utf-8") as file:
        file.write(details)
    return f"internal error ({what}); details in {file.name}, please report it with that file"


class CommandParser(argparse.ArgumentParser):
    """Says what is wrong in one line, with the nearest thing that is right."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{self._plainly(message)}; see '{self.prog} --help'")

    def _plainly(self, message: str) -> str:
        """Add the nearest thing that is right, in place of the list of all that is."""
        unknown = re.search(r"(?:invalid choice: '|unrecognized arguments: )([^\s'=]+)", message)
        if unknown is None:
            return message
        said, _, listed = message.partition(" (choose from ")
        known = re.findall(r"[\w-]+", listed) if listed else self.option_names()
        hint = did_you_mean(unknown[1], known)
        return f"{said.replace('argument COMMAND: invalid choice:', 'no such command:')} ({hint})" if hint else message

    def option(self, name: str) -> argparse.Action | None:
        """Return what a flag does, None where there is no such flag."""
        return self._option_string_actions.get(name)

    def option_names(self) -> list[str]:
        return list(self._option_string_actions)

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:  # the base has overloads
        """Let the command's own parser complain of flags it does not know, since it knows its own."""
        found, unknown = self.parse_known_args(args, namespace)
        if unknown:
            getattr(found, "parser", self).error(f"unrecognized arguments: {' '.join(unknown)}")
        return found


def parser_of(command: str) -> CommandParser:
    """Return the parser of one command."""
    parser = CommandParser(prog=f"soak {command}", allow_abbrev=False)
    _fill(parser, command)
    return parser


def _parser(chosen: str | None) -> argparse.ArgumentParser:
    """Make the parser. Only the chosen command is imported: each brings along what it needs, some of it heavy."""
    parser = CommandParser(
        prog="soak",
        description="Finds out whether your agents' memory forgets, before your users do.",
        epilog=f"{_listed()}\n{_EPILOG}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    version = f"soak {soak.__version__} (Python {platform.python_version()})"
    parser.add_argument("--version", action="version", version=version)
    # Listed by group in the epilog: argparse would print one long list.
    commands = parser.add_subparsers(
        metavar="COMMAND", required=True, parser_class=CommandParser, help=argparse.SUPPRESS
    )
    for name in COMMANDS:
        command = commands.add_parser(name, allow_abbrev=False)
        if name == chosen:
            _fill(command, name)
    return parser


def _fill(parser: argparse.ArgumentParser, name: str) -> None:
    module = importlib.import_module(f"soak.commands.{name.replace('-', '_')}")
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description, parser.epilog = module.DESCRIPTION, module.EPILOG
    module.add_arguments(parser)
    parser.set_defaults(execute=module.execute, parser=parser)


def _listed() -> str:
    lines: list[str] = []
    for title, group in GROUPS.items():
        lines += [f"{title}:", *(f"  {name:<17} {what}" for name, what in group.items()), ""]
    return "\n".join(lines)
