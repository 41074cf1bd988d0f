"""What the commands that run scenarios share: progress on standard error, names, output."""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import msgspec

from soak.duration import format_seconds
from soak.errors import UsageError
from soak.report.text import print_json
from soak.suggestion import did_you_mean


class ScenarioProgress:
    """Prints a line for each scenario that ended, with the time so far and about how much is left.

    A terminal also shows which are under way.
    """

    def __init__(self, total: int) -> None:
        self._total = total
        self._ended = 0
        self._began = time.monotonic()
        self._under_way: list[str] = []
        self._is_terminal = sys.stderr.isatty()

    def begun(self, name: str) -> None:
        self._under_way.append(name)
        self._show()

    def ended(self, name: str, outcome: str) -> None:
        self._ended += 1
        self._under_way.remove(name)
        self.say(f"{self._ended:3} of {self._total}  {name}: {outcome}  ({self._times()})")

    def _times(self) -> str:
        elapsed = time.monotonic() - self._began
        left = elapsed / self._ended * (self._total - self._ended)
        return format_seconds(round(elapsed)) + (f", about {format_seconds(max(1, round(left)))} left" if left else "")

    def say(self, line: str) -> None:
        """Print a line of its own."""
        self.clear()
        sys.stderr.write(f"{line}\n")
        self._show()

    def clear(self) -> None:
        """Leave the terminal as it was."""
        if self._is_terminal:
            sys.stderr.write("\r\x1b[K")

    def _show(self) -> None:
        if self._is_terminal:
            self.clear()
            # A line that is wrapped could not be cleared as one.
            sys.stderr.write(f"under way: {', '.join(self._under_way)}"[: shutil.get_terminal_size().columns - 1])
        sys.stderr.flush()


def print_results(arguments: argparse.Namespace, for_programs: dict[str, Any], lines: Sequence[str]) -> None:
    if arguments.json:
        print_json(msgspec.json.encode(for_programs))
    else:
        sys.stdout.write("\n".join(lines) + "\n")


def chosen(what: str, wanted: Sequence[str], known: Iterable[str]) -> list[str]:
    """Return the names that are wanted, in the order of the known ones; all of them if none is; raises `UsageError`."""
    names = list(known)
    for name in wanted:
        if name not in names:
            hint = did_you_mean(name, names, f"there are {', '.join(names)}")
            raise UsageError(f"there is no {what} {name!r}; {hint}")
    return [name for name in names if name in wanted] if wanted else names


def markdown_table(heads: Sequence[str], rows: Sequence[Sequence[str]], numbers: Collection[str] = ()) -> list[str]:
    """Return a table in Markdown; columns of numbers are aligned to the right."""
    rule = "|".join("---:" if head in numbers else "---" for head in heads)
    return [f"| {' | '.join(heads)} |", f"|{rule}|", *(f"| {' | '.join(row)} |" for row in rows)]
