"""Memories behind HTTP: the stores of flaws that are services, each in a process of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Self

import msgspec

from soak.flaws.flaw import FlawSetup, store_of
from soak.scenarios.scenario import ScenarioFault, ServerSetup
from soak.servers.kinds import HTTP
from soak.stores import StoreContext
from soak.stores.http import HttpStore

SERVICES = Path(__file__).with_name("services")


class Served(HttpStore):
    """Speaks with the wrong one."""


class ServedTwin(HttpStore):
    """Speaks with the right one, which the same process serves at another path."""

    @classmethod
    async def open(cls, context: StoreContext) -> Self:
        servers = {**context.servers, HTTP.name: context.servers[HTTP.name] + "/twin"}
        return await super().open(msgspec.structs.replace(context, servers=servers))


def same_service(name: str, fault: ScenarioFault | None = None) -> tuple[FlawSetup, FlawSetup]:
    """Set up the wrong and the right memory of one service, under one and the same fault."""
    return (
        FlawSetup(store=store_of(Served), servers=ServerSetup(service=name), fault=fault),
        FlawSetup(store=store_of(ServedTwin), servers=ServerSetup(service=name), fault=fault),
    )
