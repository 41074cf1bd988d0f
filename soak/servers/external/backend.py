"""What a server that was given runs in: known by its address, and left alone unless its operator allows more."""

from __future__ import annotations

import asyncio
import shlex
from io import BufferedWriter
from pathlib import Path

from soak.errors import ServerUnreachableError, UsageError
from soak.proc.spawn import AsyncProcess, start_async
from soak.proc.tree import kill_group, last_words
from soak.servers.backend import HandsOffBackend
from soak.servers.kinds import ServerKind
from soak.servers.server import ServerState

OTHERS = "its address was given, so others may be using it"
RESTART = "restart"
CONNECTION_EXHAUSTION = "connection_exhaustion"
CONFIGURING = frozenset({"eviction"})
"""Faults that change the settings of the server."""
PATRONI_CHANGES = frozenset({"patroni_switchover", "patroni_failover"})
FAILOVERS = frozenset(
    {
        *("sentinel_failover", "coordinated_failover"),
        *("cluster_failover", "cluster_failover_force", "cluster_takeover"),
        *PATRONI_CHANGES,
    }
)
"""Faults that ask a group to replace its primary."""
OVER_THE_WIRE = FAILOVERS | {
    *(CONNECTION_EXHAUSTION, "eviction", "replica_lag", "sqlite_lock", "ttl_change", "writer_crash")
}
"""Faults that need nothing but a connection, or happen to processes of ours."""
IN_THE_WAY = frozenset({"partition", "connection_refused", "connection_reset", "latency", "slow_link", "dropped_reply"})
"""Faults that happen between our clients and the server, in a proxy of ours: its other users notice nothing."""

IN_ITS_CONTAINER = frozenset({"restart", "crash", "pause", "restart_from_aof", "shutdown_nosave"})
"""Faults that need nothing but the container."""
IN_ITS_WORKLOAD = frozenset({"pod_delete", "pod_evict", "policy_partition", "rollout_restart", "scale_to_zero"})
"""Faults of a server in Kubernetes, through its API."""


class Allowance:
    """What the operator of given servers lets happen to them."""

    def __init__(self, faults: frozenset[str], restart: OperatorCommand | None) -> None:
        self.faults = faults
        self.restart = restart

    @property
    def wants_proxies(self) -> bool:
        return bool(self.faults & IN_THE_WAY)

    def refuses(self, fault: str) -> str | None:
        """Return why this fault must not happen; None if it may."""
        possible = {RESTART, *OVER_THE_WIRE, *IN_THE_WAY}
        # First what allowing it would not change.
        if fault not in possible | IN_ITS_WORKLOAD:
            instead = ", or whose container testbed.containers names"
            instead = instead if fault in IN_ITS_CONTAINER else f"; possible here are {', '.join(sorted(possible))}"
            return f"{OTHERS}; {fault} is for servers that soak starts{instead}"
        if fault not in self.faults:
            return f"{OTHERS}; to allow it: --set testbed.allow_faults={fault}"
        if fault == RESTART and self.restart is None:
            return "testbed.restart_command does not say how it is restarted"
        if fault in IN_ITS_WORKLOAD:
            return "its workload is not named; set testbed.workloads to NAMESPACE/statefulset/NAME"
        return None


class ExternalBackend(HandsOffBackend):
    """What is the same wherever a given server lives: its data and its power are not ours."""

    is_ours = False
    answer_seconds_max = 5.0
    allowance: Allowance

    @property
    def working_folder(self) -> Path:
        raise UsageError(f"the data of {self.title} is not ours: {OTHERS}")

    @property
    def no_power_cut(self) -> str | None:
        return OTHERS

    def refuses_fault(self, fault: str) -> str | None:
        return self.allowance.refuses(fault)

    def refuses(self, what: str) -> str | None:
        if what == "configured" and not self.allowance.faults & CONFIGURING:
            return f"{OTHERS}; see testbed.allow_faults"
        return None

    async def open(self) -> ServerState:
        """Look at the server as it is, before anything else; raises `SoakError` if it cannot be what is meant."""
        return ServerState.RUNNING

    async def close(self) -> None:
        """Give up what was needed to look at it."""


class OperatorBackend(ExternalBackend):
    """A given server that can be restarted by its operator's command, and nothing else."""

    restarts_elsewhere = True

    def __init__(self, kind: ServerKind, url: str, folder: Path, allowance: Allowance) -> None:
        # What the operator's command said goes to the log.
        super().__init__(f"the given {kind.name} server", folder, {}, log_name=f"{kind.name}.log")
        self.url = url
        self.allowance = allowance
        self._name = kind.name

    def refuses(self, what: str) -> str | None:
        if what == "configured":
            return super().refuses(what)
        if what == "stopped":
            return self.allowance.refuses(RESTART)
        return f"{OTHERS}, and its processes and its disk are not ours"

    async def end(self, seconds: float) -> None:
        del seconds
        if self.allowance.restart is not None:
            await self.allowance.restart.run(self._name, self.log_path)


# -- a command of the operator, such as `kubectl rollout restart statefulset/{server}`: run without a shell --


SECONDS_MAX = 300.0
LOG_BYTES_MAX = 2**20
PLACEHOLDER = "{server}"


class OperatorCommand:
    """One command line, in which `{server}` is replaced by the kind of server."""

    def __init__(self, text: str, seconds_max: float = SECONDS_MAX) -> None:
        try:
            self._words = shlex.split(text)
        except ValueError as error:
            raise UsageError(f"the command {text!r} is not understood ({error}); quote it as for a shell") from None
        if not self._words:
            raise UsageError("the command is empty; leave it out instead")
        self._seconds_max = seconds_max
        self.names_the_server = PLACEHOLDER in text

    async def run(self, kind: str, log: Path) -> None:
        """Run it to its end, with what it says in the log; raises `ServerUnreachableError` if it fails."""
        words = [word.replace(PLACEHOLDER, kind) for word in self._words]
        shown = shlex.join(words)
        with _opened(log) as output:
            output.write(f"$ {shown}\n".encode())
            output.flush()
            start = output.tell()
            try:
                running = await start_async(words, stdout=output, stderr=output)
            except OSError as error:
                raise ServerUnreachableError(
                    f"{shown} cannot be run ({error.strerror}); mend testbed.restart_command"
                ) from error
        code = await self._ended(running)
        if code != 0:
            how = f"exit status {code}" if code is not None else f"it took longer than {self._seconds_max:.0f} s"
            words_last = last_words(log, start) or "it said nothing"
            raise ServerUnreachableError(f"{shown} failed ({how}): {words_last} (log: {log})")

    async def _ended(self, running: AsyncProcess) -> int | None:
        try:
            async with asyncio.timeout(self._seconds_max):
                return await running.wait()
        except TimeoutError:
            return None
        finally:
            if running.returncode is None:
                kill_group(running.pid)
                await running.wait()


def _opened(log: Path) -> BufferedWriter:
    log.parent.mkdir(parents=True, exist_ok=True)
    if log.exists() and log.stat().st_size > LOG_BYTES_MAX:
        log.replace(log.with_suffix(".log.1"))
    return log.open("ab")
