"""`soak check`: a bounded soak for a pull request, in a folder of its own."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from soak.commands.flags import DATA_DIR, SOAKING, add_flags, read_configuration
from soak.commands.soaking import add_output_arguments, soak
from soak.daemon.run import RunOptions
from soak.errors import ExitCode, SoakError

DESCRIPTION = (
    "Soak for a short time (60s unless told otherwise) and answer with the exit code. The data folder is a temporary\n"
    "one: it is removed after a pass, and kept and named after anything else."
)
EPILOG = """\
examples:
  soak check --store redis-list --duration 60s
  soak check --store mypackage.memory:Memory --users 20 --json"""

DEFAULTS = {"duration": "60s", "http.port": 0}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--keep", action="store_true", help="keep the temporary data folder after a pass, too")
    add_output_arguments(parser)
    add_flags(parser, SOAKING)


def execute(arguments: argparse.Namespace) -> ExitCode:
    if DATA_DIR.destination in vars(arguments):
        configuration = read_configuration(arguments, command_defaults=DEFAULTS)
        return ExitCode(soak(configuration, RunOptions(), arguments).exit_code)
    # Whatever is wrong with the settings is said before a folder is made.
    read_configuration(arguments, command_defaults=DEFAULTS)
    folder = Path(tempfile.mkdtemp(prefix="soak-check-"))
    code = ExitCode.INTERNAL
    try:
        configuration = read_configuration(arguments, command_defaults=DEFAULTS, overrides={"data_dir": str(folder)})
        code = ExitCode(soak(configuration, RunOptions(), arguments).exit_code)
    except SoakError as error:
        # It did not even begin: there is nothing in the folder to look at.
        code = ExitCode.PASS
        raise error from None
    finally:
        _settle(folder, arguments, kept=arguments.keep or code is not ExitCode.PASS)
    return code


def _settle(folder: Path, arguments: argparse.Namespace, *, kept: bool) -> None:
    if kept:
        stream = sys.stderr if arguments.json else sys.stdout
        stream.write(f"  data folder: {folder}\n")
    else:
        shutil.rmtree(folder, ignore_errors=True)
