"""A server as a container: its data in a volume with a name, its port on the loopback address and always the same.

A container is created for each start and removed when the server has ended, so that nothing of it is left lying
about; what must last is in the volume. Calls of the engine block, and so are made in threads, one at a time.

For power cuts the data is on a disk of ours, which the engine mounts as that volume: from a loop device that goes with
its last mount, so that nothing of it is left when the container is gone, whoever is there to see it. The volume then
holds nothing by itself and is created again, too.
"""

from __future__ import annotations

import contextlib
import io
import tarfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import docker.errors
import docker.utils
from docker.types import Healthcheck, Mount

from soak.errors import ServerUnreachableError, UsageError
from soak.proc import tree
from soak.servers.backend import PortTakenError
from soak.servers.docker.engine import (
    ASK_SECONDS,
    FAILURES,
    KILL_SECONDS_MAX,
    POLL_SECONDS,
    EngineBackend,
    missing_image,
    one_line,
)
from soak.servers.docker.ownership import SERVER_LABEL
from soak.servers.docker.recipes import Recipe
from soak.servers.ports import HOST
from soak.servers.power_cut import CutPower, LoopbackVolume
from soak.servers.power_cut.loopback_volume import FILE_SYSTEM, MOUNT_OPTIONS
from soak.servers.state import Pinned
from soak.servers.versions import STEPS, ServerRelease, next_release

LOG_LINES_KEPT_MAX = 2_000
LOG_BYTES_MAX = 8 * 2**20
PROCESSES_MAX = 1_024
PAUSE_TRIES_MAX = 5
_HEALTH_INTERVAL_NS = 5 * 10**9
_HEALTH_TIMEOUT_NS = 3 * 10**9
_HEALTH_RETRIES = 3
_PORT_TAKEN = ("port is already allocated", "address already in use")


class DockerSite(NamedTuple):
    """Where the containers of one data folder are."""

    client: Any
    prefix: str
    """Of all names."""
    labels: dict[str, str]
    memory: str
    """The limit of each container, as Docker writes it: `512m`, `2g`."""
    cpus: float

    @property
    def network(self) -> str:
        return self.prefix

    def name(self, kind: str) -> str:
        """Return the name of this server's container, and of its volume; inside the network it is its host name."""
        return f"{self.prefix}-{kind}"


