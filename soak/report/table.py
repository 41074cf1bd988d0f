"""Plain tables and JSON on standard output: columns line up and lines can be searched."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import msgspec


def table_lines(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Line up the columns of a table; the last one is as wide as it needs to be."""
    every = [list(heads), *(list(row) for row in rows)]
    widths = [max(len(row[column]) for row in every) for column in range(len(heads))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in every]


def plain(text: str) -> str:
    """Write out what cannot be seen, so that nothing read back from a store can move the cursor of a terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def print_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    sys.stdout.write("\n".join(table_lines(heads, rows)) + "\n")


def print_json(encoded: bytes) -> None:
    sys.stdout.write(msgspec.json.format(encoded, indent=2).decode() + "\n")
    sys.stdout.flush()
