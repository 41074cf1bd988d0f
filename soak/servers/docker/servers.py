"""The servers under test of one data folder, as containers that the next start finds again."""

from __future__ import annotations

import asyncio
import secrets
from pathlib import Path
from typing import Any, Unpack

import docker.errors

from soak.errors import ServerUnreachableError, UsageError
from soak.servers.docker import ownership
from soak.servers.docker.container import ContainerBackend, DockerSite
from soak.servers.docker.engine import FAILURES, connect, one_line, why_elsewhere
from soak.servers.docker.node_containers import NodeContainers
from soak.servers.docker.recipes import Recipe
from soak.servers.kinds import BackendKind, PostgresTopology, RedisTopology, Replication, ServerKind
from soak.servers.managed import ManagedOptions, ManagedServers
from soak.servers.power_cut import no_disks, release_abandoned
from soak.servers.process_backend import ProcessSite
from soak.servers.server import Server
from soak.servers.servers import FOLDER_NAME
from soak.servers.state import Pinned
from soak.servers.versions import POSTGRES, VALKEY, ServerRelease, ServerVersion

MEMORY_DEFAULT = "1g"
CPUS_DEFAULT = 1.0
_IDENTITY_BYTES = 6


class DockerServers(ManagedServers):
    """Servers as containers, on a network of their own. The ledger is never one of them."""

    backend = BackendKind.DOCKER

    def __init__(
        self,
        data_dir: Path,
        *,
        redis_version: ServerVersion = VALKEY,
        redis_topology: RedisTopology = RedisTopology.SINGLE,
        postgres_version: ServerVersion = POSTGRES,
        postgres_topology: PostgresTopology = PostgresTopology.SINGLE,
        postgres_replication: Replication = Replication.AUTO,
        redis_image: str | None = None,
        postgres_image: str | None = None,
        redis_upgrade: ServerVersion | None = None,
        redis_upgrade_image: str | None = None,
        memory: str = MEMORY_DEFAULT,
        cpus: float = CPUS_DEFAULT,
        **options: Unpack[ManagedOptions],
    ) -> None:
        """Choose the servers; an image of one's own takes the place of the official one of that version.

        For power cuts each has a disk of its own here, which the engine mounts for it. A Redis is upgraded to the
        given version or image, or else to the next one whose official image is here.
        """
        self._data_dir = data_dir.resolve()
        super().__init__(self._data_dir / FOLDER_NAME / ownership.DOCKER_FOLDER, options)
        if self._power_cuts and self._power_cut_by == "shim":
            self.no_power_cuts = (
                "the shim is for servers from packages, not for what runs in a container; "
                "set testbed.power_cut = filesystem, or testbed.kind = local"
            )
        self.redis_version = redis_version
        self.redis_topology = redis_topology
        self.postgres_version = postgres_version
        self.postgres_topology = postgres_topology
        self.postgres_replication = postgres_replication
        self.redis_image = redis_image or redis_version.image
        self.postgres_image = postgres_image or postgres_version.image
        self._redis_upgrade: ServerRelease | None = None
        if redis_upgrade is not None or redis_upgrade_image is not None:
            self._redis_upgrade = ServerRelease(redis_upgrade or VALKEY, redis_upgrade_image)
        self._memory = memory
        self._cpus = cpus
        self._site: DockerSite | None = None

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
            self._site = await asyncio.to_thread(self._take_possession, self._state.identity)
        except FAILURES as error:
            raise ServerUnreachableError(f"the Docker engine refuses ({one_line(error)}); see what it says") from error

    def _take_possession(self, identity: str) -> DockerSite:
        client = connect()
        try:
            self._check_no_other_owner(client, identity)
            ownership.remove_leftovers(client)
            release_abandoned()  # what no engine has mounted any more
            if self._power_cuts and self.no_power_cuts is None:
                elsewhere = why_elsewhere(client)
                self.no_power_cuts = no_disks() or (elsewhere and f"no power cuts by file system: {elsewhere}")
            site = DockerSite(
                client=client,
                prefix=f"soak-{identity}",
                labels=ownership.labels(identity, self._data_dir),
                memory=self._memory,
                cpus=self._cpus,
            )
            client.networks.create(site.network, driver="bridge", labels=site.labels)
        except BaseException:
            client.close()
            raise
        return site

    def _check_no_other_owner(self, client: Any, identity: str) -> None:
        for container in client.containers.list(all=True, filters=ownership.of(identity), ignore_removed=True):
            if ownership.is_owned_by_another(container.labels):
                raise UsageError(
                    f"process {container.labels[ownership.OWNER_LABEL].partition(':')[0]} runs the servers of "
                    f"{self._data_dir}; stop it first or choose another folder with --data-dir"
                )

    def _wants_disks(self) -> bool:
        return self._power_cuts and self.no_power_cuts is None

    async def _no_disk_for(self, kind: ServerKind) -> str | None:
        if await asyncio.to_thread(_has_volume, self.site, kind.name):
            return f"the data of {kind.name} was begun in a volume of the Docker engine; choose another data folder"
        return None

    async def _leave(self) -> None:
        await self._disks.close()
        site, self._site = self._site, None
        if site is not None:
            await asyncio.to_thread(_give_up, site)

    def _make(self, kind: ServerKind, pinned: Pinned, *, fresh: bool) -> Server:
        return kind.support.container(self, kind, pinned, fresh=fresh)

    def container(self, kind: ServerKind, pinned: Pinned, recipe: Recipe) -> ContainerBackend:
        """Return a container of this kind of server, made by this recipe."""
        return ContainerBackend(
            kind.name,
            self._folder / kind.name,
            pinned,
            recipe,
            self.site,
            self.options_of(kind),
            upgrade=self._redis_upgrade,
            on_change=self._save,
        )

    def site_of_nodes(self, kind: ServerKind, pinned: Pinned, image: str) -> ProcessSite:
        """Return where the nodes of a group live: in folders here. Raises `UsageError` if the engine is elsewhere."""
        if (elsewhere := why_elsewhere(self.site.client)) is not None:
            raise UsageError(f"{kind.name} cannot be a group in containers: {elsewhere}")
        return ProcessSite(
            kind.name, self._folder / kind.name, pinned, self._save, starter=NodeContainers(self.site, image)
        )

    @property
    def site(self) -> DockerSite:
        """Where the containers are."""
        if self._site is None:
            raise TypeError("asked before the servers were opened")
        return self._site


def _has_volume(site: DockerSite, name: str) -> bool:
    try:
        site.client.volumes.get(site.name(name))
    except docker.errors.NotFound:
        return False
    return True


def _give_up(site: DockerSite) -> None:
    try:
        own = ownership.of(site.labels[ownership.IDENTITY_LABEL])
        for container in site.client.containers.list(all=True, filters=own, ignore_removed=True):
            ownership.remove_container(container, politely=True)  # of a node that has ended
        for network in site.client.networks.list(names=[site.network]):
            ownership.remove(network)
    finally:
        site.client.close()


def _remove_volumes(identity: str) -> None:
    client: Any = connect()
    try:
        for volume in client.volumes.list(filters=ownership.of(identity)):
            ownership.remove(volume)
    finally:
        client.close()
