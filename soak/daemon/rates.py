"""How fast it goes: the growth of the verifier's totals over the last seconds."""

from __future__ import annotations

from collections import deque

from soak.api.status import SoakStatus

WINDOW_SNAPSHOTS = 6


class Rates:
    """Remembers a few snapshots; the rate is taken between the oldest and the newest of them."""

    def __init__(self) -> None:
        self._points: deque[tuple[float, float, float]] = deque(maxlen=WINDOW_SNAPSHOTS)

    def note(self, snapshot: SoakStatus) -> None:
        if snapshot.verifier is not None:
            totals = snapshot.totals
            self._points.append((snapshot.uptime_seconds, totals.acknowledged, totals.reads))

    @property
    def appended(self) -> float:
        """Acknowledged appends per second."""
        return self._growth(1)

    @property
    def read(self) -> float:
        """Reads per second."""
        return self._growth(2)

    def _growth(self, column: int) -> float:
        if len(self._points) < 2:
            return 0.0
        first, last = self._points[0], self._points[-1]
        seconds = last[0] - first[0]
        return max(0.0, (last[column] - first[column]) / seconds) if seconds > 0 else 0.0
