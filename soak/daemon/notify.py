"""Telling the service manager how the daemon is: datagrams to the socket that systemd names in the environment.

`READY=1` is said once everything is up, `STOPPING=1` when the end begins. `WATCHDOG=1` is said only while the verifier
makes progress: a daemon that answers while nobody verifies is the failure a watchdog is for.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Mapping

from soak.api.status import SoakStatus

SOCKET_VARIABLE = "NOTIFY_SOCKET"
WATCHDOG_VARIABLE = "WATCHDOG_USEC"
WATCHDOG_PID_VARIABLE = "WATCHDOG_PID"
INTERVAL_SECONDS_MAX = 5.0
"""A status line is never older than this."""
WATCHDOG_SHARE = 0.25
"""Of the time that systemd waits for a sign of life: so many lost or late ones in a row do no harm."""
STATUS_CHARACTERS_MAX = 200


class Notifier:
    """Sends to the service manager, if there is one; what cannot be sent is lost, and nothing else happens."""

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        environ = os.environ if environ is None else environ
        self._address = _address(environ.get(SOCKET_VARIABLE, ""))
        self.watchdog_seconds = _watchdog_seconds(environ)
        self._socket: socket.socket | None = None

    @property
    def is_listened_to(self) -> bool:
        return self._address is not None

    @property
    def interval_seconds(self) -> float:
        if self.watchdog_seconds is None:
            return INTERVAL_SECONDS_MAX
        return min(INTERVAL_SECONDS_MAX, self.watchdog_seconds * WATCHDOG_SHARE)

    def send(self, **fields: str) -> bool:
        """Send fields such as `READY="1"`; returns whether they were taken."""
        if self._address is None:
            return False
        lines = "\n".join(f"{name}={' '.join(value.split())[:STATUS_CHARACTERS_MAX]}" for name, value in fields.items())
        try:
            if self._socket is None:
                self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
                self._socket.settimeout(0)
            self._socket.sendto(lines.encode(), self._address)
        except OSError:
            return False  # full, or gone: the next one may get through
        return True

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


class VerifierTurns:
    """Whether the verifier's loop goes round: its count of turns, seen to rise."""

    def __init__(self) -> None:
        self._last: tuple[int, int] | None = None

    def is_seen(self, snapshot: SoakStatus) -> bool:
        """Return whether the verifier answered now, and made a turn since it was last asked."""
        pid = next((child.pid for child in snapshot.children if child.name == "verifier"), None)
        turns = None if snapshot.verifier is None else snapshot.verifier.turns
        if pid is None or turns is None:
            return False
        before, self._last = self._last, (pid, turns)
        # One that has just replaced another starts to count from zero.
        return before is None or before[0] != pid or turns > before[1]


async def keep_notified(notifier: Notifier, ask: Callable[[], Awaitable[SoakStatus]]) -> None:
    """Report the state until cancelled; nothing where no service manager listens."""
    if not notifier.is_listened_to:
        return
    progress = VerifierTurns()
    is_ready = False
    while True:
        snapshot = await ask()
        fields = {"STATUS": status_line(snapshot)}
        if not is_ready and not snapshot.not_ready:
            fields["READY"] = "1"
            is_ready = True
        if notifier.watchdog_seconds is not None and progress.is_seen(snapshot):
            fields["WATCHDOG"] = "1"
        notifier.send(**fields)
        await asyncio.sleep(notifier.interval_seconds)


def status_line(snapshot: SoakStatus) -> str:
    """Say in one line what `systemctl status` shows."""
    if snapshot.phase == "starting":
        return f"run {snapshot.run} starts: {', '.join(snapshot.not_ready)}"
    counts = (
        f"run {snapshot.run} {snapshot.phase} on {', '.join(snapshot.stores)}: "
        f"{snapshot.totals.verified:,} of {snapshot.totals.acknowledged:,} verified, "
        f"{snapshot.totals.violations:,} violations"
    )
    faults = f"; broken: {', '.join(snapshot.faults_active)}" if snapshot.faults_active else ""
    silent = "" if snapshot.verifier is not None else "; the verifier does not answer"
    return counts + faults + silent


def _address(text: str) -> str | None:
    if text.startswith("@"):
        return "\0" + text[1:]  # an abstract name, as Linux writes it
    return text if text.startswith("/") else None


def _watchdog_seconds(environ: Mapping[str, str]) -> float | None:
    meant_for = environ.get(WATCHDOG_PID_VARIABLE, "")
    try:
        seconds = int(environ.get(WATCHDOG_VARIABLE, "0")) / 1e6
        if meant_for and int(meant_for) != os.getpid():
            return None
    except ValueError:
        return None
    return seconds if seconds > 0 else None
