"""A process that breaks one of its servers and then stands still, until somebody kills it."""

from __future__ import annotations

import asyncio
import json
import pkgutil
import sys
from pathlib import Path
from typing import Any

from soak.faults import ALL, during
from soak.servers.local import LocalServers
from tests.support.servers.breaking import journalled

READY = "broken"
HOLD_SECONDS = 600.0


async def stand_still(*_: object) -> None:
    print(READY, flush=True)
    await asyncio.sleep(HOLD_SECONDS)


async def main(folder: Path, name: str, target: str, options: dict[str, Any], stop_at: str) -> None:
    servers = LocalServers(folder, **options)
    has_replica = target == "postgres" and "failover" in name
    urls = await servers.start(["ledger", target, *(["postgres-replica"] if has_replica else [])])
    servers.namespace = "run"
    if stop_at:
        module, function = stop_at.rsplit(".", 1)
        setattr(pkgutil.resolve_name(module), function, stand_still)
    async with journalled(urls["ledger"]) as run:
        window = asyncio.create_task(during(ALL[name], servers, target, run.journal, HOLD_SECONDS))
        if not stop_at:
            holding = asyncio.sleep

            async def told(seconds: float) -> None:
                if seconds == HOLD_SECONDS:
                    print(READY, flush=True)
                await holding(seconds)

            asyncio.sleep = told  # type: ignore[assignment]  # the hold begins when the fault has been injected
        await window


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], json.loads(sys.argv[4]), sys.argv[5]))
