"""`soak init`: a `soak.toml` with every setting, its default and its meaning."""

from __future__ import annotations

import argparse
import os
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import msgspec
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from soak.commands.flags import add_flags
from soak.configuration import FILE_NAME, is_duration
from soak.duration import format_seconds_exactly
from soak.errors import ExitCode, UsageError
from soak.settings import SoakSettings

DESCRIPTION = (
    "Write a settings file with every setting as a comment: its default and what it means.\n"
    "Remove the # in front of what you want to change."
)
EPILOG = f"""\
examples:
  soak init                   writes {FILE_NAME} here
  soak init staging.toml      another file; use it with --config staging.toml
  soak init -                 print it"""

WIDTH = 100
_HEAD = """\
# Settings of soak. Every line shows a default: remove the # to change it.
# Flags and SOAK_… variables win over this file. 'soak config' prints the effective settings.
"""
_RULE = """\
# [[faults.rules]]            # a rule of your own; may be repeated
# fault = "crash"             # 'soak faults' lists them
# target = "redis"
# every = "2m"
# hold = "5s"
"""
_CONTRACT = """\
# [contract.redis-list]       # what this store is held to; 'soak stores' prints the default of each
# preset = "redis-everysec"
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", metavar="FILE", nargs="?", default=FILE_NAME, help=f"the file to write (default: {FILE_NAME}); -: print"
    )
    parser.add_argument("--force", action="store_true", help="replace a file that exists")
    add_flags(parser, ())


def execute(arguments: argparse.Namespace) -> ExitCode:
    text = commented_settings()
    if arguments.file == "-":
        sys.stdout.write(text)
        return ExitCode.PASS
    path = Path(arguments.file)
    try:
        with path.open("w" if arguments.force else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise UsageError(f"{path} exists; name another file, or replace it with --force") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be written ({os.strerror(error.errno or 0)}); name another file") from None
    sys.stdout.write(f"{path}: every setting with its default; remove the # of what you want to change\n")
    return ExitCode.PASS


def commented_settings() -> str:
    """Return the file: all of it comments, so that it changes nothing until it is edited."""
    return "\n".join([_HEAD, *_section(SoakSettings, ())])


def _section(model: type[BaseModel], path: tuple[str, ...]) -> Iterator[str]:
    below: list[tuple[str, type[BaseModel]]] = []
    lines: list[str] = []
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            below.append((name, field.annotation))
        elif (*path, name) != ("faults", "rules"):
            lines.append(_setting((*path, name), field))
    if path:
        head = [f"# {line}" for line in textwrap.wrap(" ".join((model.__doc__ or "").split()), WIDTH)]
        # A section in use and a section of comments must look alike, or the first edited key lands in another one.
        yield "\n".join([*head, f"[{'.'.join(path)}]", *lines, ""])
    else:
        yield "\n".join([*lines, ""])
    if path == ("faults",):
        yield _RULE
    if path == ("contract",):
        yield _CONTRACT
    for name, section in below:
        yield from _section(section, (*path, name))


def _setting(path: tuple[str, ...], field: FieldInfo) -> str:
    default = field.get_default(call_default_factory=True)
    value = "" if default is None else _toml(default, is_a_time=is_duration(path))
    shown = f"# {path[-1]} = {value}".rstrip()
    return f"{shown:<26}  # {field.description}"


def _toml(value: object, *, is_a_time: bool) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_toml(one, is_a_time=is_a_time) for one in value)}]"
    if is_a_time and isinstance(value, (int, float)):
        return f'"{format_seconds_exactly(value)}"'
    # TOML's strings, numbers and booleans are those of JSON.
    return msgspec.json.encode(str(value) if isinstance(value, Path) else value).decode()
