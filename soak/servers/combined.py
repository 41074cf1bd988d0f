"""Several testbeds as one: servers here, servers in Docker and servers that were given, in the same soak."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from soak.errors import UsageError
from soak.servers.bed import BedKind, Testbed, in_order
from soak.servers.server import Server


class CombinedTestbed:
    """Passes everything on to the testbed that has the server."""

    kind = BedKind.COMBINED

    def __init__(self, parts: Mapping[str, Testbed]) -> None:
        """Take each kind of server from the testbed that is named for it."""
        self.namespace: str | None = None
        self._parts = parts
        self._beds = list({id(bed): bed for bed in parts.values()}.values())

    @property
    def servers(self) -> Mapping[str, Server]:
        return {kind: server for bed in self._beds for kind, server in bed.servers.items()}

    @property
    def no_power_cuts(self) -> str | None:
        # One that can is enough: what has no power of its own says so itself.
        reasons = [bed.no_power_cuts for bed in self._beds]
        return None if None in reasons else reasons[-1]

    async def start(self, kinds: Iterable[str]) -> dict[str, str]:
        wanted = in_order(kinds)
        if missing := [kind for kind in wanted if kind not in self._parts]:
            raise UsageError(f"no testbed has a server of kind {', '.join(missing)}")
        started: list[Testbed] = []
        try:
            for bed in self._beds:
                if own := [kind for kind in wanted if self._parts[kind] is bed]:
                    started.append(bed)
                    await bed.start(own)
        except BaseException:
            for bed in started:
                await bed.stop()
            raise
        return {kind: server.url for kind, server in self.servers.items()}

    async def stop(self) -> None:
        problems: list[BaseException] = []
        for bed in self._beds:
            try:
                await bed.stop()
            except Exception as error:  # noqa: BLE001  the others are stopped all the same
                problems.append(error)
        if problems:
            raise problems[0]

    async def discard(self) -> None:
        for bed in self._beds:
            await bed.discard()

    async def telemetry(self, kind: str) -> dict[str, str]:
        return await self._parts[kind].telemetry(kind)

    def refuses(self, fault: str, target: str) -> str | None:
        bed = self._parts.get(target)
        return bed.refuses(fault, target) if bed is not None else None
