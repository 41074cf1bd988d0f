"""The series of a run on disk: a line for each point, appended as it is measured: a kill takes the last at most.

The first line names the run and its stores. When the file has grown too large it is written anew from the merged
points, in one step.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from soak.json_input import decode_json
from soak.proc.files import replacing
from soak.report.series import Point, Series

FILE_NAME = "series.jsonl"
SCHEMA = 1
FILE_BYTES_MAX = 4 * 1024 * 1024
"""At this size it is written anew; of a store's points no more than `POINTS_MAX` remain, about 200 KB."""
FILE_READ_BYTES_MAX = 16 * FILE_BYTES_MAX
DECIMALS = 6


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """The first line."""

    schema: int
    run: str
    stores: list[str]


class SeriesFile:
    """Appends points, and keeps the file small."""

    def __init__(self, path: Path, run: str, stores: list[str]) -> None:
        self._path = path
        self._head = Head(schema=SCHEMA, run=run, stores=stores)
        self._bytes_max = FILE_BYTES_MAX

    def open(self) -> dict[str, Series]:
        """Return what was recorded of this run, and write it anew: the last line may have been cut off."""
        series = read_series(self._path, self._head.run, self._head.stores)
        self.rewrite({store: one.points for store, one in series.items()})
        return series

    def append(self, points: Mapping[str, Point]) -> bool:
        """Write these down; returns whether the file has become too large. Raises OSError."""
        lines = b"".join(self._line(store, point) for store, point in points.items())
        with self._path.open("ab") as file:
            file.write(lines)
            size = file.tell()
        return size > self._bytes_max

    def rewrite(self, points: Mapping[str, Iterable[Point]]) -> None:
        """Write the merged points in place of all that were measured. Raises OSError."""
        with replacing(self._path, mode=0o644, is_synced=False) as file:
            file.write(msgspec.json.encode(self._head) + b"\n")
            for store, ones in points.items():
                file.writelines(self._line(store, one) for one in ones)
            # With many stores even what is merged may fill the file: it must not be written anew every second.
            self._bytes_max = max(FILE_BYTES_MAX, 2 * file.tell())

    def _line(self, store: str, point: Point) -> bytes:
        values = (_short(value) for value in msgspec.structs.astuple(point))
        # Each begins a line of its own, also where the one before was cut off by a disk that was full.
        return b"\n" + msgspec.json.encode([self._head.stores.index(store), *values])


def read_series(path: Path, run: str, stores: list[str] | None = None) -> dict[str, Series]:
    """Return the series of each store of this run; empty ones where nothing, or nothing of this run, was recorded.

    Lines that were cut off or damaged are left out.
    """
    series = {store: Series() for store in stores or []}
    try:
        with path.open("rb") as file:
            head = decode_json(file.readline(), type=Head)
            if head.schema != SCHEMA or head.run != run:
                return series
            lines = file.read(FILE_READ_BYTES_MAX).splitlines()
    except (OSError, msgspec.MsgspecError):
        return series
    series |= {store: Series() for store in head.stores if store not in series}
    for line in filter(None, lines):
        with contextlib.suppress(msgspec.MsgspecError, IndexError, ValueError):
            number, *values = decode_json(line, type=list[int | float | None])
            series[head.stores[int(number or 0)]].add(_point(values))
    return series


def _point(values: list[int | float | None]) -> Point:
    return msgspec.convert(dict(zip(Point.__struct_fields__, values, strict=True)), type=Point)


def _short(value: float | None) -> float | None:
    return round(value, DECIMALS) if isinstance(value, float) else value
