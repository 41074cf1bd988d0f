"""The terminal while a soak runs: a live panel, or a line every few seconds where it is no terminal."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from typing import Protocol, TextIO

import msgspec
from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from soak.api.status import SoakStatus, VerifierStatus
from soak.duration import format_seconds
from soak.masking import mask

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
    def has_begun(self) -> bool:
        """Whether the verifier has ever answered."""
        return bool(self._points)

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


_STALLED_SECONDS = 5.0


class DrainProgress:
    """How many sessions are still to be read at the end, and about how long that takes."""

    def __init__(self) -> None:
        self._first: tuple[float, int] | None = None
        self._last: tuple[float, int] = (0.0, 0)
        self._moved_seconds = 0.0

    def note(self, snapshot: SoakStatus) -> None:
        verifier = snapshot.verifier
        if snapshot.phase != "draining" or verifier is None or verifier.state != "draining":
            return
        if verifier.sessions_left != self._last[1]:
            self._moved_seconds = snapshot.uptime_seconds
        self._last = (snapshot.uptime_seconds, verifier.sessions_left)
        # The verifier counts anew when it begins: only what falls from then on is progress.
        if self._first is None or verifier.sessions_left > self._first[1]:
            self._first = self._last

    @property
    def text(self) -> str:
        """What is left, for a line; empty before the last sweep and at its end."""
        if self._first is None or not self._last[1]:
            return ""
        left = f"{self._last[1]:,} session{'' if self._last[1] == 1 else 's'} left to read"
        seconds, read = self._last[0] - self._first[0], self._first[1] - self._last[1]
        still = self._last[0] - self._moved_seconds
        if still >= _STALLED_SECONDS:  # an estimate from earlier progress would only grow
            return f"{left}, none read for {format_seconds(round(still))}"
        return f"{left}, about {format_seconds(max(1, round(self._last[1] * seconds / read)))}" if read else left


PLAIN_INTERVAL_SECONDS = 5.0
DRAIN_INTERVAL_SECONDS = 2.0
START_INTERVAL_SECONDS = 5.0
FINDINGS_SHOWN = 3
ERRORS_SHOWN = 3
SAID_MAX = 500
"""Lines in which a warning is looked for before it is said again."""
_STARTING = "starting …"


class View(Protocol):
    """Shows how the soak goes."""

    def say(self, text: str) -> None:
        """Show an event."""

    def offer(self, text: str) -> None:
        """Show a secret to the person at the terminal; where there is no terminal, to nobody."""

    def show(self, snapshot: SoakStatus) -> None:
        """Show the state; called about every second."""

    def close(self) -> None:
        """Leave the terminal as it was."""


class PlainView:
    """One line for each event, and one every few seconds for how it goes."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._rates = Rates()
        self._drain = DrainProgress()
        self._shown_at = time.monotonic()
        self._said: deque[str] = deque(maxlen=SAID_MAX)

    def say(self, text: str) -> None:
        self._said.append(text)
        # Whoever read it may have left (`soak run | head`); the soak goes on all the same.
        with contextlib.suppress(OSError, ValueError):
            print(f"{time.strftime('%H:%M:%S')} {mask(text)}", file=self._stream, flush=True)

    def offer(self, text: str) -> None:
        """Say nothing: lines are kept in files and shown in logs."""

    def show(self, snapshot: SoakStatus) -> None:
        self._rates.note(snapshot)
        self._drain.note(snapshot)
        now = time.monotonic()
        interval = DRAIN_INTERVAL_SECONDS if self._drain.text else PLAIN_INTERVAL_SECONDS
        if snapshot.phase in {"running", "draining"} and now - self._shown_at >= interval:
            self._shown_at = now
            self.say("  ".join(filter(None, (status_line(self._news(snapshot), self._rates), self._drain.text))))
        elif snapshot.phase == "starting" and now - self._shown_at >= START_INTERVAL_SECONDS:
            self._shown_at = now
            awaited = ", ".join(server.kind for server in snapshot.servers if not server.is_up)
            self.say(f"still starting {f'servers: {awaited}' if awaited else '…'}")

    def _news(self, snapshot: SoakStatus) -> SoakStatus:
        """Leave out the warnings that stand in a line above, but for their number: one may be longer than the line."""
        fresh = [warning for warning in snapshot.warnings if not any(warning in text for text in self._said)]
        told = len(snapshot.warnings) - len(fresh)
        above = [f"{told} warning{'' if told == 1 else 's'} as above"] if told else []
        return msgspec.structs.replace(snapshot, warnings=[*fresh, *above])

    def close(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._stream.flush()


class LiveView:
    """A panel that is redrawn every second; events scroll above it."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._rates = Rates()
        self._drain = DrainProgress()
        self._known: VerifierStatus | None = None
        """The last that the verifier said: what was verified and found stays so when it does not answer any more."""
        self._live = Live(Text(_STARTING), console=console, refresh_per_second=2, transient=True)
        self._live.start()

    def say(self, text: str) -> None:
        with contextlib.suppress(OSError):  # the terminal may be gone
            self._live.console.print(f"[dim]{time.strftime('%H:%M:%S')}[/dim] {escape(mask(text))}", highlight=False)

    def offer(self, text: str) -> None:
        self.say(text)

    def show(self, snapshot: SoakStatus) -> None:
        self._rates.note(snapshot)
        self._drain.note(snapshot)
        below = [Text(f"draining: {self._drain.text}")] if self._drain.text else []
        if snapshot.verifier is not None:
            self._known = snapshot.verifier
        elif self._known is not None:
            below.append(Text(f"{_silence(snapshot, self._rates)}; its numbers are the last it gave", style="yellow"))
            snapshot = msgspec.structs.replace(snapshot, verifier=self._known)
        with contextlib.suppress(OSError):
            self._live.update(Group(panel(snapshot, self._rates), *below))

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._live.stop()


def status_line(snapshot: SoakStatus, rates: Rates) -> str:
    """Return the whole status in one line."""
    totals = snapshot.totals
    if snapshot.verifier is None:
        text = f"{snapshot.phase}, {_silence(snapshot, rates)}"
    else:
        text = (
            f"{snapshot.phase}  appended {rates.appended:,.0f}/s  read {rates.read:,.0f}/s  "
            f"verified {totals.verified:,} of {totals.acknowledged:,}  "
            f"violations {_violations(snapshot)}  tolerated {totals.tolerated:,}  "
            f"lag {_seconds(snapshot.verifier.ledger_lag_seconds)}"
        )
    if snapshot.faults_active:
        text += f"  faults: {', '.join(snapshot.faults_active)}"
    if trouble := _trouble(snapshot):
        text += f"  ({'; '.join(trouble)})"
    return text


def _silence(snapshot: SoakStatus, rates: Rates) -> str:
    """Say what it means that the verifier does not answer."""
    if snapshot.phase == "draining":
        return "waiting for the verdict"
    return "the verifier does not answer" if rates.has_begun else "the verifier is starting"


def panel(snapshot: SoakStatus, rates: Rates) -> Group:
    """Draw the state as a table, with what needs attention below it."""
    is_bounded = snapshot.remaining_seconds is not None and snapshot.phase == "running"
    left = f", ends in {format_seconds(snapshot.remaining_seconds or 0.0)}" if is_bounded else ""
    title = f"soak {snapshot.run}  {snapshot.phase}, up {format_seconds(snapshot.uptime_seconds)}{left}"
    table = Table(title=title, title_justify="left", show_header=False, box=None, padding=(0, 2, 0, 0))
    for row in _rows(snapshot, rates):
        table.add_row(*row)
    below = [Text(f"! {mask(warning)}", style="yellow") for warning in snapshot.warnings]
    below += [Text(mask(line), style="yellow") for line in snapshot.store_errors()[:ERRORS_SHOWN]]
    below += [Text(mask(finding), style="red") for finding in _findings(snapshot)]
    return Group(table, *below)


def _rows(snapshot: SoakStatus, rates: Rates) -> list[tuple[str, str]]:
    totals, verifier = snapshot.totals, snapshot.verifier
    colour = "bold red" if totals.violations else "green"
    attempts = "  ".join(f"{word} {totals.attempts.get(word, 0):,}" for word in ("ok", "failed", "unknown"))
    oldest = _seconds(None if verifier is None else verifier.oldest_unverified_seconds)
    lag = _seconds(None if verifier is None else verifier.ledger_lag_seconds)
    children = [_mark(child.name, child.state == "running", child.restarts) for child in snapshot.children]
    servers = [_mark(server.kind, server.is_up, server.restarts) for server in snapshot.servers]
    return [
        ("stores", escape(", ".join(snapshot.stores))),
        ("appends", f"{rates.appended:,.0f}/s  {attempts}"),
        ("reads", f"{rates.read:,.0f}/s"),
        ("verified", f"{totals.verified:,} of {totals.acknowledged:,} acknowledged"),
        ("violations", f"[{colour}]{_violations(snapshot)}[/]  tolerated {totals.tolerated:,}"),
        ("lag", f"ledger {lag}  oldest unverified {oldest}"),
        ("faults", _faults(snapshot)),
        ("children", "  ".join(children)),
        ("servers", "  ".join(servers)),
        ("page", f"{snapshot.http_address}/"),
    ]


def _faults(snapshot: SoakStatus) -> str:
    text = ", ".join(snapshot.faults_active) or "none"
    planned = snapshot.fault_next
    if planned is None:
        return text
    when = f"in {format_seconds(planned.in_seconds)}" if planned.in_seconds > 0 else "waiting for another fault to end"
    return f"{text}  next: {planned.name} of {planned.target} {when}"


def _mark(name: str, up: bool, restarts: int) -> str:  # noqa: FBT001  a row of three plain facts
    again = f" ({restarts} restarts)" if restarts else ""
    return f"[{'green' if up else 'red'}]{escape(name)}[/]{again}"


def _trouble(snapshot: SoakStatus) -> list[str]:
    restarts = [f"{child.name} restarted {child.restarts}x" for child in snapshot.children if child.restarts]
    down = snapshot.not_ready if snapshot.phase == "running" and snapshot.verifier is not None else []
    return [*restarts, *down, *snapshot.warnings]


def _violations(snapshot: SoakStatus) -> str:
    findings = 0 if snapshot.verifier is None else len(snapshot.verifier.findings)
    return f"{snapshot.totals.violations:,}" + (
        f" in {findings} finding{'' if findings == 1 else 's'}" if findings else ""
    )


def _findings(snapshot: SoakStatus) -> list[str]:
    found = [] if snapshot.verifier is None else snapshot.verifier.findings
    shown = [one.headline for one in found[:FINDINGS_SHOWN]]
    return shown + ([f"and {len(found) - FINDINGS_SHOWN} more findings"] if len(found) > FINDINGS_SHOWN else [])


def _seconds(value: float | None) -> str:
    return "-" if value is None else format_seconds(value)
