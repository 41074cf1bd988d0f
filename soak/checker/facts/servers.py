"""Facts about what was done to the servers, and what they say of themselves."""

from __future__ import annotations

from soak.checker.clues import Clues, ProcessChange, Rise
from soak.checker.facts.fact import Fact, FaultRef, When, seconds
from soak.checker.telemetry import FOLDER_MARK

OFF = frozenset({"no", "off", "0", ""})
PERSISTENCE = ("appendonly", "fsync")
"""The settings that decide whether a server keeps acknowledged writes through a crash."""

IDENTITY_CHARACTERS_MAX = 12


class FaultHappened(Fact, frozen=True, kw_only=True):
    """A fault began, or was under way, after the message was acknowledged or seen, and before it was missed."""

    fault: FaultRef
    ended: int | None
    acknowledged: int | None

    def holds(self, clues: Clues) -> bool:
        window = self.fault.window(clues)
        return window is not None and window.ended == self.ended and self.acknowledged == clues.acknowledged

    def sentence(self, when: When) -> str:
        sentence = self.fault.said(when, self.ended)
        if self.acknowledged is None:
            return sentence
        after = self.fault.started - self.acknowledged
        if after >= 0:
            return f"{sentence}: it began {seconds(after)} after the acknowledgement"
        return f"{sentence}: the acknowledgement came {seconds(-after)} after it began"


class ServerRestarted(Fact, frozen=True, kw_only=True):
    """A server is another process than before, by its own words."""

    server: str
    mark: str
    before: str
    after: str
    since: int
    until: int

    def holds(self, clues: Clues) -> bool:
        change = ProcessChange(self.server, self.mark, self.before, self.after, self.since, self.until)
        return change in clues.restarts() and self.until >= clues.stood_since and self.since <= clues.read_returned

    def sentence(self, when: When) -> str:
        before, after = (text[:IDENTITY_CHARACTERS_MAX] for text in (self.before, self.after))
        changed = f"its {self.mark} changed from {before} to {after}" if before != after else f"its {self.mark} changed"
        return f"{self.server} restarted between {when(self.since)} and {when(self.until)}: {changed}"


class NoPersistence(Fact, frozen=True, kw_only=True):
    """A server was configured so that a crash takes what it has acknowledged."""

    server: str
    settings: dict[str, str]
    at: int

    def holds(self, clues: Clues) -> bool:
        return _are_configured(clues, self.server, self.settings, self.at) and any(
            self.settings.get(name, "yes") in OFF for name in PERSISTENCE
        )

    def sentence(self, when: When) -> str:
        return f"{self.server} was configured with {_settings(self.settings)}: a crash may take what it acknowledged"


class Persistence(Fact, frozen=True, kw_only=True):
    """A server was configured to keep what it acknowledges."""

    server: str
    settings: dict[str, str]
    at: int

    def holds(self, clues: Clues) -> bool:
        return _are_configured(clues, self.server, self.settings, self.at) and any(
            name in self.settings and self.settings[name] not in OFF for name in PERSISTENCE
        )

    def sentence(self, when: When) -> str:
        return f"{self.server} was configured with {_settings(self.settings)}"


class ConfigurationUnknown(Fact, frozen=True, kw_only=True):
    """No sample says how the server was configured."""

    server: str

    def holds(self, clues: Clues) -> bool:
        return all(clues.configured(self.server, name, clues.read_returned) is None for name in PERSISTENCE)

    def sentence(self, when: When) -> str:
        return f"no sample says how {self.server} was configured"


class SyncLeftToKernel(Fact, frozen=True, kw_only=True):
    """A server leaves to the kernel when its log reaches the disk."""

    server: str
    at: int

    def holds(self, clues: Clues) -> bool:
        return clues.configured(self.server, "appendfsync", self.at) == "no"

    def sentence(self, when: When) -> str:
        return f"{self.server} was configured with appendfsync=no: the kernel decides when its log reaches the disk"


class AcknowledgedWhileDown(Fact, frozen=True, kw_only=True):
    """The append began and was acknowledged while a fault kept the server down."""

    fault: FaultRef
    sent: int
    acknowledged: int

    def holds(self, clues: Clues) -> bool:
        window, attempt = self.fault.window(clues), clues.attempt
        if window is None or window.ended is None or attempt is None:
            return False
        if not window.down or window.injected is None:
            return False  # since when it was down nobody knows: a restart of its own is only noticed, others announce
        is_mine = (attempt.sent, clues.acknowledged) == (self.sent, self.acknowledged)
        return is_mine and window.injected <= self.sent and self.acknowledged <= window.ended

    def sentence(self, when: When) -> str:
        return (
            f"{self.fault.said(when)}, and was down from before the append was sent"
            f" until after it was acknowledged at {when(self.acknowledged)}"
        )


class ReplicaPromoted(Fact, frozen=True, kw_only=True):
    """A replica took the place of its primary."""

    fault: FaultRef
    lag_bytes: str | None

    def holds(self, clues: Clues) -> bool:
        window = self.fault.window(clues)
        if window is None or not window.has_promoted:
            return False
        return window.telemetry.get("replication_lag_bytes") == self.lag_bytes

    def sentence(self, when: When) -> str:
        behind = "" if self.lag_bytes is None else f"; it was {self.lag_bytes} bytes behind before"
        return f"a replica of {self.fault.server} was promoted{behind}"


