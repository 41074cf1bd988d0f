"""The table every benchmark prints: what was measured, against which baseline of the same run, and the ratio."""

from __future__ import annotations

from typing import NamedTuple


class Row(NamedTuple):
    """One measurement."""

    what: str
    value: float
    baseline: float
    against: str
    target: str


def print_rows(title: str, rows: list[Row]) -> None:
    width = max(len(row.what) for row in rows)
    print(f"\n{title}")
    for row in rows:
        ratio = row.value / row.baseline if row.baseline else float("nan")
        print(
            f"  {row.what:<{width}}  {row.value:>14,.1f}  {ratio:>8.2f} x  "
            f"of {row.against} ({row.baseline:,.1f})" + (f"   target {row.target}" if row.target else "")
        )
