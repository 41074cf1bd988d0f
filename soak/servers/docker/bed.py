"""The servers under test of one data folder, as containers that the next start finds again."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import docker.errors

from soak.errors import ServerUnreachableError, UsageError
from soak.servers.bed import FOLDER_NAME, LEDGER, POSTGRES, BedKind
from soak.servers.docker import ownership
from soak.servers.docker.container import ContainerVessel, Place
from soak.servers.docker.engine import FAILURES, connect, no_disks_in, one_line
from soak.servers.docker.recipes import PostgresRecipe, RedisRecipe, ReplicaRecipe
from soak.servers.docker.servers import ContainedPostgres, ContainedRedis, ContainedReplica
from soak.servers.own import ManagedServers
from soak.servers.power_cut import (
    SIZE_DEFAULT,
    Disks,
    LoopbackVolume,
    PowerCutWay,
    no_disks,
    release_abandoned,
    size_bytes,
)
from soak.servers.server import EventListener, Server
from soak.servers.state import Pinned
from soak.servers.versions import POSTGRES as NEWEST_POSTGRES
from soak.servers.versions import VALKEY, Release, ServerVersion, redis_version

MEMORY_DEFAULT = "1g"
CPUS_DEFAULT = 1.0
_IDENTITY_BYTES = 6


class DockerTestbed(ManagedServers):
    """Servers as containers, on a network of their own. The ledger is never one of them."""

    kind = BedKind.DOCKER

    def __init__(
        self,
        data_dir: Path,
        *,
        redis_version: ServerVersion = VALKEY,
        postgres_version: ServerVersion = NEWEST_POSTGRES,
        redis_image: str | None = None,
        postgres_image: str | None = None,
        redis_upgrade: ServerVersion | None = None,
        redis_upgrade_image: str | None = None,
        memory: str = MEMORY_DEFAULT,
        cpus: float = CPUS_DEFAULT,
        redis_options: Mapping[str, str] | None = None,
        postgres_options: Mapping[str, str] | None = None,
        proxied: bool = False,
        power_cuts: bool = False,
        power_cut_by: PowerCutWay = "auto",
        disk_size: str = SIZE_DEFAULT,
        on_event: EventListener | None = None,
    ) -> None:
        """Choose the servers; an image of one's own takes the place of the official one of that version.

        For power cuts each has a disk of its own here, which the engine mounts for it; where there can be none,
        `no_power_cuts` says why. A Redis is upgraded to the given version or image, or else to the next one whose
        official image is here.
        """
        self._data_dir = data_dir.resolve()
        super().__init__(
            self._data_dir / FOLDER_NAME / ownership.DOCKER_FOLDER,
            redis_options=redis_options,
            postgres_options=postgres_options,
            proxied=proxied,
            on_event=on_event,
        )
        self._power_cuts = power_cuts
        self._disks = Disks(self._folder, size=size_bytes(disk_size))
        self.no_power_cuts: str | None = None if power_cuts else "the testbed was started without power cuts"
        if power_cuts and power_cut_by == "shim":
            self.no_power_cuts = (
                "the shim is for servers from packages, not for what runs in a container; "
                "set testbed.power_cut = filesystem, or testbed.kind = local"
            )
        self._redis_version = redis_version
        self._postgres_version = postgres_version
        self._redis_image = redis_image or redis_version.image
        self._postgres_image = postgres_image or postgres_version.image
        self._redis_upgrade: Release | None = None
        if redis_upgrade is not None or redis_upgrade_image is not None:
            self._redis_upgrade = Release(redis_upgrade or VALKEY, redis_upgrade_image)
        self._memory = memory
        self._cpus = cpus
        self._place: Place | None = None

    async def discard(self) -> None:
        if (identity := self._state.identity) is not None:
            await asyncio.to_thread(_remove_volumes, identity)
        await self._disks.close()
        await super().discard()

    async def _enter(self) -> None:
        if self._state.identity is None:
            self._state.identity = secrets.token_hex(_IDENTITY_BYTES)
            self._save()  # before anything is made that is known by it
        try:
            self._place = await asyncio.to_thread(self._take_possession, self._state.identity)
        except FAILURES as error:
            raise ServerUnreachableError(f"the Docker engine refuses ({one_line(error)}); see what it says") from error

    def _take_possession(self, identity: str) -> Place:
        client = connect()
        try:
            self._check_no_other_owner(client, identity)
            ownership.remove_leftovers(client)
            release_abandoned()  # what no engine has mounted any more
            if self._power_cuts and self.no_power_cuts is None:
                self.no_power_cuts = no_disks() or no_disks_in(client)
            place = Place(
                client=client,
                prefix=f"soak-{identity}",
                labels=ownership.labels(identity, self._data_dir),
                memory=self._memory,
                cpus=self._cpus,
            )
            client.networks.create(place.network, driver="bridge", labels=place.labels)
        except BaseException:
            client.close()
            raise
        return place

    def _check_no_other_owner(self, client: Any, identity: str) -> None:
        for container in client.containers.list(all=True, filters=ownership.of(identity), ignore_removed=True):
            if ownership.is_owned_by_another(container.labels):
                raise UsageError(
                    f"process {container.labels[ownership.OWNER_LABEL].partition(':')[0]} runs the servers of "
                    f"{self._data_dir}; stop it first or choose another folder with --data-dir"
                )

    async def _prepare(self, kind: str) -> Server:
        disk = await self._disk_of(kind) if kind != LEDGER else None
        server = await super()._prepare(kind)
        server.vessel.power = disk
        return server

    async def _disk_of(self, kind: str) -> LoopbackVolume | None:
        """Return a disk of its own for a server that has or should have one."""
        if not self._disks.has(kind):
            if not self._power_cuts or self.no_power_cuts is not None:
                return None
            if await asyncio.to_thread(_has_volume, self._where(), kind):
                self.no_power_cuts = (
                    f"the data of {kind} was begun in a volume of the Docker engine; choose another data folder"
                )
                return None
        return await self._disks.take(kind, None)

    async def _leave(self) -> None:
        await self._disks.close()
        place, self._place = self._place, None
        if place is not None:
            await asyncio.to_thread(_give_up, place)

    def _make(self, kind: str, pinned: Pinned, *, fresh: bool) -> Server:
        if kind == LEDGER:
            raise UsageError("the ledger is never in Docker, where a fault could reach it; take a local testbed for it")
        if kind == "redis":
            recipe = RedisRecipe(self._redis_version, self._redis_image, pinned.password)
            if pinned.version is not None:
                recipe = recipe.of(Release(redis_version(pinned.version), pinned.program))
            return ContainedRedis(kind, pinned, self._vessel(kind, pinned, recipe, self._redis_options), fresh=fresh)
        image, options = self._postgres_image, self._postgres_options
        if kind == POSTGRES:
            first = PostgresRecipe(self._postgres_version, image, pinned.password)
            return ContainedPostgres(kind, pinned, self._vessel(kind, pinned, first, options), fresh=fresh)
        primary = self._primary()
        second = ReplicaRecipe(
            self._postgres_version, image, pinned.password, name=kind, primary=self._where().name(POSTGRES)
        )
        vessel = self._vessel(kind, pinned, second, options)
        return ContainedReplica(kind, pinned, vessel, fresh=fresh, primary=primary)

    def _vessel(
        self, kind: str, pinned: Pinned, recipe: RedisRecipe | PostgresRecipe, options: Mapping[str, str]
    ) -> ContainerVessel:
        return ContainerVessel(
            kind,
            self._folder / kind,
            pinned,
            recipe,
            self._where(),
            options,
            upgrade=self._redis_upgrade,
            on_change=self._save,
        )

    def _where(self) -> Place:
        if self._place is None:
            raise TypeError("asked before the testbed was opened")
        return self._place


def _has_volume(place: Place, kind: str) -> bool:
    try:
        place.client.volumes.get(place.name(kind))
    except docker.errors.NotFound:
        return False
    return True


def _give_up(place: Place) -> None:
    try:
        for network in place.client.networks.list(names=[place.network]):
            ownership.remove(network)
    finally:
        place.client.close()


def _remove_volumes(identity: str) -> None:
    client: Any = connect()
    try:
        for volume in client.volumes.list(filters=ownership.of(identity)):
            ownership.remove(volume)
    finally:
        client.close()