class OtherVersionStarted(Fact, frozen=True, kw_only=True):
    """Another version of a server was started on the same data."""

    fault: FaultRef
    keys_after: str | None

    def holds(self, clues: Clues) -> bool:
        window = self.fault.window(clues)
        is_other = self.fault.kind in {"upgrade", "downgrade"}
        return window is not None and is_other and window.telemetry_after.get("keys") == self.keys_after

    def sentence(self, when: When) -> str:
        keys = "" if self.keys_after is None else f", and had {self.keys_after} keys when the fault was over"
        return f"another version of {self.fault.server} was started on its data{keys}"


class FilesChanged(Fact, frozen=True, kw_only=True):
    """Bytes in a server's files were changed while it was stopped."""

    fault: FaultRef

    def holds(self, clues: Clues) -> bool:
        window = self.fault.window(clues)
        return window is not None and self.fault.kind in {"file_corruption", "aof_truncation"}

    def sentence(self, when: When) -> str:
        return f"{self.fault.said(when)}: soak changed its files while it was stopped"


class OtherDataFolder(Fact, frozen=True, kw_only=True):
    """A server came back with another data folder than it had before."""

    fault: FaultRef

    def holds(self, clues: Clues) -> bool:
        window = self.fault.window(clues)
        if window is None:
            return False
        marks = window.telemetry.get(FOLDER_MARK), window.telemetry_after.get(FOLDER_MARK)
        return None not in marks and marks[0] != marks[1]

    def sentence(self, when: When) -> str:
        return f"{self.fault.server} came back with another data folder than before"


class NoSurvivorKnown(Fact, frozen=True, kw_only=True):
    """No message is known that was acknowledged before a fault and outlived it."""

    fault: FaultRef

    def holds(self, clues: Clues) -> bool:
        window = self.fault.window(clues)
        return window is not None and clues.outlived(window) == 0

    def sentence(self, when: When) -> str:
        return "no message is known that was acknowledged shortly before the fault and outlived it"


class EarlierSurvived(Fact, frozen=True, kw_only=True):
    """A message that was sent before a fault outlived it."""

    fault: FaultRef
    sent: int

    def holds(self, clues: Clues) -> bool:
        window = self.fault.window(clues)
        return window is not None and 0 < clues.outlived(window) == self.sent

    def sentence(self, when: When) -> str:
        return f"a message sent at {when(self.sent)} was applied before the fault took effect, and outlived it"


class HoleInTail(Fact, frozen=True, kw_only=True):
    """Something that was sent after its acknowledgement outlived a fault that it did not."""

    fault: FaultRef
    acknowledged: int
    sent: int

    def holds(self, clues: Clues) -> bool:
        window = self.fault.window(clues)
        is_so = window is not None and self.sent == clues.outlived(window)
        return is_so and clues.acknowledged is not None and clues.acknowledged == self.acknowledged < self.sent

    def sentence(self, when: When) -> str:
        return (
            f"a message that was sent at {when(self.sent)}, after this one was acknowledged at"
            f" {when(self.acknowledged)}, outlived the fault: it is a hole, and no tail"
        )


class TimeToLiveChanged(Fact, frozen=True, kw_only=True):
    """The time to live of a server's keys was changed while the message was there."""

    server: str
    started: int

    def holds(self, clues: Clues) -> bool:
        window = FaultRef(self.server, "ttl_change", self.started).window(clues)
        return window is not None and clues.stood_since <= (window.ended or window.started) <= clues.read_returned

    def sentence(self, when: When) -> str:
        return f"soak changed the time to live of the keys of {self.server} at {when(self.started)}"


class CounterRose(Fact, frozen=True, kw_only=True):
    """A server counted that it removed keys."""

    server: str
    counter: str
    before: int
    after: int
    since: int
    until: int

    def holds(self, clues: Clues) -> bool:
        rise = self.rise
        return rise.by > 0 and rise in (clues.rises(self.counter) or [])

    @property
    def rise(self) -> Rise:
        return Rise(self.server, self.counter, self.before, self.after, self.since, self.until)

    def sentence(self, when: When) -> str:
        span = f"between {when(self.since)} and {when(self.until)}"
        if self.after < self.before:
            return f"{self.server} began to count anew {span}, and counted {self.after} {self.counter}"
        return f"{self.server} counted {self.after - self.before} {self.counter} {span}"


class NotCounted(Fact, frozen=True, kw_only=True):
    """No server counts the keys that expire."""

    counter: str

    def holds(self, clues: Clues) -> bool:
        return clues.rises(self.counter) is None

    def sentence(self, when: When) -> str:
        return f"no sample of the servers has {self.counter}"


def _settings(settings: dict[str, str]) -> str:
    return ", ".join(
        f'{name}="{value}"' if " " in value or not value else f"{name}={value}" for name, value in settings.items()
    )


def _are_configured(clues: Clues, server: str, settings: dict[str, str], at: int) -> bool:
    return bool(settings) and all(clues.configured(server, name, at) == value for name, value in settings.items())
