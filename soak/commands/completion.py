"""`soak completion`: a script that completes commands, flags and names in bash, zsh or fish."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence

from soak import cli
from soak.commands.flags import EVERY_FLAG, Flag
from soak.configuration import choices
from soak.errors import ExitCode, SoakError
from soak.servers.kinds import UNDER_TEST

DESCRIPTION = "Print a script for your shell that completes commands, flags, and the names of stores, faults and flaws."
EPILOG = """\
examples:
  source <(soak completion bash)                                 in ~/.bashrc
  source <(soak completion zsh)                                  in ~/.zshrc, behind compinit
  soak completion fish > ~/.config/fish/completions/soak.fish"""

# Each script asks the program itself, so that it never lags behind it. Where nothing is known, files are completed.
SCRIPTS = {
    "bash": """\
_soak() {
  local IFS=$'\\n'
  COMPREPLY=($(compgen -W "$(soak completion --words "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)" \\
    -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _soak soak
""",
    "zsh": """\
_soak() {
  local -a found
  found=(${(f)"$(soak completion --words "${(@)words[2,CURRENT]}" 2>/dev/null)"})
  (( ${#found} )) && compadd -a found || _files
}
compdef _soak soak
""",
    "fish": """\
complete -c soak -a '(soak completion --words (commandline -opc)[2..] (commandline -ct) 2>/dev/null)'
""",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", nargs="?", choices=sorted(SCRIPTS), help="your shell")
    parser.add_argument("--words", nargs=argparse.REMAINDER, help="what a script asks: the words behind 'soak' so far")


def execute(arguments: argparse.Namespace) -> ExitCode:
    if arguments.words is not None:
        sys.stdout.write("".join(f"{word}\n" for word in candidates(arguments.words)))
    elif arguments.shell is None:
        arguments.parser.error(f"name your shell: {', '.join(sorted(SCRIPTS))}")
    else:
        sys.stdout.write(SCRIPTS[arguments.shell])
    return ExitCode.PASS


def candidates(words: Sequence[str]) -> list[str]:
    """Return what may stand in place of the last word."""
    *before, begun = words or [""]
    command = next((word for word in before if word in cli.COMMANDS), None)
    if command is None:
        found: Iterable[str] = cli.COMMANDS
    else:
        parser = cli.parser_of(command)
        after = before[before.index(command) + 1 :]
        flag = parser.option(after[-1]) if after else None
        if flag is not None and flag.nargs != 0:
            found = _values_of(flag)
        elif begun.startswith("-"):
            found = parser.option_names()
        else:
            found = _names(command, after)
    return [word for word in found if word.startswith(begun)]


def _values_of(action: argparse.Action) -> Iterable[str]:
    if action.choices is not None:
        return [str(choice) for choice in action.choices]
    if action.dest in _BY_FLAG:
        return _BY_FLAG[action.dest]()
    flag: Flag | None = next((flag for flag in EVERY_FLAG if flag.destination == action.dest), None)
    return [] if flag is None else choices(tuple(flag.key.split(".")))


def _names(command: str, after: Sequence[str]) -> Iterable[str]:
    """Return the names that a command takes by itself: one, but for faults, which have servers and parameters."""
    given = [word for word in after if not word.startswith("-")]
    if command == "inject" and given:
        return _of_fault(given)
    if command in {"faults", "flaws"}:
        return ["show"] if not given else _BY_COMMAND[command]() if given == ["show"] else []
    return [] if given or command not in _BY_COMMAND else _BY_COMMAND[command]()


def _of_fault(given: Sequence[str]) -> list[str]:
    """Return the servers that a fault can happen to, and then its parameters."""
    from soak.faults import catalogue  # noqa: PLC0415

    fault = catalogue.ALL.get(catalogue.current_name(given[0]))
    if fault is None:
        return []
    return list(fault.targets) if len(given) == 1 else [f"{name}=" for name in fault.parameters()]


# What is named is imported only when it is asked for: some of it is heavy, and a shell waits.
def _stores() -> list[str]:
    from soak.stores import registry  # noqa: PLC0415

    return list(registry.NAMES)


def _faults() -> list[str]:
    from soak.faults import catalogue  # noqa: PLC0415

    return list(catalogue.ALL)


def _flaws() -> list[str]:
    from soak.flaws import catalogue  # noqa: PLC0415

    return [*catalogue.ALL, *catalogue.TOPOLOGIES]


def _subjects() -> list[str]:
    from soak.subjects import catalogue  # noqa: PLC0415

    return list(catalogue.all_subjects())


def _violations() -> list[str]:
    from soak.configuration import read  # noqa: PLC0415
    from soak.report.violation_records import read_violations  # noqa: PLC0415

    try:
        return [record.violation.id for record in read_violations(read().settings.data_dir).found]
    except SoakError:
        return []


_BY_FLAG: Mapping[str, Callable[[], list[str]]] = {
    "setting:stores.names": _stores,
    "setting:testbed.subject": _subjects,
    "target": lambda: [kind.name for kind in UNDER_TEST],
}
_BY_COMMAND: Mapping[str, Callable[[], list[str]]] = {
    "inject": _faults,
    "faults": _faults,
    "flaws": _flaws,
    "selftest": _flaws,
    "analyse": _subjects,
    "explain": _violations,
    "replay": _violations,
    "completion": lambda: sorted(SCRIPTS),
}
