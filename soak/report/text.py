"""Text for people: moments, tables, escaping, and the console it is printed on.

A message may hold anything: markup, links, characters that are invisible or turn the reading direction round. Invisible
characters are escaped first, the same in all formats; then each format escapes what it would interpret.
"""

from __future__ import annotations

import datetime as dt
import html
import math
import re
import shutil
import sys
import textwrap
import time
from collections.abc import Sequence
from typing import NoReturn

import msgspec
from rich.console import Console

from soak.duration import parse_seconds
from soak.errors import UsageError

PLAIN_WIDTH = 120
"""Characters in a line where no terminal sets the width."""
CUT_HINT = "(… is cut; --wide shows it whole)"
TABLE_WIDTH_MIN = 80
"""A terminal that is narrower wraps what does not fit."""
CELL_WIDTH_MIN = 8
_GAP = "  "
_MARKDOWN = re.compile(r"[\\`*_\[\]#|~@:$]|(?<=www)\.")


class OutputConsole(Console):
    """Standard output, without highlighting; colours where it is a terminal and NO_COLOR is not set."""

    def __init__(self, *, width: int | None = None) -> None:
        super().__init__(highlight=False, width=width)

    def on_broken_pipe(self) -> NoReturn:
        """Leave it to the command: rich would exit with the code of a violation."""
        raise BrokenPipeError


def parse_moment(text: str, flag: str) -> float:
    """Return the wall seconds that `2h` (ago) or `2026-01-31T12:00` means."""
    try:
        return time.time() - parse_seconds(text)
    except ValueError:
        pass
    try:
        return dt.datetime.fromisoformat(text).timestamp()
    except ValueError:
        raise UsageError(
            f"{flag} {text!r} is no moment; write how long ago, like 30m, or a time like 2026-01-31T12:00"
        ) from None


def local_time(wall_seconds: float) -> time.struct_time:
    """Return a moment in the time of this machine; one that no calendar has, of a damaged file, counts as 1970."""
    try:
        return time.localtime(wall_seconds)
    except (OverflowError, ValueError, OSError):
        return time.localtime(0)


def clock(wall_seconds: float) -> str:
    """Write a moment with its date, in the time of this machine."""
    return time.strftime("%Y-%m-%d %H:%M:%S", local_time(wall_seconds))


def clock_ms(wall_seconds: float) -> str:
    """Write the time of day to the millisecond, in the time of this machine."""
    milliseconds = int(wall_seconds % 1 * 1000) if math.isfinite(wall_seconds) else 0
    return f"{time.strftime('%H:%M:%S', local_time(wall_seconds // 1))}.{milliseconds:03d}"


def table_lines(heads: Sequence[str], rows: Sequence[Sequence[str]], width_max: int | None = None) -> list[str]:
    """Line up the columns of a table; where a width is given, the widest columns are cut to fit it."""
    every = [list(heads), *(list(row) for row in rows)]
    widths = [max(len(row[column]) for row in every) for column in range(len(heads))]
    if width_max is not None and len(heads) > 1:  # one column is no table
        room = width_max - len(_GAP) * (len(heads) - 1)
        widest = max(widths, default=0)
        while widest > CELL_WIDTH_MIN and sum(min(width, widest) for width in widths) > room:
            widest -= 1
        widths = [min(width, widest) for width in widths]
        every = [[_fitted(cell, widest) for cell in row] for row in every]
    return [_GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in every]


def _fitted(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1].rstrip() + "…"


def plain(text: str) -> str:
    """Write out what cannot be seen, so that nothing read back from a store can move the cursor of a terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def print_table(heads: Sequence[str], rows: Sequence[Sequence[str]], *, is_wide: bool | None = None) -> None:
    """Print a table, cut to the terminal's width unless asked for whole; a pipe gets all of it.

    `is_wide`: what `--wide` says; None where there is no such flag.
    """
    sys.stdout.write("\n".join(table_lines(heads, rows, None if is_wide else width_of_page())) + "\n")
    if is_wide is False and not fits(heads, rows):
        sys.stdout.write(f"{CUT_HINT}\n")


def fits(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Whether a table is whole where it would be printed now."""
    width = width_of_page()
    return width is None or len(heads) < 2 or max(map(len, table_lines(heads, rows))) <= width


def width_of_page() -> int | None:
    """Return the width of the terminal that is printed to; a pipe has none."""
    return terminal_width() if sys.stdout.isatty() else None


def terminal_width() -> int:
    return max(TABLE_WIDTH_MIN, shutil.get_terminal_size().columns)


def defined(terms: Sequence[tuple[str, str]], width: int | None = None) -> list[str]:
    """Line up terms and what they mean, which is wrapped where a width is given."""
    indent = max(len(term) for term, _ in terms) + len(_GAP)
    return [
        line
        for term, meaning in terms
        for line in textwrap.wrap(
            meaning,
            width or sys.maxsize,
            initial_indent=f"{_GAP}{term.ljust(indent)}" if term else _GAP,
            subsequent_indent=" " * (indent + len(_GAP)) if term else _GAP,
            break_on_hyphens=False,
        )
    ]


def print_json(encoded: bytes) -> None:
    sys.stdout.write(msgspec.json.format(encoded, indent=2).decode() + "\n")
    sys.stdout.flush()


def visible(text: str) -> str:
    """Write out what cannot be seen, line by line, so that the text can stand in a page of any kind."""
    return "\n".join(plain(line) for line in text.split("\n"))


def one_line(text: str, characters_max: int) -> str:
    """Return a text on one line of bounded length, with what cannot be seen written out."""
    return cut(plain(text[: characters_max + 1]), characters_max)


def cut(text: str, characters_max: int) -> str:
    """Return a text in bounded room; that something is missing can be seen."""
    return text if len(text) <= characters_max else text[: max(0, characters_max - 2)] + " …"


def markdown(text: str) -> str:
    """Return a text for Markdown of which nothing is taken for markup: not in a table, not as HTML, not as a link.

    As a character reference a sign has no meaning but itself; and names of people are not called in code.
    """
    safe = _MARKDOWN.sub(lambda found: f"&#{ord(found[0])};", html.escape(plain(text)))
    # html.escape has made references of its own, whose signs must stay.
    safe = re.sub(r"&&#35;(x?[0-9a-f]+);", r"&#\1;", safe)
    return f"<code>{safe}</code>"


def preformatted(text: str) -> str:
    """Return lines for a `<pre>` element, in HTML or in Markdown."""
    return html.escape(visible(text))
