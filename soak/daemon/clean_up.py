"""Removing what a run wrote on servers that go on without us: its own namespace, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from soak.errors import SoakError
from soak.stores import registry
from soak.stores.protocol import StoreContext, StoreSpec

CLEAN_UP_SECONDS_MAX = 120.0


def outlives_us(spec: StoreSpec, given: Iterable[str]) -> bool:
    """Tell whether what this store wrote stays when the embedded servers are gone."""
    return not spec.needs or any(kind in given for kind in spec.needs)


async def clean_up(name: str, context: StoreContext) -> str | None:
    """Remove a store's namespace; returns what went wrong, if something did."""
    try:
        async with asyncio.timeout(CLEAN_UP_SECONDS_MAX):
            store = await registry.open_store(name, context)
            try:
                remove = getattr(store, "clean_up", None)
                if remove is None:
                    return f"{name} has no clean_up; what it wrote under {context.namespace} stays"
                await remove()
            finally:
                await store.close()
    except SoakError as error:
        return f"{name}: {context.namespace} is not removed: {error}"
    except TimeoutError:
        return f"{name}: {context.namespace} is not removed: it took longer than {CLEAN_UP_SECONDS_MAX:g}s"
    except Exception as error:  # noqa: BLE001  a user's store may raise anything; the verdict is not changed by it
        return f"{name}: {context.namespace} is not removed: {type(error).__name__}: {error}"
    return None