class ContainerBackend(EngineBackend):
    """Runs one container."""

    def __init__(
        self,
        kind: str,
        folder: Path,
        pinned: Pinned,
        recipe: Recipe,
        site: DockerSite,
        options: Mapping[str, str],
        *,
        upgrade: ServerRelease | None = None,
        on_change: Callable[[], None],
    ) -> None:
        """Run by this recipe; when upgraded, become the given release, or else the next whose image is here."""
        super().__init__(f"{recipe.version.title} for {kind}", folder, options, site.name(kind))
        self.pinned = pinned
        self._kind = kind
        self._recipe = recipe
        self._site = site
        self._container: Any = None
        self._upgrade = upgrade
        self._on_change = on_change
        self._releases_here: list[ServerRelease] = []
        self.memory_bytes = int(docker.utils.parse_bytes(site.memory))

    @property
    def _disk(self) -> LoopbackVolume | None:
        """The disk of its own, which the engine mounts as its volume."""
        return self.power if isinstance(self.power, LoopbackVolume) else None

    @property
    def working_folder(self) -> Path:
        raise UsageError(f"{self.title} keeps its data in the Docker volume {self._name}, not in a folder here")

    @property
    def no_power_cut(self) -> str | None:
        if self._disk is not None:
            return None
        return "its volume is on the disk of the Docker engine, which goes on; start it with power cuts"

    async def launch(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            await self._call(self._launch)
        except docker.errors.ImageNotFound as error:
            raise ServerUnreachableError(missing_image(self.title, self._recipe.image)) from error
        except FAILURES as error:
            if any(words in str(error) for words in _PORT_TAKEN):
                raise PortTakenError(self.title, self.pinned.port) from error
            raise ServerUnreachableError(
                f"{self.title} cannot be started from image {self._recipe.image} ({one_line(error)}); "
                "see what the Docker engine says"
            ) from error

    async def how_it_ended(self) -> str | None:
        if self._container is None:
            return self._ended or "it was not started"
        return await super().how_it_ended()

    def what_is_wrong(self) -> str | None:
        disk = self._disk
        if disk is not None and self._pid is not None and not disk.holds(self._data_from_outside()):
            return f"does not run on its disk {disk.image}: the Docker engine does not see what is mounted here"
        return None

    async def wipe(self) -> None:
        await self._do("wiped", self._wipe)

    async def cut_power(self) -> CutPower | None:
        await self._do("looked at", self._look)
        if self._pid is not None:
            # It is frozen first: a server that saw its disk fail would say so, and not just be gone. By signals, for
            # the engine's own way to pause fails now and then where a container is at its limit.
            await tree.freeze(self._pid)
        await self._do("cut off from its power", self._cut_power)
        return None

    def next_release(self) -> ServerRelease:
        self._recipe.of(ServerRelease(self._recipe.version))
        now, wanted = self._recipe.version, self._upgrade
        if wanted is not None:
            if not wanted.version.is_upgrade_of(now):
                raise UsageError(
                    f"{wanted.version.title} is no upgrade of {now.title}; name another (testbed.redis_upgrade)"
                )
            return wanted
        release = next_release(now, self._releases_here)
        if release is None:
            names = ", ".join(step.image for step in STEPS if step.is_upgrade_of(now)) or "none"
            raise UsageError(f"no image of a newer server than {now.title} is here; there could be: {names}")
        return release

    async def upgrade(self) -> None:
        release = self.next_release()
        self._recipe = self._recipe.of(release)
        self.title = f"{release.version.title} for {self._kind}"
        self.pinned.version, self.pinned.program = release.version.name, self._recipe.image
        self._on_change()

    # In threads ---------------------------------------------------------------------------------------------

    def _launch(self) -> None:
        self._remove_old()
        try:
            self._site.client.volumes.create(
                self._name, labels={**self._site.labels, SERVER_LABEL: self._kind}, driver_opts=self._volume_options()
            )
            container = self._create()
            self._container, self._ended = container, None
            try:
                container.put_archive("/", _archive(self._recipe.files(self.options)))
                container.start()
                self._look()
                self._releases_here = [ServerRelease(step) for step in STEPS if self._is_here(step.image)]
            except BaseException:
                self._remove(container)
                raise
        finally:
            if self._disk is not None:
                self._disk.let_go()

    def _volume_options(self) -> dict[str, str]:
        if self._disk is None:
            return {}
        return {"type": FILE_SYSTEM, "device": str(self._disk.attach()), "o": ",".join(MOUNT_OPTIONS)}

    def _is_here(self, image: str) -> bool:
        try:
            self._site.client.images.get(image)
        except docker.errors.ImageNotFound:
            return False
        return True

    def _create(self) -> Any:
        recipe, site = self._recipe, self._site
        image = site.client.images.get(recipe.image)
        made_for = image.attrs["Config"]
        command = recipe.command(made_for.get("Cmd") or [])
        return site.client.containers.create(
            image,
            command,
            entrypoint=recipe.entrypoint(made_for.get("Entrypoint") or []),
            environment=recipe.environment(),
            healthcheck=Healthcheck(
                test=["CMD", *recipe.health_check(command)],
                interval=_HEALTH_INTERVAL_NS,
                timeout=_HEALTH_TIMEOUT_NS,
                retries=_HEALTH_RETRIES,
            ),
            hostname=self._name,
            labels={**site.labels, SERVER_LABEL: self._kind},
            mem_limit=site.memory,
            memswap_limit=site.memory,  # the same: no swap
            mounts=[Mount(recipe.mount, self._name, type="volume")],
            name=self._name,
            nano_cpus=int(site.cpus * 1e9),
            network=site.network,
            pids_limit=PROCESSES_MAX,
            ports={f"{recipe.port}/tcp": (HOST, self.pinned.port)},
            stop_signal=recipe.stop_signal,
        )

    def _look(self) -> None:
        if self._container is None:
            return
        try:
            self._container.reload()
        except docker.errors.NotFound:
            self._ended, self._pid, self._container = f"container {self._name} is gone", None, None
            return
        state = self._container.attrs["State"]
        self._pid = state["Pid"] or None
        if state["Status"] in ("exited", "dead"):
            memory = ", out of memory" if state["OOMKilled"] else ""
            self._ended = f"container {self._name} exit status {state['ExitCode']}{memory}"

    def _end(self, seconds: int) -> None:
        if self._container is None:
            return
        self._look()
        if self._container is not None and self._container.status == "paused":
            self._container.unpause()  # a paused one cannot end by itself
        if self._container is not None:
            self._container.stop(timeout=seconds)
            self._remove(self._container)

    def _pause(self) -> None:
        # Where a container is at its limit the kernel does not always freeze it at the first try.
        for _ in range(PAUSE_TRIES_MAX - 1):
            with contextlib.suppress(docker.errors.APIError):
                self._container.pause()
                return
            time.sleep(ASK_SECONDS)
        self._container.pause()

    def _unpause(self) -> None:
        self._container.unpause()

    def _kill(self) -> None:
        if self._container is None:
            return
        with contextlib.suppress(docker.errors.APIError):  # it had ended by itself
            self._container.kill("SIGKILL")
        deadline = time.monotonic() + KILL_SECONDS_MAX
        while self._ended is None and time.monotonic() < deadline:
            self._look()
            time.sleep(POLL_SECONDS)
        if self._container is not None:
            self._remove(self._container)

    def _cut_power(self) -> None:
        disk = self._disk
        if disk is None:
            raise TypeError("asked although it has no disk of its own")
        try:
            if self._pid is not None:
                disk.cut(self._data_from_outside())
        finally:
            self._kill()

    def _data_from_outside(self) -> Path:
        """Return the folder of its volume as a process inside sees it, wherever the engine has mounted that."""
        return Path(f"/proc/{self._pid}/root{self._recipe.mount}")

    def _remove(self, container: Any) -> None:
        self._keep_log()
        container.remove(force=True, v=True)
        self._container, self._pid = None, None
        if self._disk is not None:
            self._remove_volume()

    def _remove_old(self) -> None:
        if self._container is not None:
            self._remove(self._container)
        # One that an interrupted start left.
        with contextlib.suppress(docker.errors.NotFound):
            self._site.client.containers.get(self._name).remove(force=True, v=True)
        if self._disk is not None:
            self._remove_volume()

    def _wipe(self) -> None:
        if self._disk is not None:
            self._disk.empty()
        else:
            self._remove_volume()

    def _remove_volume(self) -> None:
        with contextlib.suppress(docker.errors.NotFound):
            self._site.client.volumes.get(self._name).remove()

    def _log(self, lines_max: int) -> str:
        if self._container is None:
            return ""
        return str(self._container.logs(tail=lines_max).decode("utf-8", "replace"))

    def _keep_log(self) -> None:
        # The engine forgets it together with the container.
        with contextlib.suppress(*FAILURES):
            kept = self.log_path.stat().st_size if self.log_path.exists() else 0
            if kept > LOG_BYTES_MAX:
                self.log_path.replace(self.log_path.with_suffix(".log.1"))
            with self.log_path.open("a", encoding="utf-8") as file:
                file.write(self._log(LOG_LINES_KEPT_MAX))


def _archive(files: dict[str, str]) -> bytes:
    """Return the files with their folders as a tar archive; whoever the server runs as may read them."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for folder in sorted({str(PurePosixPath(path).parent) for path in files}):
            member = tarfile.TarInfo(folder.lstrip("/"))
            member.type, member.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(member)
        for path, text in files.items():
            member = tarfile.TarInfo(path.lstrip("/"))
            member.size, member.mode = len(text.encode()), 0o644
            archive.addfile(member, io.BytesIO(text.encode()))
    return buffer.getvalue()
